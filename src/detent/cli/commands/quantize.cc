#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/commands/field_flags.h"
#include "detent/cli/commands/run_arguments.h"
#include "detent/cli/file_kind.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/io/graph_file.h"
#include "detent/io/output_path.h"
#include "detent/onnx/export_onnx.h"
#include "detent/passes/pass_options.h"
#include "detent/passes/pipeline.h"
#include "detent/passes/transform/static_quantize_options.h"

// The short way to a quantized network: the passes that prepare it, static_quantize with its options as
// flags, and those that improve the result, as `detent transform` would run them from a configuration file.

namespace detent {
namespace {

constexpr const char* kPass = "static_quantize";
constexpr const char* kGroup = "Quantization";
constexpr const char* kNone = "none";

/// Options of the pass that the command does not have: it prints the layer-wise errors instead.
std::vector<FieldDescription> flags_of_pass() {
  std::vector<FieldDescription> fields = find_pass(kPass).options;
  std::erase_if(fields, [](const FieldDescription& field) { return field.name == "report"; });
  return fields;
}

void append_passes(const std::string& flag, const std::string& names, PassKind kind, Table& passes) {
  if (names == kNone || names == "NA") return;
  for (const std::string& name : parts_of(names)) {
    try {
      find_pass(name);
    } catch (const Error& error) {
      throw UsageError(fmt::format("{}: {}", flag, error.what()));
    }
    if (find_pass(name).kind != kind || passes.contains(name) || name == kPass) {
      throw UsageError(
          fmt::format("{}: got \"{}\", expected passes that change the network, each once", flag, name));
    }
    passes[name] = Table();
  }
}

/// The network has its quantizers: they stay.
bool is_to_be_finished(const RunOptions& options) {
  const std::filesystem::path file = graph_file(*options.load);
  return file_kind(file) == graph_kind() && brings_quantizers(read_graph(file));
}

/// Passes that look at samples take as many as calibration does, where that was given.
void share_samples(Table& passes) {
  const Value* given = passes.table(kPass).find("num_samples");
  if (given == nullptr) return;
  const Value samples = *given;
  for (auto& [name, options] : passes) {
    if (has_option(find_pass(name), "num_samples")) (*options.get_if<Table>())["num_samples"] = samples;
  }
}

/// What is done without being asked for: rounding to few bits shifts the means of outputs, and biases that
/// take that back cost nothing.
void append_usual_improvement(const StaticQuantizeOptions& options, Table& passes) {
  if (!options.is_below_eight_bits()) return;
  spdlog::info("improve = bias_correction, as always below 8 bits (--improve none: biases stay as they are)");
  passes["bias_correction"] = Table{{"report", false}};
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

/// Before any work: what the model that -o names could not hold.
void check_output_holds(const StaticQuantizeOptions& options, const std::string& output) {
  const auto check = [&](const std::string& flag, const std::optional<QuantSpec>& spec) {
    if (!spec) return;
    QuantSpec scaled = *spec;
    scaled.format = with_scale(spec->format);
    const std::string obstacle = style_obstacle(OnnxStyle::kQdq, scaled);
    if (obstacle.empty()) return;
    throw UsageError(fmt::format(
        "-o {}: {}: an ONNX model of the style qdq cannot hold {} (integers and fp8 it can); without -o, the "
        "quantized graph is written",
        output, flag, obstacle));
  };
  check("--weights", options.weights.other);
  check("--activations", options.activations.other);
  for (const NodeWidths& entry : options.named().entries) {
    if (entry.weights) check("--formats " + entry.pattern, entry.weights->format);
    if (entry.activations) check("--formats " + entry.pattern, entry.activations->format);
  }
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
  std::string prepare = "remove_dead_nodes,fold_constants,fuse_batch_norm";
  std::optional<std::string> improve;
  FieldFlags flags(flags_of_pass());
  flags.bind(app, "quantize", kGroup);
  app.add_option("--prepare", prepare,
                 "passes before, separated by commas, or none (default " + prepare + ")")
      ->option_text("PASSES")
      ->group(kGroup);
  app.add_option(
         "--improve", improve,
         "passes after, for example gptq,bias_correction, or none (default bias_correction where weights or "
         "activations have fewer than 8 bits, else none)")
      ->option_text("PASSES")
      ->group(kGroup);
  add_run_options(app, run_arguments);
  if (!parse_arguments(app, args)) return 0;
  RunConfig config = merged_run_config(app, run_arguments);
  if (!config.passes.empty()) {
    throw UsageError(
        fmt::format("{} has [passes.NAME] tables, which `detent transform` runs", config.config_file));
  }
  if (const auto& output = config.options.output) {
    if (!output->ends_with(".onnx"))
      throw UsageError(fmt::format("-o {}: expected a name that ends in .onnx", *output));
    claim_output(*output, "-o", config.options.overwrite);
  }
  if (!config.options.load)
    throw UsageError(
        "`detent quantize` needs a trained network: `detent quantize model.onnx`, or --load FILE");

  Table options{{"report", false}};
  for (auto& [name, value] : flags.given(app)) options[name] = std::move(value);
  check_flags("detent quantize", [&] { find_pass(kPass).parse(options, "detent quantize"); });
  StaticQuantizeOptions given;
  read_fields(given, options, "detent quantize");
  if (config.options.output) check_output_holds(given, *config.options.output);
  append_passes("--prepare", prepare, PassKind::kTransform, config.passes);
  config.passes[kPass] = std::move(options);
  if (improve) {
    append_passes("--improve", *improve, PassKind::kTransform, config.passes);
  } else {
    append_usual_improvement(given, config.passes);
  }
  share_samples(config.passes);
  const Pipeline checked(config.passes, "the command line");  // refuses before anything is loaded
  say_widths(given, config);
  start_run("quantize", config);
  return 0;
}

}  // namespace detent
