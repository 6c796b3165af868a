#include <algorithm>
#include <array>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/files/json.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/quantized/quantization.h"

namespace detent {
namespace {

// Four bits of bitsandbytes: an index in 16 values, times the largest magnitude of each block of the matrix
// in row-major order; these, in turn, may be indices in 256 values times one of each 256, plus their mean.

constexpr const char* kStates[] = {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"};

std::string describe_bitsandbytes(const ConfigReader& json) {
  if (json.boolean("load_in_8bit", false) || json.boolean("_load_in_8bit", false))
    return "bitsandbytes: 8-bit integers times a scale of each output; activations are not rounded";
  const std::string storage = json.text("bnb_4bit_quant_storage", "uint8");
  if (storage != "uint8") json.refuse("bnb_4bit_quant_storage", "expected uint8");
  const std::string type = json.text("bnb_4bit_quant_type", "fp4");
  if (type != "nf4" && type != "fp4") json.refuse("bnb_4bit_quant_type", "expected nf4 or fp4");
  return fmt::format("bitsandbytes: {}, 16 values times a scale of each block{}, in float32", type,
                     json.boolean("bnb_4bit_use_double_quant", false) ? " that has 8 bits itself" : "");
}

/// The JSON of a matrix's state.
struct FourBitState {
  Shape shape;
  int64_t block = 64;
  int64_t nested_block = 256;
  float nested_offset = 0;
};

FourBitState read_state(const std::string& where, const Tensor& bytes) {
  const std::span<const std::byte> text = bytes.bytes();
  const Value json = parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, where);
  const auto* table = json.get_if<Table>();
  if (table == nullptr) fail("{}: got {}, expected a table", where, json.kind_name());
  const ConfigReader reader(*table, where);
  FourBitState state{.shape = reader.integers("shape"),
                     .block = reader.integer("blocksize", 64),
                     .nested_block = reader.integer("nested_blocksize", 256),
                     .nested_offset = static_cast<float>(reader.number("nested_offset", 0))};
  constexpr int64_t kLongestSide = int64_t{1} << 30;
  const auto is_size = [](int64_t size) { return size > 0 && size < kLongestSide; };
  if (state.shape.size() != 2 || !std::ranges::all_of(state.shape, is_size))
    reader.refuse("shape", "expected two sizes of a matrix");
  if (!is_size(state.block)) reader.refuse("blocksize", "expected at least 1");
  if (!is_size(state.nested_block)) reader.refuse("nested_blocksize", "expected at least 1");
  return state;
}

Tensor table_of_values(FolderParts& parts, const std::string& name, int64_t size) {
  const Tensor table = parts.take(name, {DType::kFloat32});
  parts.expect_shape(name, table.shape(), {size});
  return table;
}

/// Scales of the blocks [first, last) in float32; those of eight bits are decoded, rounding after each
/// operation.
std::vector<float> block_maxima(const Tensor& maxima, const std::optional<Tensor>& values,
                                const std::optional<Tensor>& nested, const FourBitState& state, size_t first,
                                size_t last) {
  std::vector<float> result;
  for (size_t i = first; i < last; ++i) {
    if (!values) {
      result.push_back(maxima.values<float>()[i]);
      continue;
    }
    const double value = values->values<float>()[maxima.values<uint8_t>()[i]];
    const double scale = nested->values<float>()[i / static_cast<size_t>(state.nested_block)];
    result.push_back(static_cast<float>(value * scale) + state.nested_offset);
  }
  return result;
}

StoredMatrix four_bits(FolderParts& parts, const std::string& weight, const std::string& state_name) {
  constexpr int64_t kNibbleValues = 16;
  constexpr int64_t kByteValues = 256;
  const FourBitState state =
      read_state(parts.where() + ": " + state_name, parts.take(state_name, {DType::kUInt8}));
  const Tensor bytes = parts.take(weight, {DType::kUInt8});
  const int64_t count = element_count(state.shape);
  if (bytes.numel() != (count + 1) / 2)
    fail("{}: {} has {} bytes, expected {} of a matrix {}", parts.where(), weight, bytes.numel(),
         (count + 1) / 2, shape_text(state.shape));
  const Tensor values = table_of_values(parts, weight + ".quant_map", kNibbleValues);
  const Tensor maxima = parts.take(weight + ".absmax", {DType::kFloat32, DType::kUInt8});
  const int64_t blocks = (count + state.block - 1) / state.block;
  parts.expect_shape(weight + ".absmax", maxima.shape(), {blocks});
  std::optional<Tensor> nested_values;
  std::optional<Tensor> nested;
  if (maxima.dtype() == DType::kUInt8) {
    nested_values = table_of_values(parts, weight + ".nested_quant_map", kByteValues);
    nested = table_of_values(parts, weight + ".nested_absmax",
                             (blocks + state.nested_block - 1) / state.nested_block);
  }
  const int64_t columns = state.shape[1];
  return {.shape = state.shape,
          .block_rows = kWholeSide,
          .block_columns = columns,
          .codes =
              [=](int64_t begin, int64_t end, float* to) {
                const auto first = static_cast<size_t>(begin * columns / state.block);
                const auto last = static_cast<size_t>((end * columns - 1) / state.block + 1);
                const std::vector<float> scales =
                    block_maxima(maxima, nested_values, nested, state, first, last);
                const auto codes = bytes.values<uint8_t>();
                for (int64_t i = begin * columns; i < end * columns; ++i) {
                  const uint32_t byte = codes[static_cast<size_t>(i / 2)];
                  const uint32_t code = i % 2 == 0 ? byte >> 4U : byte & 15U;
                  *to++ = values.values<float>()[code] * scales[static_cast<size_t>(i / state.block) - first];
                }
              },
          .grid =
              [] {
                return ScaleGrid{Tensor::from<float>({1, 1}, std::vector<float>{1})};
              },
          .parts = {bytes, maxima}};
}

/// Integers times the largest magnitude of each output, which 127 stands for.
StoredMatrix eight_bits(FolderParts& parts, const std::string& stem) {
  StoredMatrix matrix = scaled_bytes(parts, stem + ".weight", stem + ".SCB", {1, kWholeSide});
  matrix.grid = [grid = std::move(matrix.grid)] {
    constexpr float kReciprocal = 7.874015718698502e-3F;  // of 127, as bitsandbytes has it
    ScaleGrid found = grid();
    found.scales = found.scales.clone();
    for (float& scale : found.scales.values<float>()) scale *= kReciprocal;
    return found;
  };
  return matrix;
}

StoredMatrices take_bitsandbytes(const ConfigReader& /*json*/, FolderParts& parts) {
  StoredMatrices matrices;
  for (const char* const end : kStates) {
    for (const std::string& weight : parts.stems(end))
      matrices.emplace(weight, four_bits(parts, weight, weight + end));
  }
  for (const std::string& stem : parts.stems(".SCB"))
    matrices.emplace(stem + ".weight", eight_bits(parts, stem));
  parts.drop({".weight_format"});
  parts.expect_none_left({DType::kUInt8}, "the same name and .quant_state.bitsandbytes__nf4 or __fp4");
  parts.expect_none_left({DType::kInt8}, "SCB in the place of weight");
  return matrices;
}

}  // namespace

QuantizationMethod bitsandbytes_method() {
  return {.name = "bitsandbytes", .describe = describe_bitsandbytes, .take = take_bitsandbytes};
}

}  // namespace detent
