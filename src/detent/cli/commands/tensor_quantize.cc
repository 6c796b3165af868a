#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/tensor_files.h"
#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/files/file.h"
#include "detent/formats/groups/calibrating.h"

namespace detent {
namespace {

struct QuantizeArguments {
  std::string input;
  std::string output;
  std::vector<std::string> formats;
  std::string expression;
  std::string packing;
  bool packed = false;
  bool overwrite = false;
};

void add_quantize_options(CLI::App& app, QuantizeArguments& arguments) {
  app.add_option("file", arguments.input,
                 "safetensors, a checkpoint of PyTorch (.pt, .th, .ckpt), .npy or .npz")
      ->required()
      ->option_text(" ");
  app.add_option("-o,--output", arguments.output, "file to write: .safetensors or .npy")->option_text("FILE");
  app.add_option("--format", arguments.formats,
                 "NAME:KEY=VALUE,... as `detent formats` lists them; several compare formats")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->option_text("TEXT");
  app.add_option("--tensors", arguments.expression,
                 "only tensors whose name matches; the others stay as they are")
      ->option_text("REGEX");
  app.add_flag("--packed", arguments.packed, "write packed integers instead of float32");
  app.add_option("--packing", arguments.packing,
                 "how integers become bytes: bits (default) or base3, five ternary ones in a byte")
      ->option_text("NAME");
  add_overwrite_option(app, arguments.overwrite);
}

Packing packing_of(const QuantizeArguments& arguments) {
  if (arguments.packing.empty()) return Packing::kBits;
  if (!arguments.packed) throw UsageError("--packing: only with --packed");
  const auto names = enum_names(Packing());
  const auto found = std::ranges::find(names, arguments.packing);
  if (found != names.end()) return static_cast<Packing>(found - names.begin());
  const std::vector<std::string> known(names.begin(), names.end());
  throw UsageError("--packing: " + unknown_name_message("value", arguments.packing, known));
}

void check_arguments(const QuantizeArguments& arguments) {
  if (arguments.output.empty()) {
    if (arguments.packed) throw UsageError("--packed: nothing is written without -o FILE");
    return;
  }
  check_tensor_file_name(arguments.output, arguments.packed);
  if (arguments.formats.size() > 1) {
    throw UsageError("--format: with several, their error measures are compared and nothing can be written");
  }
  claim_output(arguments.output, "-o", arguments.overwrite);
}

std::vector<QuantSpec> specs_of(const std::vector<std::string>& texts) {
  std::vector<QuantSpec> specs;
  for (const std::string& text : texts) {
    try {
      specs.push_back(parse_quant_spec_text(text));
    } catch (const Error& error) {
      throw UsageError(fmt::format("--format: {}", error.what()));
    }
  }
  return specs;
}

/// Adds the tensor's name to what is wrong with it.
template <class Action>
auto naming_tensor(const StoredTensor& tensor, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    fail("tensor \"{}\": {}", tensor.name, error.what());
  }
}

/// Bytes of packed tensors, with those stored for their channels and blocks.
struct PackedSize {
  int64_t bytes = 0;
  int64_t values = 0;

  void add(const PackedSize& other) {
    bytes += other.bytes;
    values += other.values;
  }
  std::string bits_text() const {
    return values == 0 ? "-"
                       : fmt::format("{:.4g}", 8 * static_cast<double>(bytes) / static_cast<double>(values));
  }
};

PackedSize packed_size(const QuantSpec& spec, const Shape& shape, Packing packing) {
  PackedSize size{.values = element_count(shape)};
  for (const StreamLayout& stream : encoded_layout(spec, shape, packing))
    size.bytes += element_count(stream.shape) * static_cast<int64_t>(dtype_size(stream.dtype));
  return size;
}

/// One row a tensor and format, with the parameters that are the tensor's own, and one a format for all
/// tensors.
TextTable measures_table(const TensorFile& file, const std::vector<bool>& chosen,
                         const std::vector<QuantSpec>& specs, Packing packing, const Scratch& scratch) {
  std::vector<std::string> header = {"tensor", "format", "bits a value"};
  std::ranges::copy(distortion_columns(), std::back_inserter(header));
  TextTable table(header);
  const auto add = [&](const std::string& name, const QuantSpec& spec, const PackedSize& size,
                       const Distortion& distortion) {
    std::vector<std::string> cells = {name, quant_spec_text(spec), size.bits_text()};
    std::ranges::copy(distortion_cells(distortion), std::back_inserter(cells));
    table.add_row(std::move(cells));
  };
  Progress progress("measuring, tensors", std::ranges::count(chosen, true));
  int64_t done = 0;
  std::vector<Distortion> totals(specs.size());
  std::vector<PackedSize> total_sizes(specs.size());
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    if (!chosen[i]) continue;
    const StoredTensor& tensor = file.tensors[i];
    const Tensor input = float_values(tensor, scratch);
    Tensor room = scratch.tensor(DType::kFloat32, input.shape());
    for (size_t s = 0; s < specs.size(); ++s) {
      const QuantSpec spec = completed_from(input, specs[s]);
      const Distortion distortion =
          naming_tensor(tensor, [&] { return measure_distortion(spec, input, room); });
      const PackedSize size = packed_size(spec, input.shape(), packing);
      add(tensor.name, spec, size, distortion);
      totals[s].merge(distortion);
      total_sizes[s].add(size);
    }
    page_out(input);
    progress.update(++done, tensor.name);
  }
  if (std::ranges::count(chosen, true) > 1) {
    for (size_t s = 0; s < specs.size(); ++s) add("(all)", specs[s], total_sizes[s], totals[s]);
  }
  return table;
}

