#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/format_display.h"
#include "detent/cli/tensor_files.h"
#include "detent/core/error.h"
#include "detent/core/fields.h"
#include "detent/core/name_pattern.h"
#include "detent/files/file.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

constexpr size_t kMostListedValues = 64;
constexpr int kPlotWidth = 60;

std::string number(float value) { return fmt::format("{}", value); }

/// "-2 -1.5 ...", at most 8 a line.
std::string listed(const std::vector<float>& values) {
  constexpr size_t kInLine = 8;
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    text += fmt::format("{:>13}{}", number(values[i]), i % kInLine == kInLine - 1 ? "\n" : "");
  }
  return text.ends_with('\n') ? text : text + "\n";
}

/// How many values each binade [2^e, 2^(e+1)) of magnitudes has, as bars.
std::string plotted(const std::vector<float>& values) {
  std::map<int, int64_t> binades;
  for (const float value : values) {
    if (value > 0 && std::isfinite(value)) ++binades[std::ilogb(value)];
  }
  int64_t most = 1;
  for (const auto& [exponent, count] : binades) most = std::max(most, count);
  std::string text = "positive values of each binade:\n";
  for (const auto& [exponent, count] : binades) {
    const auto length = static_cast<size_t>((count * kPlotWidth + most - 1) / most);
    text += fmt::format("{:>6} {:>6} {}\n", fmt::format("2^{}", exponent), count, std::string(length, '#'));
  }
  return text;
}

/// The smallest distance between neighbours, in double: exact for float32 of one sign and nearby exponents.
double smallest_step(const std::vector<float>& values) {
  double step = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < values.size(); ++i) {
    const double gap = static_cast<double>(values[i]) - static_cast<double>(values[i - 1]);
    if (std::isfinite(gap)) step = std::min(step, gap);
  }
  return step;
}

std::string values_text(const Format& format, bool list_all) {
  std::vector<float> values;
  try {
    values = representable_values(format);
  } catch (const Error& error) {
    return fmt::format("values: {}\n", error.what());
  }
  const auto above_zero = std::ranges::find_if(values, [](float value) { return value > 0; });
  std::string text = fmt::format("values: {}\nrange: {} to {}\nsmallest step: {}\n", values.size(),
                                 number(values.front()), number(values.back()), smallest_step(values));
  if (above_zero != values.end()) text += fmt::format("smallest above 0: {}\n", number(*above_zero));
  return text + (values.size() <= kMostListedValues || list_all ? listed(values) : plotted(values));
}

/// "8", "4, and 8 a block" or "4, and 32 a group of 128".
std::string bits_text(const QuantSpec& spec) {
  std::string text = std::visit(
      []<class F>(const F& alternative) {
        std::string bits = fmt::format("{}", alternative.bits());
        if constexpr (BlockFormat<F>) bits += fmt::format(", and {} a block", alternative.shared_bits());
        return bits;
      },
      spec.format);
  if (spec.granularity != Granularity::kGroup) return text;
  const int64_t of_group = storage_bits(spec, {*spec.group_size});
  const double of_codes = bits_per_value(spec.format) * static_cast<double>(*spec.group_size);
  return fmt::format("{}, and {} a group of {}", text, of_group - static_cast<int64_t>(of_codes),
                     *spec.group_size);
}

/// "FILE:NAME", or "FILE" of a single tensor, in float32.
NamedValues tensor_named(const std::string& text) {
  namespace fs = std::filesystem;
  const size_t colon = text.rfind(':');
  const bool is_file = fs::exists(text) || colon == std::string::npos;
  const std::string path = is_file ? text : text.substr(0, colon);
  if (!fs::exists(path)) throw UsageError(fmt::format("--tensor: {}: no such file", path));
  const TensorFile file = read_tensor_file(path);
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file.tensors) names.push_back(tensor.name);
  if (is_file && names.size() != 1)
    throw UsageError(
        fmt::format("--tensor {}: expected FILE:NAME, the file has {}", text, listed_names(names)));
  const std::string name = is_file ? names.front() : text.substr(colon + 1);
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    throw UsageError(fmt::format("--tensor {}: {}", text, unknown_name_message("tensor", name, names)));
  const Scratch scratch = scratch_beside("");
  const Tensor values = float_values(file.tensors[static_cast<size_t>(found - names.begin())], scratch);
  if (values.numel() == 0) throw UsageError(fmt::format("--tensor {}: it is empty", text));
  return {name, values.clone()};
}

struct ShownFormat {
  std::string text;
  bool list_all = false;
  std::string tensor;
  std::string svg;
  bool overwrite = false;
};

int show_format(const ShownFormat& shown) {
  constexpr size_t kMostTicks = 4096;
  QuantSpec spec;
  try {
    spec = parse_quant_spec_text(shown.text);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  if (!shown.svg.empty()) claim_output(shown.svg, "--svg", shown.overwrite);
  std::vector<NamedValues> data = drawn_distributions();
  if (!shown.tensor.empty()) data.push_back(tensor_named(shown.tensor));
  const char* help = std::visit([](const auto& alternative) { return alternative.kHelp; }, spec.format);
  std::string text = fmt::format("{}: {}\n\n{}\nbits a value: {}\n{}", quant_spec_text(spec), help,
                                 format_fields_table(spec.format).to_text(), bits_text(spec),
                                 values_text(spec.format, shown.list_all));
  const std::vector<float> values = values_within_one(spec, kMostTicks);
  const TextTable errors = format_errors(spec, data);
  const std::string line = number_line(values);
  if (!line.empty())
    text += fmt::format(
        "\nwhat numbers of [0, 1] become, where 1 is the largest (| a value, 2 to 9 and # several):\n{}",
        line);
  text += fmt::format(
      "\nerrors, of a standard deviation of 1 where drawn, what the format lacks taken from the values:\n{}",
      errors.to_text());
  print(text);
  if (!shown.svg.empty()) write_file(shown.svg, format_drawing(quant_spec_text(spec), values, errors));
  return 0;
}

}  // namespace

int run_formats(const std::vector<std::string>& args) {
  CLI::App app("List the number formats, or show one: its fields, range and values.", "detent formats");
  std::string action;
  ShownFormat shown;
  app.add_option("action", action, "\"show\", or nothing for the list")->option_text(" ");
  app.add_option("format", shown.text, "for show: NAME or NAME:KEY=VALUE,...")->option_text(" ");
  app.add_flag("--values", shown.list_all, "for show: list all values, however many");
  app.add_option("--tensor", shown.tensor, "for show: also the error on this tensor")
      ->option_text("FILE:NAME");
  app.add_option("--svg", shown.svg, "for show: draw values and errors, NAME.svg")->option_text("FILE");
  add_overwrite_option(app, shown.overwrite);
  ResultOptions result_options;
  add_result_options(app, result_options);
  if (!parse_arguments(app, args)) return 0;
  if (action.empty() && !shown.list_all) {
    CommandResults results("formats", result_options);
    results.add_table("formats", formats_table());
    results.finish();
    return 0;
  }
  if (action != "show") {
    throw UsageError(unknown_name_message("action", action, std::vector<std::string>{"show"}));
  }
  if (shown.text.empty())
    throw UsageError("`detent formats show` needs a format: NAME or NAME:KEY=VALUE,...");
  if (result_options.json)
    throw UsageError("--json: `detent formats show` has none; the list of formats has");
  return show_format(shown);
}

}  // namespace detent
