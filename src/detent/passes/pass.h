#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/process_group.h"
#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/files/output_folder.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/passes/calibration_set.h"

namespace detent {

struct QuantSpec;  // formats/quant_spec.h

/// Accuracy and loss of a classifier on labelled samples.
struct Score {
  double accuracy = 0;
  double standard_error = 0;  // of the accuracy
  double loss = 0;
};

/// Context of a graph that is the body of a loop.
struct BodyPlace {
  const Graph* network;  // around all loops, which takes the samples
  std::string prefix;    // "loop.", of the names of the body's nodes
};

/// Context of passes: output, messages, and execution of the network.
struct PassContext {
  /// Default folder of files; a pass's own path option wins.
  std::filesystem::path output_dir;
  /// Text for the user; the command line prints it.
  std::function<void(const std::string&)> report;
  /// Probable mistakes of the user.
  std::function<void(const std::string&)> warn;
  /// The training inputs in a random order, the same for all passes, and the batch size to which sample
  /// counts are rounded up.
  std::function<std::unique_ptr<CalibrationSet>()> open_calibration;
  int64_t batch_size = 1;
  /// Threads that prefetch inputs.
  int64_t loader_threads = 0;
  /// Micro-batches after which calibration saves its progress under output_dir; 0: never.
  int64_t checkpoint_every = 0;
  /// Runs graphs; a function, so that other pipelines need not load the executor.
  std::function<Executor&()> executor;
  /// Given: the graph is the body of a loop, and `executor` runs it with the network around.
  std::optional<BodyPlace> body;
  /// Score of a network on the validation samples; empty where those have no labels.
  std::function<Score(const Graph& graph)> score;
  /// The network before the first pass that chose weights: the reference of later passes.
  std::shared_ptr<const Graph> float_network;
  /// The workers of this pipeline. Each has the same graph; only the first writes files.
  ProcessGroup* group = &single_process();
  /// File and table of the running pass's options, for messages: `x.toml, [passes.quantize]`.
  std::string where;
  /// In the first process: files written here appear when the pipeline ends. nullptr: each file at once.
  std::shared_ptr<OutputFolder> outputs;
  /// Sample counts already warned about; shared by copies of the context.
  std::shared_ptr<int64_t> few_samples = std::make_shared<int64_t>(-1);

  /// Warns if there are fewer samples than `wanted`, once for all passes.
  void warn_of_few_samples(int64_t samples, int64_t wanted) const;
  /// The same without messages.
  PassContext quiet() const;
  /// The graph whose inputs the samples are.
  const Graph& sampled(const Graph& graph) const { return body ? *body->network : graph; }
  /// "" or what stands before the names of the graph's nodes.
  std::string prefix() const { return body ? body->prefix : ""; }

  /// Paths to write and to read what ends up at `path`.
  std::filesystem::path to_write(const std::filesystem::path& path) const {
    return outputs == nullptr ? path : outputs->staged(path);
  }
  std::filesystem::path to_read(const std::filesystem::path& path) const {
    return outputs == nullptr ? path : outputs->readable(path);
  }
};

/// Analysis passes only touch metadata, transform passes change the network, interface passes only write
/// files.
enum class PassKind { kAnalysis, kTransform, kInterface };
constexpr std::array<const char*, 3> enum_names(PassKind) { return {"analysis", "transform", "interface"}; }

/// Stage of a pass. Stages do not decrease within a pipeline; passes of stage any run anywhere.
enum class PassStage {
  kAny,
  kBeforeQuantizing,
  kQuantizing,
  kChoosingScales,
  kRoundingWeights,
  kAfterRounding
};
constexpr std::array<const char*, 6> enum_names(PassStage) {
  return {"any",
          "before quantizing",
          "quantizing",
          "choosing scales",
          "rounding weights",
          "after rounding weights"};
}

/// Possible changes of the graph by earlier passes.
struct EarlierPasses {
  bool change_network = false;  // nodes may be gone
  bool quantize = false;
};

/// A file or folder that an option names.
struct PassFile {
  std::string key;
  std::optional<std::filesystem::path> path;  // none: the default, in the output folder
  bool is_written = false;                    // or read
};

/// A pass with parsed options, checked as far as possible without a graph.
struct ParsedPass {
  std::function<void(Graph& graph, PassContext& context)> run;
  /// Throws Error, as `run` would, on what is wrong with these options for a graph, as far as that can be
  /// told when `earlier` passes have not run yet.
  std::function<void(const Graph& graph, const EarlierPasses& earlier)> check;
  std::vector<PassFile> files;
};

/// A step of a pipeline, registered by name in passes/registry.cc; made by make_pass (passes.h).
struct PassInfo {
  std::string name;
  PassKind kind = PassKind::kAnalysis;
  PassStage stage = PassStage::kAny;
  std::string help;
  std::vector<FieldDescription> options;
  std::string former_name = {};  // of an earlier version: still understood, with a warning
  /// Why it cannot choose weights of a format, "" if it can; nullptr: it can, or the weights decide.
  std::string (*weight_obstacle)(const QuantSpec& spec) = nullptr;
  /// Passes after it do not depend on changes by passes before it.
  bool replaces_graph = false;
  /// It changes layers in the bodies of loops too; the pipeline warns of the others that leave them.
  bool reaches_bodies = false;
  /// The only way to run a pass, so that none runs on options that were not checked. Throws Error, beginning
  /// with `where` (file and table).
  std::function<ParsedPass(const Table& options, const std::string& where)> parse;

  /// Parses and runs without a pipeline.
  void run(Graph& graph, const Table& table, PassContext& context) const {
    parse(table, context.where).run(graph, context);
  }
};

/// Runs the passes of `[passes]` in the order of the table, after all that can be known to be wrong with them
/// was checked (pipeline.h). `file` is the configuration's name, for messages.
void run_pipeline(Graph& graph, const Table& passes, const std::string& file, PassContext& context);

/// In alphabetical order.
std::span<const PassInfo> all_passes();
std::vector<std::string> pass_names();
/// By name or former name. Throws Error with the nearest known name.
const PassInfo& find_pass(std::string_view name);

inline bool has_option(const PassInfo& pass, std::string_view key) {
  return std::ranges::find(pass.options, key, &FieldDescription::name) != pass.options.end();
}

}  // namespace detent
