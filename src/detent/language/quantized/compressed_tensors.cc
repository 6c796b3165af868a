#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/quantized/integer_words.h"
#include "detent/language/quantized/quantization.h"

namespace detent {
namespace {

constexpr int64_t kNvfp4Block = 16;

/// How the inputs of matrices are rounded. Of all that compressed-tensors knows, what Detent has a format of:
/// its integers of tokens go by half of 255 steps.
struct InputScheme {
  int64_t bits = 8;
  bool is_float = false;
  bool is_dynamic = false;
  bool is_symmetric = true;
  std::string strategy = "tensor";
  int64_t group = kWholeSide;

  bool is_applied() const {
    constexpr int64_t kByte = 8;
    if (is_nvfp4()) return true;
    const bool of_tokens = strategy == "token" || (strategy == "group" && group > 0);
    if (bits != kByte) return false;
    return is_dynamic ? is_float && is_symmetric && of_tokens
                      : strategy == "tensor" && (is_symmetric || !is_float);
  }
  bool is_nvfp4() const {
    constexpr int64_t kNibble = 4;
    return bits == kNibble && is_float && is_symmetric && is_dynamic && strategy == "tensor_group" &&
           group == kNvfp4Block;
  }
  std::string text() const {
    if (is_nvfp4()) return "; inputs nvfp4, by a scale of the file and of each 16";
    const std::string form = fmt::format("{}{} by {}{}", is_float ? "float" : "int", bits, strategy,
                                         is_dynamic ? "" : ", by scales of the file");
    return is_applied() ? "; inputs " + form : fmt::format("; activations are not rounded ({})", form);
  }
  QuantSpec rounding(FolderParts& parts, const std::string& stem, int64_t inputs) const {
    if (is_nvfp4()) return nvfp4_by_scale(parts, stem + ".input_global_scale", TensorScale::kDivisor);
    if (is_dynamic) return float8_of_tokens(parts, stem, inputs, group);
    if (is_float) return float8_by_scale(parts, stem + ".input_scale");
    return integers_by_scale(parts, bits, stem + ".input_scale",
                             is_symmetric ? std::string() : stem + ".input_zero_point");
  }
};

/// Scheme of a group of matrices. Which group a matrix belongs to follows from its parts.
struct WeightScheme {
  int64_t bits = 8;
  bool is_float = false;
  bool is_symmetric = true;
  std::string strategy = "tensor";
  int64_t group = 0;
  Shape block = {};
  std::optional<InputScheme> inputs = {};

