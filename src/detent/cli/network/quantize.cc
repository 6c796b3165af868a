#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/core.h>

#include "detent/cli/language_model.h"
#include "detent/cli/network/commands.h"
#include "detent/cli/network/network_results.h"
#include "detent/cli/network/result_folder.h"
#include "detent/cli/network/session.h"
#include "detent/cli/read_network.h"
#include "detent/cli/results.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/process_resources.h"
#include "detent/core/text_table.h"
#include "detent/datasets/dataset.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/language/language_graph.h"
#include "detent/onnx/export_onnx.h"
#include "detent/passes/analysis/layerwise_error.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/analysis/quantization_advice.h"
#include "detent/passes/pipeline.h"
#include "detent/passes/staged_runs/executor_in_parts.h"
#include "detent/workflows/network_data.h"
#include "detent/workflows/network_report.h"
#include "detent/workflows/quantize_network.h"
#include "detent/workflows/quantize_passes.h"
#include "detent/workflows/resource_use.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Which samples are used for what.
std::string samples_text(const Dataset& calibration, const Dataset& test, bool is_divided, int64_t most) {
  const std::string calibrating =
      fmt::format("calibration: {} of {} samples of {}{}\n", std::min(most, calibration.size()),
                  calibration.size() + (is_divided ? test.size() : 0), calibration.source(),
                  is_divided ? ", drawn at random from each class" : "");
  if (!test.has_labels()) return calibrating;
  return calibrating + fmt::format("accuracy: {} {}\n", test.size(),
                                   is_divided ? "others of these" : "test samples of " + test.source());
}

void warn_of_drop(const Metrics& before, const Metrics& after, const QuantizationAdvice& advice) {
  if (!is_large_drop(before.accuracy(), after.accuracy(), after.count)) return;
  const std::string remedy = advice.tried.empty() ? "give more bits, or train it further (`detent train`)"
                                                  : "try " + advice.tried.front().options;
  log_warning("the accuracy falls from {:.4f} to {:.4f}, from {} to {} of {} right: {}", before.accuracy(),
              after.accuracy(), before.correct, after.correct, after.count, remedy);
}

std::string summary_text(const QuantizeFindings& outcome) {
  TextTable table({"", outcome.name_before, "quantized", "change"});
  const auto add_bits = [&](const char* name, double before, double after) {
    table.add_row({name, fmt::format("{:.2f}", before), fmt::format("{:.2f}", after),
                   fmt::format("{:+.2f}", after - before)});
  };
  const int64_t bytes_before = outcome.bits_before.weight_bytes();
  const int64_t bytes_after = outcome.bits_after.weight_bytes();
  table.add_row({"weights, values", fmt::format("{}", outcome.bits_before.weight_values),
                 fmt::format("{}", outcome.bits_after.weight_values), ""});
  table.add_row(
      {"weights, bytes with their scales", fmt::format("{}", bytes_before), fmt::format("{}", bytes_after),
       fmt::format("{:.2f} times smaller", static_cast<double>(bytes_before) /
                                               static_cast<double>(std::max<int64_t>(1, bytes_after)))});
  add_bits("bits a weight, average", outcome.bits_before.average_weight_bits(),
           outcome.bits_after.average_weight_bits());
  add_bits("bits an activation, average", outcome.bits_before.average_activation_bits(),
           outcome.bits_after.average_activation_bits());
  if (outcome.before && outcome.after) {
    const auto text = [](const Metrics& metrics) { return fmt::format("{:.4f}", metrics.accuracy()); };
    table.add_row({"test accuracy", text(*outcome.before), text(*outcome.after),
                   fmt::format("{:+.4f}", outcome.after->accuracy() - outcome.before->accuracy())});
  }
  return "\n" + table.to_text() + "\n";
}

/// The files in `folder` and below that were written since `start`, the graph first, a line each: their names
/// in it.
std::string written_files(const fs::path& folder, fs::file_time_type start) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    const bool is_hidden = entry.path().filename().string().starts_with('.');
    if (!is_hidden && entry.is_regular_file() && entry.last_write_time() >= start)
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::stable_partition(files.begin(), files.end(),
                        [](const fs::path& path) { return path.extension() == ".mz"; });
  std::string text = fmt::format("written to {}:\n", folder.string());
  for (const fs::path& file : files) text += fmt::format("  {}\n", file.lexically_relative(folder).string());
  return text;
}

/// Says what each layer loses, and what would help.
void report_analysis(const QuantizationAnalysis& analysis, const fs::path& output_dir,
                     const PassContext& context) {
  const auto& [errors, advice] = analysis;
  const std::string sqnr = output_sqnr_text(errors);
  report_layerwise_errors(errors, output_dir, context,
                          advice.tried.empty() ? sqnr + "\n" : fmt::format("{}; {}", sqnr, advice.text()));
}

void say_accuracy(const QuantizeFindings& outcome, const Dataset& test_set, CommandResults& results) {
  if (outcome.before && outcome.after) {
    results.say(
        fmt::format("test before: {}\ntest after:  {}\n", outcome.before->text(), outcome.after->text()));
  } else {
    results.say(fmt::format("accuracy: not measured, {} has no labels\n", test_set.source()));
  }
}

constexpr OnnxExportOptions kExported{.style = OnnxStyle::kQdq};

