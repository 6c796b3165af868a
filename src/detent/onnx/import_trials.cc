#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include "detent/core/error.h"
#include "detent/core/text.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/importer.h"
#include "detent/onnx/open_sizes.h"

namespace detent {
namespace {

/// Every input is a tensor of floats of which the first size is 1.
bool is_for_one_sample(const onnx::GraphProto& graph) {
  std::set<std::string> initializers;
  for (const onnx::TensorProto& tensor : graph.initializer()) initializers.insert(tensor.name());
  bool any = false;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    if (initializers.contains(input.name())) continue;
    const auto& type = input.type().tensor_type();
    if (type.shape().dim_size() < 2 || type.shape().dim(0).dim_value() != 1) return false;
    any = true;
  }
  return any;
}

/// Nothing where the outputs do not have the batch that the trial frees.
std::optional<Graph> imported(OnnxImporter& importer, bool frees_batch) {
  Graph graph = importer.run();
  return frees_batch && !importer.outputs_have_batch() ? std::nullopt : std::optional(std::move(graph));
}

bool differ_in_sizes_alone(const ImportTrial& a, const ImportTrial& b) {
  return a.second_is_batch == b.second_is_batch && a.drops_branches == b.drops_branches;
}

/// Other readings of what the model leaves open. Branches that a condition chooses at run time rarely take
/// the same sizes: where the usual pairs do not fit both, sizes of one do.
std::vector<ImportTrial> other_trials(const OnnxImporter& usual, const ImportTrial& first) {
  std::vector<ImportTrial> trials;
  for (const bool drops_branches : {false, true}) {
    if (drops_branches && !usual.chooses_branches()) continue;
    if (!drops_branches && usual.has_unknown_counts()) continue;  // which no sizes change
    for (const bool second_is_batch : {false, true}) {
      if (second_is_batch && !usual.has_open_second_sizes()) continue;
      for (const OpenSizes& sizes : kTriedSizes) {
        const bool is_usual = sizes.size == kTriedSizes[0].size;
        const bool is_close = sizes.part > kTriedSizes[0].part;
        if (is_usual ||
            (usual.has_open_sizes() && (!is_close || drops_branches || !usual.chooses_branches())))
          trials.push_back({sizes, first.frees_batch, second_is_batch, drops_branches, first.kept_loops});
      }
    }
  }
  std::erase_if(trials, [&](const ImportTrial& trial) {
    return trial.sizes.size == kTriedSizes[0].size && differ_in_sizes_alone(trial, first);
  });
  return trials;
}

/// Found out by trials that bring nothing in.
struct TrialFindings {
  OnnxLoops unwritten_loops = {};   // which could not be written out
  std::vector<int64_t> sizes = {};  // of what does not fit, in the usual trial
  bool follows_sizes = false;       // whether other sizes of open dimensions give another error
};

/// With the first trial that the network takes and that hides no sizes; else with the first that it takes.
/// Throws the Error of the usual one where it takes none, with what helps a network that takes certain sizes
/// alone.
std::optional<Graph> import_with_open_sizes(OnnxModelFile& file, const OnnxImportOptions& options,
                                            const ImportTrial& usual, TrialFindings& findings) {
  constexpr int kMostAlike = 3;
  int alike = 0;  // errors of other sizes that are the usual one: they have nothing to do with it
  std::vector<ImportTrial> trials = {usual};
  std::exception_ptr usual_error;
  std::string usual_text;
  bool advises_sizes = false;
  findings.follows_sizes = false;
  std::optional<Graph> hiding;
  for (size_t i = 0; i < trials.size(); ++i) {
    const ImportTrial trial = trials[i];
    if (i > 0 && !differ_in_sizes_alone(trials[i - 1], trial)) alike = 0;
    if (alike == kMostAlike) continue;
    OnnxImporter importer(file, options, trial);
    try {
      std::optional<Graph> graph = imported(importer, usual.frees_batch);
      if (!graph || !importer.has_hidden_sizes()) return graph;
      if (!hiding) hiding = std::move(graph);
    } catch (const Error& error) {
      if (i == 0) {
        usual_error = std::current_exception();
        usual_text = error.what();
        findings.sizes = importer.sizes_at_odds();
        advises_sizes = importer.advises_sizes();
      }
      const bool has_other_sizes = trial.sizes.size != kTriedSizes[0].size;
      if (has_other_sizes && usual_text == error.what()) ++alike;
      if (has_other_sizes && usual_text != error.what()) findings.follows_sizes = true;
    }
    findings.unwritten_loops.insert(importer.unwritten_loops().begin(), importer.unwritten_loops().end());
    if (i == 0) std::ranges::copy(other_trials(importer, usual), std::back_inserter(trials));
  }
  if (hiding) return hiding;
  if (!findings.follows_sizes || advises_sizes) std::rethrow_exception(usual_error);
  fail(
      "{} (no size that was tried for the dimensions that the model leaves open fits; where it takes certain "
      "sizes alone, --shape NAME=... gives them; Python: shapes)",
      usual_text);
}

/// `kept_loops` as a trial has them.
Graph import_with_batch(OnnxModelFile& file, const OnnxImportOptions& options, const OnnxLoops* kept_loops,
                        TrialFindings& findings) {
  std::optional<Graph> graph;
  if (options.frees_batch && is_for_one_sample(file.model().graph())) {
    try {
      graph =
          import_with_open_sizes(file, options, {.frees_batch = true, .kept_loops = kept_loops}, findings);
    } catch (const Error&) {
      // The network needs the size of 1: it is kept below, where an error of its own is thrown too.
    }
  }
  const ImportTrial usual{.kept_loops = kept_loops};
  try {
    if (!graph) graph = import_with_open_sizes(file, options, usual, findings);
  } catch (const Error&) {
    if ((options.shapes.empty() && !options.fixes_open) || options.fixes_first) throw;
    OnnxImportOptions fixing = options;
    fixing.fixes_first = true;
    graph = import_with_open_sizes(file, fixing, usual, findings);
  }
  return std::move(*graph);
}

std::string inputs_text(const Graph& graph) {
  std::vector<std::string> inputs;
  for (const auto& [name, type] : graph.input_types())
    inputs.push_back(fmt::format("{} {}", name, tensor_type_text(type)));
  return fmt::format("{}", fmt::join(inputs, ", "));
}

/// The network that the options fix sizes of, with a warning; nothing where it does not take them.
std::optional<Graph> import_with_fixed_sizes(OnnxModelFile& file, const OnnxImportOptions& options,
                                             const ImportTrial& trial, const std::string& fixed) {
  try {
    Graph graph = OnnxImporter(file, options, trial).run();
    file.warn(fmt::format("{}: the network takes no sizes that were tried but {}, which are fixed ({})",
                          printable(file.path().string()), fixed, inputs_text(graph)));
    return graph;
  } catch (const Error&) {
    return std::nullopt;  // it takes others, or none: the first error says so
  }
}

/// An import at certain sizes, and what became of it.
struct SizedImport {
  NamedSizes sizes = {};
  std::optional<Graph> graph = {};
  size_t refused = 0;  // nodes
  std::vector<int64_t> at_odds = {};
  std::vector<std::string> open = {};
};

SizedImport import_at(OnnxModelFile& file, OnnxImportOptions options, const OnnxLoops* kept_loops,
                      const NamedSizes& sizes) {
  options.sizes = sizes;
  SizedImport result{.sizes = sizes};
  OnnxImporter importer(file, options, {.kept_loops = kept_loops});
  try {
    result.graph = importer.run();
  } catch (const Error&) {
    result.at_odds = importer.sizes_at_odds();
  }
  result.refused = importer.refused();
  result.open = importer.open_names();
  std::erase_if(result.open, [&](const std::string& name) { return sizes.contains(name); });
  return result;
}

/// Fixes open dimensions one after the other at a size that does not fit, each so that fewer nodes are
/// refused than before: a trace of two inputs has a size for each.
std::optional<Graph> import_with_own_sizes(OnnxModelFile& file, const OnnxImportOptions& options,
                                           const OnnxLoops* kept_loops) {
  constexpr size_t kMostNames = 8;
  SizedImport best = import_at(file, options, kept_loops, {});
  if (best.open.size() < 2 || best.open.size() > kMostNames) return std::nullopt;
  for (bool improves = true; improves;) {
    improves = false;
    const SizedImport before = best;
    for (const std::string& name : before.open) {
      for (const int64_t size : before.at_odds) {
        NamedSizes sizes = before.sizes;
        sizes[name] = size;
        SizedImport tried = import_at(file, options, kept_loops, sizes);
        if (tried.graph) {
          file.warn(
              fmt::format("{}: the network takes no sizes that were tried but those of a trace, which "
                          "are fixed ({})",
                          printable(file.path().string()), inputs_text(*tried.graph)));
          return std::move(tried.graph);
        }
        if (tried.refused >= best.refused) continue;
        best = std::move(tried);
        improves = true;
      }
    }
  }
  return std::nullopt;
}

/// Shapes of ones for inputs of which every size is open: states before the first step.
InputShapes states_of_one(const onnx::GraphProto& graph) {
  InputShapes shapes;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const auto& dims = input.type().tensor_type().shape().dim();
    const auto is_open = [](const auto& dim) { return dim.dim_value() <= 0; };
    if (dims.size() > 1 && std::all_of(dims.begin() + 1, dims.end(), is_open))
      shapes.emplace(printable_line(input.name()), Shape(static_cast<size_t>(dims.size()), 1));
  }
  return shapes;
}