/// A line for each format of which a parameter was left open.
std::string assumed_text(const std::vector<QuantSpec>& specs) {
  std::string text;
  for (const QuantSpec& spec : specs) {
    const char* key = assumed_key(spec.format);
    if (key == nullptr) continue;
    text += fmt::format("{}: {} is not given: each tensor's own, from its largest magnitude\n",
                        quant_spec_text(spec), key);
  }
  return text;
}

/// `spec` with the parameters that are this tensor's own.
QuantSpec spec_for(const StoredTensor& tensor, const QuantSpec& spec, const Scratch& scratch) {
  if (assumed_key(spec.format) == nullptr) return spec;
  const Tensor input = float_values(tensor, scratch);
  const QuantSpec own = completed_from(input, spec);
  page_out(input);
  return own;
}

void write_output(const std::string& path, const TensorFile& file, const std::vector<bool>& chosen,
                  const QuantSpec& spec, std::optional<Packing> packing, const Scratch& scratch) {
  std::vector<PackedEntry> entries;
  std::vector<QuantSpec> own_specs(file.tensors.size(), spec);
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const StoredTensor& tensor = file.tensors[i];
    if (chosen[i]) own_specs[i] = spec_for(tensor, spec, scratch);
    entries.push_back({.name = tensor.name,
                       .dtype = chosen[i] ? DType::kFloat32 : stored_dtype(tensor),
                       .shape = stored_shape(tensor)});
    if (!chosen[i] || !packing) continue;
    entries.back().spec = own_specs[i];
    entries.back().packing = *packing;
  }
  Progress progress("writing, tensors", std::ssize(file.tensors));
  const auto load = [&](size_t i) {
    const StoredTensor& tensor = file.tensors[i];
    progress.update(static_cast<int64_t>(i), tensor.name);
    if (!chosen[i]) return stored_values(tensor, scratch);
    Tensor input = float_values(tensor, scratch);
    if (packing) return input;
    Tensor output = scratch.tensor(DType::kFloat32, input.shape());
    naming_tensor(tensor, [&] { fake_quantize(own_specs[i], input, output); });
    page_out(input);
    return output;
  };
  write_tensor_file(path, entries, file.metadata, load, scratch);
}

}  // namespace

int run_tensor_quantize(const std::vector<std::string>& args) {
  CLI::App app(
      "Round the floating-point tensors of a file to a number format, print error measures and, with -o, "
      "write "
      "the result. Several --format compare formats.",
      "detent tensor quantize");
  QuantizeArguments arguments;
  add_quantize_options(app, arguments);
  ResultOptions result_options;
  add_result_options(app, result_options);
  if (!parse_arguments(app, args)) return 0;
  check_arguments(arguments);
  const Packing packing = packing_of(arguments);
  const std::vector<QuantSpec> specs = specs_of(arguments.formats);
  const NameFilter filter(arguments.expression);
  const TensorFile file = read_tensor_file(arguments.input);
  std::vector<bool> chosen;
  for (const StoredTensor& tensor : file.tensors) {
    chosen.push_back(is_floating_point(stored_dtype(tensor)) && filter.matches(tensor.name));
  }
  if (std::ranges::count(chosen, true) == 0) {
    fail("{}: no floating-point tensor {}", arguments.input,
         arguments.expression.empty() ? "in it" : "matches --tensors " + arguments.expression);
  }
  const Scratch scratch = scratch_beside(arguments.output);
  if (!arguments.output.empty()) {
    const auto written = arguments.packed ? std::optional(packing) : std::nullopt;
    write_output(arguments.output, file, chosen, specs.front(), written, scratch);
  }
  CommandResults results("tensor quantize", result_options);
  results.add_table("tensors", measures_table(file, chosen, specs, packing, scratch));
  results.say(assumed_text(specs));
  results.finish();
  return 0;
}

}  // namespace detent
