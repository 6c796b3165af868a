#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "detent/cli/network/commands.h"
#include "detent/cli/network/loaded_network.h"
#include "detent/cli/network/session.h"
#include "detent/cli/read_network.h"
#include "detent/cli/results.h"
#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/text_table.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/nonfinite_nodes.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/graph/node_names.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/plan.h"
#include "detent/workflows/network_values.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Expected output or value.
struct Expected {
  std::string name;
  std::string file;
  Tensor tensor;
};

struct Difference {
  double largest = 0;
  double relative = 0;
  size_t beyond = 0;
  double signal = 0;
  double noise = 0;
};

Difference difference(const ModelRun& run, const Tensor& got, const Tensor& wanted) {
  Difference result;
  const Tensor ours = to_float32(got);
  const Tensor theirs = to_float32(wanted);
  for (size_t i = 0; i < ours.values<float>().size(); ++i) {
    const auto a = static_cast<double>(ours.values<float>()[i]);
    const auto b = static_cast<double>(theirs.values<float>()[i]);
    if (a == b || (std::isnan(a) && std::isnan(b))) {
      if (std::isfinite(b)) result.signal += b * b;
      continue;
    }
    const double error = std::fabs(a - b);
    result.largest =
        std::max(result.largest, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
    if (b != 0) result.relative = std::max(result.relative, error / std::fabs(b));
    if (!(error <= run.atol + run.rtol * std::fabs(b))) ++result.beyond;
    result.signal += b * b;
    result.noise += error * error;
  }
  return result;
}

std::string statistics_text(const Tensor& tensor) {
  if (tensor.numel() == 0) return "";
  const Tensor floats = to_float32(tensor);
  const auto values = floats.values<float>();
  int64_t numbers = 0;
  float low = std::numeric_limits<float>::infinity();
  float high = -low;
  for (const float value : values) {
    if (std::isnan(value)) continue;
    ++numbers;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (numbers == 0) return "NaN";
  const std::string range = fmt::format("{:.6g} to {:.6g}", low, high);
  return numbers == tensor.numel() ? range : fmt::format("{}, {} x NaN", range, tensor.numel() - numbers);
}

/// By the engine that was asked for, or the fast one. Says so where a network that is quantized for integers
/// has formats without them.
std::unique_ptr<const Program> compiled(const ModelRun& run, Graph graph, CommandResults& results) {
  if (run.engine && *run.engine != Engine::kSimulation) {
    check_engine(graph, *run.engine);
    if (graph.requantization()) results.say(plan_summary(integer_plan_with_bodies(graph)) + "\n");
  }
  if (!run.engine && graph.requantization() && !run.before_quantization) {
    try {
      check_integer_execution(graph);
    } catch (const Error& error) {
      results.say(fmt::format("fake quantization, not integers: {}\n", error.what()));
    }
  }
  return program_of(std::move(graph), run.engine);
}

/// The outputs, and the values inside that the user named.
std::vector<NamedValue> wanted_values(const ModelRun& run, const Graph& graph) {
  std::vector<NamedValue> wanted = output_values(graph);
  for (const std::string& name : run.values) wanted.push_back({name, find_value(graph, name, "--value")});
  return wanted;
}

/// Read before anything is written.
std::vector<Expected> expected_values(const ModelRun& run, const std::vector<NamedValue>& values) {
  std::vector<Expected> expected;
  for (const auto& [name, file] : run.compare) {
    if (std::ranges::find(values, name, &NamedValue::name) == values.end()) {
      std::vector<std::string> known;
      for (const NamedValue& known_value : values) known.push_back(known_value.name);
      fail("--compare: {}", unknown_name_message("output or value", name, known));
    }
    expected.push_back({name, file, read_array(file)});
  }
  return expected;
}

/// How many elements differ by too much.
size_t compare(const ModelRun& run, const std::vector<NamedValue>& values,
               const std::vector<Expected>& expected, CommandResults& results) {
  if (expected.empty()) return 0;
  TextTable table({"compared", "largest difference", "relative", "beyond", "SQNR"});
  size_t beyond = 0;
  for (const auto& [name, file, wanted] : expected) {
    const auto value = std::ranges::find(values, name, &NamedValue::name);
    if (wanted.shape() != value->tensor.shape()) {
      fail("--compare {}: got shape {}, {} has {}", name, shape_text(value->tensor.shape()), file,
           shape_text(wanted.shape()));
    }
    const Difference found = difference(run, value->tensor, wanted);
    beyond += found.beyond;
    const double sqnr = 10 * std::log10(found.signal / found.noise);
    table.add_row({name, fmt::format("{:.3g}", found.largest), fmt::format("{:.3g}", found.relative),
                   std::to_string(found.beyond),
                   found.noise == 0 ? "equal" : fmt::format("{:.1f} dB", sqnr)});
  }
  results.say("\n");
  results.add_table("compared", table);
  return beyond;
}

/// Other characters than those of most files' names are replaced.
std::string array_file_name(std::string name, const std::string& ending) {
  for (char& c : name) {
    const bool fits = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
    if (!fits) c = '_';
  }
  return name + ending + ".npy";
}

/// A name of its own for each: NAME.npy where that is a file's name, else with other characters in places,
/// and a number where that is another's.
std::vector<fs::path> choose_files(const ModelRun& run, const std::vector<NamedValue>& values) {
  std::set<std::string> taken;
  std::vector<fs::path> files(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string name = array_file_name(values[i].name, "");
    if (name == values[i].name + ".npy" && taken.insert(name).second)
      files[i] = fs::path(*run.output_dir) / name;
  }
  for (size_t i = 0; i < values.size(); ++i) {
    std::string name = array_file_name(values[i].name, "");
    for (int number = 2; files[i].empty(); ++number) {
      if (taken.insert(name).second) files[i] = fs::path(*run.output_dir) / name;
      name = array_file_name(values[i].name, fmt::format("_{}", number));
    }
  }
  for (const fs::path& file : files)
    claim_output(file, "--output-dir", run.overwrite, MissingFolder::kIsCreated);
  return files;
}

void write_arrays(const ModelRun& run, const std::vector<NamedValue>& values,
                  const std::vector<fs::path>& paths, CommandResults& results) {
  std::string renamed;
  Table files;
  for (size_t i = 0; i < values.size(); ++i) {
    write_npy(paths[i], values[i].tensor);
    files[values[i].name] = paths[i].string();
    if (paths[i].stem() != values[i].name)
      renamed += fmt::format("{} in {}\n", values[i].name, paths[i].filename().string());
  }
  results.say(fmt::format("\n{} arrays in {}\n{}", values.size(), *run.output_dir, renamed));
  results.add("files", std::move(files));
}

/// A model of float64 may have finite numbers where float32, in which networks compute, has none.
void warn_of_nonfinite(const ModelRun& run, const std::vector<Tensor>& inputs,
                       const std::vector<NamedValue>& values) {
  const auto spoilt =
      std::ranges::find_if_not(values, [](const NamedValue& value) { return value.tensor.is_finite(); });
  if (spoilt == values.end() || !std::ranges::all_of(inputs, &Tensor::is_finite)) return;
  const Graph graph = read_network(run.model, run.given);
  const std::vector<std::string> nodes = nonfinite_nodes(*FastExecutor().compile(graph), inputs);
  if (nodes.empty()) return;
  log_warning("{} has NaN or infinite elements: node \"{}\" ({}) is the first that gives such in float32",
              spoilt->name, nodes.front(), graph.node(nodes.front()).op);
}

}  // namespace

void run_model(const TorchCommand& command) {
  const ModelRun& run = command.model_run;
  CommandResults results(command.name, {.json = command.options.json});
  Graph graph = read_network(run.model, run.given);
  std::vector<NamedValue> values = wanted_values(run, graph);
  const std::vector<Tensor> inputs = input_tensors(graph, run.given, given_sizes(graph, run.given));
  const std::vector<Expected> expected = expected_values(run, values);
  const std::vector<fs::path> files = run.output_dir ? choose_files(run, values) : std::vector<fs::path>();
  compute_values(std::move(graph), inputs, values, {run.before_quantization, run.as_integers},
                 [&](Graph compiling) { return compiled(run, std::move(compiling), results); });
  TextTable table({"value", "dtype", "shape", "range"});
  for (const NamedValue& value : values) {
    table.add_row({value.name, std::string(dtype_name(value.tensor.dtype())),
                   shape_text(value.tensor.shape()), statistics_text(value.tensor)});
  }
  results.add_table("values", table);
  warn_of_nonfinite(run, inputs, values);
  if (run.output_dir) write_arrays(run, values, files, results);
  const size_t beyond = compare(run, values, expected, results);
  results.finish();
  if (beyond > 0)
    fail("{} elements differ by more than {} + {} of the expected value", beyond, run.atol, run.rtol);
}

}  // namespace detent