/// Whether an input leaves a size open.
bool has_open_inputs(const onnx::GraphProto& graph) {
  return std::ranges::any_of(graph.input(), [](const onnx::ValueInfoProto& input) {
    const auto& dims = input.type().tensor_type().shape().dim();
    return std::ranges::any_of(dims, [](const auto& dim) { return dim.dim_value() <= 0; });
  });
}

/// Whether open first sizes are those of samples, not of lists.
bool has_open_batches(const onnx::GraphProto& graph) {
  return std::ranges::none_of(graph.input(), [](const onnx::ValueInfoProto& input) {
    const auto& dims = input.type().tensor_type().shape().dim();
    return dims.size() == 1 && dims[0].dim_value() <= 0;
  });
}

/// A trace of one sample, in which nothing that does not fit says so.
std::optional<Graph> import_with_one_sample(OnnxModelFile& file, const OnnxImportOptions& options,
                                            const OnnxLoops* kept_loops) {
  if (!has_open_batches(file.model().graph())) return std::nullopt;
  return import_with_fixed_sizes(file, options, {.sizes = {.batch = 1}, .kept_loops = kept_loops},
                                 "1 samples at once");
}

/// Exporters that trace a run may declare a size open that a constant of the graph fixes. That constant does
/// not fit: of the sizes that were found there, one for each dimension that needs it, or the first that the
/// network takes for all open dimensions but the batch, or for the batch. Or states begin as one number, or a
/// run took one sample, which the exporter wrote down, or one step of it.
std::optional<Graph> import_with_traced_sizes(OnnxModelFile& file, const OnnxImportOptions& options,
                                              const OnnxLoops* kept_loops, const TrialFindings& findings) {
  std::vector<int64_t> sizes = findings.sizes;
  if (sizes.empty() && !findings.follows_sizes) return import_with_one_sample(file, options, kept_loops);
  std::optional<Graph> graph;
  OnnxImportOptions fixing = options;
  const InputShapes states = states_of_one(file.model().graph());
  fixing.shapes = states;
  const bool has_others = states.size() < static_cast<size_t>(file.model().graph().input_size());
  if (!states.empty() && has_others && !sizes.empty())
    graph =
        import_with_fixed_sizes(file, fixing, {.kept_loops = kept_loops}, "1 in inputs that are all open");
  if (!graph && !sizes.empty()) graph = import_with_own_sizes(file, options, kept_loops);
  fixing = options;
  fixing.fixes_open = true;
  for (size_t i = 0; i < sizes.size() && !graph; ++i)
    graph = import_with_fixed_sizes(file, fixing,
                                    {.sizes = {.size = sizes[i], .part = 1}, .kept_loops = kept_loops},
                                    fmt::format("{} in open dimensions", sizes[i]));
  sizes.push_back(1);
  for (size_t i = 0; i < sizes.size() && !graph; ++i)
    graph = import_with_fixed_sizes(file, options, {.sizes = {.batch = sizes[i]}, .kept_loops = kept_loops},
                                    fmt::format("{} samples at once", sizes[i]));
  for (size_t i = 1; i < std::size(kTriedSizes) && !graph; ++i) {
    OpenSizes of_one = kTriedSizes[i];
    of_one.batch = 1;
    graph = import_with_fixed_sizes(file, options, {.sizes = of_one, .kept_loops = kept_loops},
                                    "1 samples at once");
  }
  fixing = options;
  fixing.shapes = states;
  fixing.fixes_first = true;
  if (!states.empty() && has_others && !graph)
    graph = import_with_fixed_sizes(file, fixing, {.sizes = {.batch = 1}, .kept_loops = kept_loops},
                                    "1 in inputs that are all open and for the first size of others");
  return graph;
}

}  // namespace

