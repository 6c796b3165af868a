#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/commands/field_flags.h"
#include "detent/cli/file_kind.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/datasets.h"
#include "detent/files/file.h"
#include "detent/graph_files/graph_file.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/static_quantize_options.h"
#include "detent/workflows/quantize_passes.h"

// The short way to a quantized network: the passes that prepare it, static_quantize with its options as
// flags, and those that improve the result, as `detent transform` would run them from a configuration file.

namespace detent {
namespace {

constexpr const char* kPass = "static_quantize";
constexpr const char* kGroup = "Quantization";

/// The network has its quantizers: they stay.
bool is_to_be_finished(const RunOptions& options) {
  const std::filesystem::path file = graph_file(*options.load);
  return file_kind(file) == graph_kind() && brings_quantizers(read_graph(file));
}

std::vector<std::string> listed_passes(const std::string& names) {
  if (names == "none" || names == "NA") return {};
  return parts_of(names);
}

void say_random(QuantizeWish& wish) {
  if (!needs_samples(wish)) return leave_out_samples(wish);
  log_warning("random inputs say little of the ranges of real ones: the network is to try things out with");
}

/// "model.mz" and "model.tflite" are meant as files; "qwen2.5-0.5b" is none.
bool is_named_like_a_file(const std::string& output) {
  const std::string extension = std::filesystem::path(output).extension().string();
  return extension.size() > 1 && std::isalpha(static_cast<unsigned char>(extension[1])) != 0;
}

/// The value of -o: an ONNX model, or the folder of the results.
void take_output(RunConfig& config) {
  const std::string output = *config.options.output;
  if (output.ends_with(".onnx")) return claim_output(output, "-o", config.options.overwrite);
  const bool is_folder = output.ends_with('/') || std::filesystem::is_directory(output);
  if (output.empty() || (!is_folder && (is_named_like_a_file(output) || std::filesystem::exists(output))))
    throw UsageError(
        fmt::format("-o {}: expected a name that ends in .onnx, or a folder for the results", output));
  if (config.options.project)
    throw UsageError(fmt::format("-o {} and --project exclude each other: both name a folder", output));
  config.result_folder = (std::filesystem::path(output) / "").parent_path();
  config.options.output.reset();
}

/// Ends the default project's name in "_w4a8", or in "_wnvfp4_a8": networks of other widths get folders of
/// their own.
void say_widths(const StaticQuantizeOptions& options, RunConfig& config) {
  if (config.options.project && !config.options.project->empty()) return;
  std::string name = config.software_dir.parent_path().filename().string();
  if (is_to_be_finished(config.options)) {
    config.software_dir =
        std::filesystem::path(config.options.project_dir) / (name + "_integers") / "software";
    return;
  }
  name += fmt::format("_w{}{}a{}", options.weights.short_name(), options.weights.is_integer() ? "" : "_",
                      options.activations.short_name());
  if (options.elementwise != StaticQuantizeOptions().elementwise) {
    name += fmt::format("e{}", options.elementwise.width);
  }
  config.software_dir = std::filesystem::path(config.options.project_dir) / name / "software";
}

}  // namespace

int run_quantize(const std::vector<std::string>& args) {
  CLI::App app(
      "Quantize a network for execution in integers (post-training static quantization): fold batch norms, "
      "calibrate on training samples, quantize, and compare. Writes the quantized graph and a layer-wise "
      "error analysis. A graph whose quantizers were trained (`detent train --quantize`) keeps them: it is "
      "made ready for integers and packed.",
      "detent quantize");
  RunArguments run_arguments{"quantize", {}, {}};
  QuantizeWish wish;
  std::string prepare = fmt::format("{}", fmt::join(wish.prepare, ","));
  std::optional<std::string> improve;
  FieldFlags flags(quantize_options());
  flags.bind(app, "quantize", kGroup);
  app.add_option("--prepare", prepare,
                 "passes before, separated by commas, or none (default " + prepare + ")")
      ->option_text("PASSES")
      ->group(kGroup);
  app.add_option(
         "--improve", improve,
         "passes for better weights, for example gptq,bias_correction or hadamard,gptq, or none (default "
         "bias_correction where weights or activations have fewer than 8 bits, else none)")
      ->option_text("PASSES")
      ->group(kGroup);
  add_run_options(app, run_arguments);
  if (!parse_arguments(app, args)) return 0;
  for (auto& [name, value] : flags.given(app)) wish.options[name] = std::move(value);
  check_flags("detent quantize", [&] { find_pass(kPass).parse(wish.options, "detent quantize"); });
  StaticQuantizeOptions given;
  read_fields(given, wish.options, "detent quantize");
  if (improve) wish.improve = listed_passes(*improve);
  RunConfig config = merged_run_config(app, run_arguments, needs_samples(wish) ? "" : kRandomDataset);
  if (!config.passes.empty()) {
    throw UsageError(
        fmt::format("{} has [passes.NAME] tables, which `detent transform` runs", config.config_file));
  }
  if (config.options.output) take_output(config);
  if (!config.options.load)
    throw UsageError(
        "`detent quantize` needs a trained network: `detent quantize model.onnx`, or --load FILE");

  wish.prepare = listed_passes(prepare);
  if (config.options.dataset == kRandomDataset) say_random(wish);
  wish.output = config.options.output;
  static_cast<void>(cache_format_of(config.options.cache_format.value_or(""), "--cache-format"));
  config.passes = quantize_passes(wish);
  say_widths(given, config);
  start_run("quantize", config);
  return 0;
}

}  // namespace detent
