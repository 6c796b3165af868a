#include <fmt/format.h>

#include <algorithm>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/tensor_files.h"
#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/core/text.h"
#include "detent/files/file.h"

namespace detent {
namespace {

const std::vector<Command>& tensor_commands() {
  static const std::vector<Command> kCommands = {
      {"quantize", "round the tensors of a file to a format, or compare formats", run_tensor_quantize},
      {"unpack", "turn packed tensors back into float32", run_tensor_unpack},
      {"compare", "error measures between the tensors of two files", run_tensor_compare},
  };
  return kCommands;
}

/// The tensors of both files, by name, or the only one of each.
std::vector<std::pair<const StoredTensor*, const StoredTensor*>> pairs_of(const TensorFile& original,
                                                                          const std::string& original_path,
                                                                          const TensorFile& changed,
                                                                          const std::string& changed_path,
                                                                          const NameFilter& filter) {
  std::vector<std::pair<const StoredTensor*, const StoredTensor*>> pairs;
  if (original_path.ends_with(".npy") && changed_path.ends_with(".npy")) {
    return {{&original.tensors.front(), &changed.tensors.front()}};
  }
  std::map<std::string, const StoredTensor*> by_name;
  for (const StoredTensor& tensor : changed.tensors) by_name[tensor.name] = &tensor;
  for (const StoredTensor& tensor : original.tensors) {
    if (!filter.matches(tensor.name)) continue;
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) {
      fail("{}: no tensor \"{}\", which {} has", changed_path, tensor.name, original_path);
    }
    pairs.emplace_back(&tensor, found->second);
    by_name.erase(found);
  }
  for (const auto& [name, tensor] : by_name) {
    if (filter.matches(name)) {
      fail("{}: no tensor \"{}\", which {} has", original_path, name, changed_path);
    }
  }
  return pairs;
}

/// Tensors of other programs have no metadata that say they are packed.
bool is_float8(const StoredTensor& tensor) {
  const DType dtype = stored_dtype(tensor);
  return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2;
}

}  // namespace

int run_tensor(const std::vector<std::string>& args) {
  return run_group({.name = "tensor",
                    .help = "Quantize, unpack and compare files of tensors (.safetensors, .mz, .pt, .ckpt, "
                            ".gguf, .npy, .npz).",
                    .commands = tensor_commands()},
                   args);
}

int run_tensor_unpack(const std::vector<std::string>& args) {
  CLI::App app(
      "Turn the packed tensors of a file, and 8-bit floats, back into float32; others stay as they are.",
      "detent tensor unpack");
  std::string input;
  std::string output;
  app.add_option("file", input,
                 "what `detent tensor quantize --packed` wrote, a graph (.mz), or a checkpoint of PyTorch or "
                 "a GGUF file to convert")
      ->required()
      ->option_text(" ");
  app.add_option("-o,--output", output, "file to write: .safetensors or .npy")
      ->required()
      ->option_text("FILE");
  bool overwrite = false;
  add_overwrite_option(app, overwrite);
  if (!parse_arguments(app, args)) return 0;
  check_tensor_file_name(output, false);
  claim_output(output, "-o", overwrite);
  const TensorFile file = read_tensor_file(input);
  std::vector<PackedEntry> entries;
  for (const StoredTensor& tensor : file.tensors) {
    const DType dtype = is_float8(tensor) ? DType::kFloat32 : stored_dtype(tensor);
    entries.push_back({.name = tensor.name, .dtype = dtype, .shape = stored_shape(tensor)});
  }
  const Scratch scratch = scratch_beside(output);
  Progress progress("writing, tensors", std::ssize(file.tensors));
  const auto load = [&](size_t i) {
    progress.update(static_cast<int64_t>(i), file.tensors[i].name);
    const StoredTensor& tensor = file.tensors[i];
    return is_float8(tensor) ? float_values(tensor, scratch) : stored_values(tensor, scratch);
  };
  write_tensor_file(output, entries, file.metadata, load, scratch);
  return 0;
}

int run_tensor_compare(const std::vector<std::string>& args) {
  CLI::App app("Measure how far the floating-point tensors of a file are from those of another.",
               "detent tensor compare");
  std::string original_path;
  std::string changed_path;
  std::string expression;
  app.add_option("original", original_path,
                 "safetensors (packed or not), a graph (.mz), a checkpoint of PyTorch, .gguf, .npy or .npz")
      ->required()
      ->option_text(" ");
  app.add_option("changed", changed_path, "the same tensors, quantized")->required()->option_text(" ");
  app.add_option("--tensors", expression, "only those whose name matches")->option_text("REGEX");
  ResultOptions result_options;
  add_result_options(app, result_options);
  if (!parse_arguments(app, args)) return 0;
  const NameFilter filter(expression);
  const TensorFile original = read_tensor_file(original_path);
  const TensorFile changed = read_tensor_file(changed_path);
  std::vector<std::string> header = {"tensor", "shape"};
  std::ranges::copy(distortion_columns(), std::back_inserter(header));
  TextTable table(header);
  const Scratch scratch = scratch_beside({});
  const auto pairs = pairs_of(original, original_path, changed, changed_path, filter);
  Progress progress("comparing, tensors", std::ssize(pairs));
  for (const auto& [before, after] : pairs) {
    progress.update(std::ssize(table.rows()), before->name);
    if (stored_shape(*before) != stored_shape(*after)) {
      fail("tensor \"{}\": shape {} in {}, {} in {}", before->name, shape_text(stored_shape(*before)),
           original_path, shape_text(stored_shape(*after)), changed_path);
    }
    if (!is_floating_point(stored_dtype(*before)) || !is_floating_point(stored_dtype(*after))) continue;
    Distortion distortion;
    const Tensor values = float_values(*before, scratch);
    const Tensor changed_values = float_values(*after, scratch);
    distortion.update(values, changed_values);
    page_out(values);
    page_out(changed_values);
    std::vector<std::string> cells = {before->name, shape_text(stored_shape(*before))};
    std::ranges::copy(distortion_cells(distortion), std::back_inserter(cells));
    table.add_row(std::move(cells));
  }
  progress.finish();
  CommandResults results("tensor compare", result_options);
  results.add_table("tensors", table);
  results.finish();
  return 0;
}

}  // namespace detent
