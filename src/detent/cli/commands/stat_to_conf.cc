#include "detent/passes/stat_to_conf.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/option_fields.h"
#include "detent/core/error.h"
#include "detent/core/text.h"
#include "detent/files/file.h"
#include "detent/files/toml.h"

namespace detent {
namespace {

/// An option that sets the format of some operands.
struct FormatOption {
  std::string flag;
  std::vector<std::string> prefixes;
  std::string help;
  std::string text = "";
};

std::vector<FormatOption> format_options() {
  return {{"--format",
           {"data_in", "weight", "bias"},
           "quantize inputs, weights and biases to NAME:KEY=VALUE,... as `detent formats` lists them"},
          {"--data-in-format", {"data_in"}, "of inputs; NA leaves them alone"},
          {"--weight-format", {"weight"}, "of weights; NA leaves them alone"},
          {"--bias-format", {"bias"}, "of biases; NA leaves them alone"},
          {"--data-out-format", {"data_out"}, "of outputs, which are left alone otherwise"}};
}

/// A field of CalibrationOptions as an option: "--num-sigma".
struct CalibrationOption {
  FieldDescription field;
  std::string flag;
  std::string text = "";
};

std::vector<CalibrationOption> calibration_options() {
  std::vector<CalibrationOption> options;
  for (const FieldDescription& field : describe_fields<CalibrationOptions>()) {
    std::string flag = "--" + field.name;
    std::ranges::replace(flag, '_', '-');
    options.push_back({field, flag});
  }
  return options;
}

QuantSpec spec_of(const FormatOption& option, int bits) {
  try {
    const QuantSpec spec = parse_quant_spec_text(option.text);
    if (bits == 0) return spec;
    Table keys = quant_spec_keys(spec);
    keys["width"] = bits;
    return parse_quant_spec(format_name(spec.format), keys, "--bits");
  } catch (const Error& error) {
    throw UsageError(fmt::format("{}: {}", option.flag, error.what()));
  }
}

void set_formats(const std::vector<FormatOption>& options, int bits, StatToConfInput& input) {
  for (const FormatOption& option : options) {
    if (option.text.empty()) continue;
    const std::optional<QuantSpec> spec =
        option.text == "NA" ? std::nullopt : std::optional(spec_of(option, bits));
    for (const std::string& prefix : option.prefixes) {
      std::erase_if(input.formats, [&](const auto& format) { return format.first == prefix; });
      input.formats.emplace_back(prefix, spec);
    }
  }
  if (bits != 0 && input.formats.empty())
    throw UsageError("--bits: without --format there is nothing to set");
}

void set_calibration(const std::vector<CalibrationOption>& options, StatToConfInput& input) {
  Table given;
  for (const CalibrationOption& option : options) {
    if (option.text.empty()) continue;
    const bool is_number = option.field.type == "number";
    try {
      given[option.field.name] = is_number ? Value(std::stod(option.text)) : Value(option.text);
    } catch (const std::exception&) {
      throw UsageError(fmt::format("{}: got \"{}\", expected a number", option.flag, option.text));
    }
  }
  if (given.empty() && input.formats.empty()) return;
  CalibrationOptions calibration;
  try {
    read_fields(calibration, given, "calibration");
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  input.calibration = calibration;
}

}  // namespace

int run_stat_to_conf(const std::vector<std::string>& args) {
  CLI::App app(
      "Turn statistics that [passes.save_node_meta_param] saved into a configuration of [passes.quantize]: "
      "each node gets the default's config, completed from its own statistics. With --format or "
      "--calibrator, the "
      "parameters of any format are computed; else those of ternary are filled in.",
      "detent stat-to-conf");
  std::string source;
  std::string destination;
  std::string base;
  int bits = 0;
  std::vector<FormatOption> formats = format_options();
  std::vector<CalibrationOption> calibration = calibration_options();
  app.add_option("source", source, "saved statistics, TOML")->required()->option_text(" ");
  app.add_option("destination", destination, "configuration to write, TOML")->required()->option_text(" ");
  app.add_option("-b,--base", base, "configuration to start from; without it and --format: ternary")
      ->option_text("FILE");
  for (FormatOption& option : formats)
    app.add_option(option.flag, option.text, option.help)->option_text("TEXT");
  app.add_option("--bits", bits, "width of the formats given")->check(CLI::Range(1, 32))->option_text("N");
  for (CalibrationOption& option : calibration) {
    app.add_option(option.flag, option.text, flag_meaning(option.field))->option_text("VALUE");
  }
  bool overwrite = false;
  add_overwrite_option(app, overwrite);
  if (!parse_arguments(app, args)) return 0;

  claim_output(destination, "detent stat-to-conf", overwrite);
  StatToConfInput input{read_toml(source), source};
  if (!base.empty()) {
    input.base = read_toml(base);
    input.base_file = base;
  }
  set_formats(formats, bits, input);
  set_calibration(calibration, input);
  const auto warn = [](const std::string& message) {
    fmt::print(stderr, "detent: warning: {}\n", printable(message));
  };
  write_toml(destination, stat_to_conf(input, warn));
  return 0;
}

}  // namespace detent