void say_graphs(const ResultFolder& result, const RunOptions& options, CommandResults& results) {
  results.say(fmt::format("quantized graph: {}\n", result.graph_path().string()));
  if (options.output) results.say(fmt::format("ONNX model: {}\n", *options.output));
}

void use_options(const RunOptions& options, ProcessGroup& group, const ResultFolder& result,
                 PassContext& context) {
  context.group = &group;
  context.outputs = result.outputs();
  context.loader_threads = options.num_workers;
  context.checkpoint_every = options.checkpoint_every;
}

/// Else codes and floats of weights that come and go leave up to 50 MB of resnet18 between what stays.
constexpr int kLargeVector = 1 << 23;

bool is_language_model(const TorchCommand& command) {
  return command.network != nullptr && command.network->input_types().contains(kTokensInput);
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): the steps of the command, one after the other
void run_quantize(const TorchCommand& given, ProcessGroup& group) {
  keep_vectors_out_of_heap(is_language_model(given) ? kLargeVectorOfLanguage : kLargeVector);
  TorchCommand command = given;
  CommandResults results(command.name, result_options(command, group));
  const int64_t most = most_calibration_samples(command.passes);
  const CalibrationSplits splits = load_calibration_splits(command, most);
  const Dataset& training_set = *splits.calibration;
  const Dataset& test_set = *splits.test;
  const int64_t batch_size = command.options.training.batch_size;
  // Where calibration samples have no labels, those of the test say how many classes there are.
  const Graph loaded = load_network(command, training_set.has_labels() ? training_set : test_set);
  announce_quantization_memory(loaded, command.passes, training_set);
  const Graph network = without_batches_that_mix(loaded, training_set);
  check_workers_agree_on_inputs(network, {{"training samples", &training_set}, {"test samples", &test_set}},
                                group);
  const bool is_trained = brings_quantizers(network);
  if (is_trained) command.passes = finishing_passes(command.passes);
  const auto cache_format = cache_format_of(command.options.cache_format.value_or(""), "--cache-format");
  if (cache_format) leave_cache_to_float(command.passes, network, "--cache-format");
  const Pipeline pipeline(command.passes, "");
  pipeline.check(network);
  const fs::path output_dir = command.result_folder;
  ResultFolder result(command, {.results = output_dir, .network = output_dir}, network, pipeline,
                      training_set.size(), group);
  const fs::file_time_type start = fs::file_time_type::clock::now();
  results.say(samples_text(training_set, test_set, splits.is_divided, most));
  const auto measure = [&](const Graph& graph) -> std::optional<Metrics> {
    if (!test_set.has_labels()) return std::nullopt;
    return evaluate(*FastExecutor().compile(graph), graph, test_set, batch_size, group,
                    command.options.num_workers);
  };
  QuantizeFindings outcome{.name_before = is_trained ? "trained" : "float",
                           .bits_before = storage_bits(network),
                           .before = measure(network)};

  const FastExecutor whole;
  ExecutorInParts executor(whole);
  PassContext context = make_pass_context(training_set, command.random, batch_size, output_dir, executor,
                                          [&](const std::string& text) { results.say(text); });
  use_options(command.options, group, result, context);
  QuantizedGraphs graphs = quantize_network(network, command.passes, context, cache_format);
  const Graph& graph = graphs.quantized;
  if (command.options.output) check_onnx_export(graph, *command.options.output, kExported);
  std::optional<QuantizationAnalysis> analysis;
  if (is_trained) {
    results.say("the network's quantizers were trained, and stay\n");
  } else {
    analysis = analyze_quantization(graphs, context, cache_format);
    outcome.analysis = &*analysis;
    report_analysis(*analysis, output_dir, context);
  }

  outcome.bits_after = storage_bits(graph);
  outcome.after = measure(graph);
  say_accuracy(outcome, test_set, results);
  if (group.is_first() && outcome.before && outcome.after)
    warn_of_drop(*outcome.before, *outcome.after, analysis ? analysis->advice : QuantizationAdvice());
  const CheckedIntegers checked = check_integers(graph, test_set, {.shows_progress = group.is_first()});
  outcome.integer_execution = checked.text;
  results.say(fmt::format("integer execution: {}\n", checked.text));
  if (group.is_first()) say_accumulators(graph, test_set, results);
  if (group.is_first() && command.options.output) export_onnx(graph, *command.options.output, kExported);
  const bool packs = command.options.packed_weights.value_or(true);
  result.save(graph, packs ? StoredWeights::kPacked : StoredWeights::kFloat);
  if (!group.is_first()) return;
  results.say(summary_text(outcome) + written_files(output_dir, start));
  say_graphs(result, command.options, results);
  if (!checked.slow_steps.empty()) {
    results.say(fmt::format("{}: `detent bench {} --profile` shows each step\n", checked.slow_steps,
                            result.graph_path().string()));
  }
  const std::string noise = analysis ? noise_warning(*analysis) : "";
  if (!noise.empty()) log_warning("{}", noise);
  for (auto& [key, value] : quantize_results(outcome)) results.add(key, value);
  results.add("graph", result.graph_path().string());
  add_configuration(results, command);
  add_network(results, graph, &graphs.reference, test_set);
  results.finish();
}

}  // namespace detent