/// Loops are kept only where the network cannot do without, and sizes fixed only where it does not take any.
Graph import_onnx(const std::filesystem::path& path, const OnnxImportOptions& options) {
  OnnxModelFile file(path);
  TrialFindings written_out;
  TrialFindings kept;
  std::optional<Graph> graph;
  std::exception_ptr last;
  std::vector<std::pair<const OnnxLoops*, const TrialFindings*>> failed;
  const auto take = [&](const OnnxLoops* kept_loops, TrialFindings& findings) {
    try {
      graph = import_with_batch(file, options, kept_loops, findings);
    } catch (const Error&) {
      last = std::current_exception();
      failed.emplace_back(kept_loops, &findings);
    }
  };
  const OnnxLoops& unwritten = written_out.unwritten_loops;
  take(nullptr, written_out);
  if (!graph && !unwritten.empty()) take(&unwritten, kept);
  const bool has_given_sizes = !options.shapes.empty() || options.fixes_open;
  const bool may_fix = !has_given_sizes && has_open_inputs(file.model().graph());
  for (size_t i = 0; i < failed.size() && !graph && may_fix; ++i)
    graph = import_with_traced_sizes(file, options, failed[i].first, *failed[i].second);
  if (!graph) std::rethrow_exception(last);
  file.warn_of_newer_versions();
  return with_independent_sizes(with_joined_batches(std::move(*graph)));
}

Graph import_onnx_at_any_size(const std::filesystem::path& path, const InputShapes& shapes,
                              std::string& reason) {
  try {
    return import_onnx(path, {.shapes = shapes});
  } catch (const Error& error) {
    std::optional<Graph> graph;
    try {
      graph = import_onnx(path, {.shapes = shapes, .fixes_open = true});
    } catch (const Error&) {
      // The first one says why no size would do.
    }
    if (!graph) throw;
    reason = error.what();
    return std::move(*graph);
  }
}

}  // namespace detent