  std::string text() const {
    const std::string blocks = strategy == "block" ? fmt::format("of {} x {}", block[0], block[1])
                               : group > 0         ? fmt::format("of {}", group)
                                                   : "";
    return fmt::format("{}{} by {}{}{}{}", is_float ? "float" : "int", bits, strategy,
                       blocks.empty() ? "" : " ", blocks, is_symmetric ? "" : ", with zero points");
  }
  bool has_groups() const { return strategy == "group" || strategy == "tensor_group"; }
  /// Sides of the blocks with a scale.
  Shape block_of_matrix() const {
    if (strategy == "channel") return {1, kWholeSide};
    if (has_groups()) return {1, group};
    return strategy == "block" ? block : Shape{kWholeSide, kWholeSide};
  }
};

void check_scheme(const WeightScheme& scheme, const ConfigReader& weights) {
  const bool is_known = scheme.is_float ? scheme.bits == 4 || scheme.bits == 8 : scheme.bits >= 2;
  if (!is_known || scheme.bits > 8)
    weights.refuse("num_bits", scheme.is_float ? "expected 4 or 8 of floats" : "expected 2 to 8");
  constexpr std::array<std::string_view, 5> kStrategies = {"tensor", "channel", "group", "tensor_group",
                                                           "block"};
  if (std::ranges::find(kStrategies, scheme.strategy) == kStrategies.end())
    weights.refuse("strategy", fmt::format("expected one of {}", fmt::join(kStrategies, ", ")));
  if (scheme.has_groups() && (scheme.group < 1 || scheme.group > kWholeSide))
    fail("{}: the group_size is {}, expected at least 1", weights.where(), scheme.group);
  const bool are_blocks = scheme.block.size() == 2 && scheme.block[0] > 0 && scheme.block[1] > 0 &&
                          scheme.block[0] <= kWholeSide && scheme.block[1] <= kWholeSide;
  if (scheme.strategy == "block" && !are_blocks)
    fail("{}: there is no \"block_structure\" of two numbers", weights.where());
}

InputScheme read_input_scheme(const ConfigReader& json) {
  InputScheme scheme;
  scheme.bits = json.integer("num_bits", 8);
  scheme.is_float = json.text("type", "int") == "float";
  scheme.is_symmetric = json.boolean("symmetric", true);
  scheme.strategy = json.text("strategy", "tensor");
  const bool has_groups = scheme.strategy == "group" || scheme.strategy == "tensor_group";
  scheme.group = has_groups ? json.integer("group_size", 0) : kWholeSide;
  const Value* dynamic = json.value("dynamic");
  scheme.is_dynamic = dynamic != nullptr && *dynamic != Value(false);  // "local": scales of blocks alone
  return scheme;
}

WeightScheme read_scheme(const ConfigReader& group) {
  const auto weights = group.table("weights");
  WeightScheme scheme;
  scheme.bits = weights->integer("num_bits", 8);
  const std::string type = weights->text("type", "int");
  if (type != "int" && type != "float") weights->refuse("type", "expected int or float");
  scheme.is_float = type == "float";
  scheme.is_symmetric = weights->boolean("symmetric", true);
  scheme.group = weights->integer("group_size", 0);
  scheme.strategy = weights->text("strategy", scheme.group > 0     ? "group"
                                              : scheme.group == -1 ? "channel"
                                                                   : "tensor");
  if (scheme.strategy == "block") scheme.block = weights->integers("block_structure");
  if (const auto inputs = group.table("input_activations")) scheme.inputs = read_input_scheme(*inputs);
  check_scheme(scheme, *weights);
  return scheme;
}

std::vector<WeightScheme> schemes_of_json(const ConfigReader& json) {
  const auto groups = json.table("config_groups");
  if (!groups) fail("{}: there is no key \"config_groups\"", json.where());
  std::vector<WeightScheme> schemes;
  for (const std::string& name : groups->keys()) {
    const auto group = groups->table(name);
    if (group && group->has("weights")) schemes.push_back(read_scheme(*group));
  }
  if (schemes.empty()) fail("{}: no group of config_groups has \"weights\"", json.where());
  return schemes;
}

std::string describe_compressed(const ConfigReader& json) {
  static const std::vector<std::string> kFormats = {
      "dense",          "int-quantized",        "float-quantized",      "naive-quantized",
      "pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized",
      "mixed-precision"};
  const std::string format = json.text("format", "dense");
  if (std::ranges::find(kFormats, format) == kFormats.end())
    json.refuse("format", fmt::format("expected one of {}", fmt::join(kFormats, ", ")));
  const auto sparsity = json.table("sparsity_config");
  if (sparsity && sparsity->has("format") && sparsity->text("format", "") != "dense")
    sparsity->refuse("format", "expected dense: decompress the folder with compressed-tensors");
  std::vector<std::string> texts;
  std::string inputs;
  for (const WeightScheme& scheme : schemes_of_json(json)) {
    texts.push_back(scheme.text());
    const std::string text = scheme.inputs ? scheme.inputs->text() : "";
    if (inputs.find(text) == std::string::npos) inputs += text;
  }
  return fmt::format("compressed-tensors {}: {}, times scales in float32{}", format, fmt::join(texts, "; "),
                     inputs);
}

/// The scheme of these whose matrix has such codes; others give the reason.
const WeightScheme& scheme_of(const FolderParts& parts, const std::string& stem,
                              const std::vector<WeightScheme>& schemes,
                              const std::function<std::string(const WeightScheme&)>& fault) {
  std::vector<std::string> faults;
  for (const WeightScheme& scheme : schemes) {
    std::string found = fault(scheme);
    const bool has_zeros = parts.has(stem + ".weight_zero_point");
    if (found.empty() && !scheme.is_symmetric && !has_zeros)
      found = fmt::format("there is no tensor {}.weight_zero_point", stem);
    if (found.empty()) return scheme;
    faults.push_back(fmt::format("{}: {}", scheme.text(), found));
  }
  fail("{}: {} belongs to no group of config_groups ({})", parts.where(), stem, fmt::join(faults, "; "));
}

std::optional<QuantSpec> rounding_of_inputs(const WeightScheme& scheme, FolderParts& parts,
                                            const std::string& stem, int64_t inputs) {
  if (!scheme.inputs || !scheme.inputs->is_applied()) return std::nullopt;
  return scheme.inputs->rounding(parts, stem, inputs);
}

Shape shape_of_packed(FolderParts& parts, const std::string& stem) {
  const std::string name = stem + ".weight_shape";
  const Tensor sizes = to_dtype(parts.take(name, {DType::kInt64, DType::kInt32}), DType::kInt64);
  constexpr int64_t kLongest = int64_t{1} << 30;
  const auto is_size = [](int64_t size) { return size > 0 && size < kLongest; };
  if (sizes.shape() != Shape{2} || !std::ranges::all_of(sizes.values<int64_t>(), is_size))
    fail("{}: {} has no two sizes of a matrix", parts.where(), name);
  return {sizes.values<int64_t>()[0], sizes.values<int64_t>()[1]};
}

/// Zero points [rows, groups], whose columns are packed.
Tensor unpacked_zeros(const Tensor& words, const Shape& shape, int64_t bits, float offset) {
  Tensor zeros(DType::kFloat32, {shape[0], words.dim(1)});
  std::vector<float> column(static_cast<size_t>(shape[0]));
  for (int64_t i = 0; i < words.dim(1); ++i) {
    read_codes(words.values<int32_t>().data() + i, words.dim(1), bits, shape[0], column.data());
    for (int64_t row = 0; row < shape[0]; ++row)
      zeros.values<float>()[static_cast<size_t>(row * words.dim(1) + i)] =
          column[static_cast<size_t>(row)] - offset;
  }
  return zeros;
}

/// Integers of 2 to 8 bits, plus half of their range so that none is negative, in rows of words.
StoredMatrix packed_integers(FolderParts& parts, const std::string& stem,
                             const std::vector<WeightScheme>& schemes) {
  const Shape shape = shape_of_packed(parts, stem);
  const Tensor words = parts.take(stem + ".weight_packed", {DType::kInt32});
  const WeightScheme& scheme = scheme_of(parts, stem, schemes, [&](const WeightScheme& one) -> std::string {
    const Shape expected = {shape[0], words_of(shape[1], one.bits)};
    if (one.is_float) return "its codes are integers";
    if (words.shape() != expected)
      return fmt::format("weight_packed has shape {}, expected {}", shape_text(words.shape()),
                         shape_text(expected));
    if (one.has_groups() && shape[1] % one.group != 0)
      return fmt::format("{} inputs are no multiple of the group_size", shape[1]);
    return {};
  });
  const Shape block = scheme.block_of_matrix();
  const Shape grid = {(shape[0] + block[0] - 1) / block[0], (shape[1] + block[1] - 1) / block[1]};
  const Tensor scales =
      grid_of_scales(parts, stem + ".weight_scale", parts.take(stem + ".weight_scale"), grid);
  const auto bits = scheme.bits;
  std::optional<Tensor> zeros;
  if (!scheme.is_symmetric) {
    zeros = parts.take(stem + ".weight_zero_point", {DType::kInt32});
    parts.expect_shape(stem + ".weight_zero_point", zeros->shape(), {words_of(shape[0], bits), grid[1]});
  }
  std::vector<int32_t> order;
  if (const auto numbers = parts.take_if(stem + ".weight_g_idx"))
    order = blocks_of_inputs(parts, stem + ".weight_g_idx", *numbers, shape[1], std::min(block[1], shape[1]),
                             grid[1]);
  constexpr int64_t kByte = 8;
  const float offset = !zeros || bits == kByte ? static_cast<float>(1U << (bits - 1)) : 0;
  return {.shape = shape,
          .kind = CodeKind::kIntegers,
          .block_rows = block[0],
          .block_columns = std::min(block[1], shape[1]),
          .codes =
              [=](int64_t begin, int64_t end, float* to) {
                for (int64_t row = begin; row < end; ++row, to += shape[1]) {
                  read_codes(words.rows(row, row + 1).values<int32_t>().data(), 1, bits, shape[1], to);
                  for (int64_t i = 0; i < shape[1]; ++i) to[i] -= offset;
                }
              },
          .grid =
              [=, where = parts.where() + ": " + stem + ".weight_scale"] {
                ScaleGrid found{float32_scales(scales, where)};
                if (zeros) found.zeros = unpacked_zeros(*zeros, shape, bits, offset);
                return found;
              },
          .block_of = std::move(order),
          .parts = {words, scales},
          .inputs = rounding_of_inputs(scheme, parts, stem, shape[1])};
}

/// NVFP4, whose scales are divided by one of the matrix, or MXFP4.
StoredMatrix packed_floats(FolderParts& parts, const std::string& stem,
                           const std::vector<WeightScheme>& schemes) {
  const WeightScheme& scheme = scheme_of(parts, stem, schemes, [](const WeightScheme& one) -> std::string {
    constexpr int64_t kNibble = 4;
    const bool fits = one.is_float && one.bits == kNibble && one.has_groups() && one.is_symmetric;
    return fits ? "" : "its codes are floats of four bits in groups";
  });
  float divisor = 1;
  const std::string global = stem + ".weight_global_scale";
  if (const auto found = parts.take_if(global)) {
    if (found->numel() != 1)
      fail("{}: {} has shape {}, expected one number", parts.where(), global, shape_text(found->shape()));
    divisor = float32_scales(*found, parts.where() + ": " + global).values<float>()[0];
    if (!(divisor > 0)) fail("{}: {} is {}, expected a number above 0", parts.where(), global, divisor);
  } else if (scheme.strategy == "tensor_group") {
    fail("{}: there is no tensor {}", parts.where(), global);
  }
  StoredMatrix matrix =
      scaled_nibbles(parts, stem + ".weight_packed", stem + ".weight_scale", scheme.group, divisor);
  matrix.inputs = rounding_of_inputs(scheme, parts, stem, matrix.shape[1]);
  return matrix;
}

StoredMatrix plain_codes(FolderParts& parts, const std::string& stem,
                         const std::vector<WeightScheme>& schemes) {
  const Tensor& weight = parts.get(stem + ".weight");
  const bool is_float = is_floating_point(weight.dtype());
  const WeightScheme& scheme = scheme_of(parts, stem, schemes, [&](const WeightScheme& one) -> std::string {
    if (one.is_float != is_float) return fmt::format("its weights are {}", dtype_name(weight.dtype()));
    if (one.has_groups() && weight.dim(-1) % one.group != 0)
      return fmt::format("{} inputs are no multiple of the group_size", weight.dim(-1));
    return {};
  });
  if (scheme.is_symmetric) parts.drop({stem + ".weight_zero_point"});
  StoredMatrix matrix =
      scaled_bytes(parts, stem + ".weight", stem + ".weight_scale", scheme.block_of_matrix());
  matrix.inputs = rounding_of_inputs(scheme, parts, stem, matrix.shape[1]);
  return matrix;
}

StoredMatrices take_compressed(const ConfigReader& json, FolderParts& parts) {
  const std::vector<WeightScheme> schemes = schemes_of_json(json);
  StoredMatrices matrices;
  for (const std::string& stem : parts.stems(".weight_packed")) {
    const bool are_words = parts.get(stem + ".weight_packed").dtype() == DType::kInt32;
    matrices.emplace(stem + ".weight",
                     are_words ? packed_integers(parts, stem, schemes) : packed_floats(parts, stem, schemes));
  }
  for (const std::string& stem : parts.stems(".weight_scale"))
    matrices.emplace(stem + ".weight", plain_codes(parts, stem, schemes));
  parts.drop({".input_scale", ".input_zero_point", ".input_global_scale", ".input_g_idx", ".output_scale",
              ".output_zero_point", ".q_scale", ".k_scale", ".v_scale", ".q_zero_point", ".k_zero_point",
              ".v_zero_point"});
  parts.expect_none_left({DType::kFloat8E4M3, DType::kInt8}, "the same name and _scale");
  return matrices;
}

}  // namespace

QuantizationMethod compressed_tensors_method() {
  return {.name = "compressed-tensors", .describe = describe_compressed, .take = take_compressed};
}

}  // namespace detent
