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

struct FourBitMatrix {
  FourBitState state;
  Tensor bytes;
  Tensor values;
  Tensor maxima;
  std::optional<Tensor> nested_values = {};
  std::optional<Tensor> nested_maxima = {};

  /// The first of a byte is its high half.
  uint32_t code(int64_t element) const {
    const uint32_t byte = bytes.values<uint8_t>()[static_cast<size_t>(element / 2)];
    return element % 2 == 0 ? byte >> 4U : byte & 15U;
  }
  /// Scale of a block; that of eight bits is rounded after each operation.
  float scale(int64_t block) const {
    const auto at = static_cast<size_t>(block);
    if (!nested_values) return maxima.values<float>()[at];
    const double value = nested_values->values<float>()[maxima.values<uint8_t>()[at]];
    const double scale = nested_maxima->values<float>()[static_cast<size_t>(block / state.nested_block)];
    return static_cast<float>(value * scale) + state.nested_offset;
  }
};

FourBitMatrix read_four_bits(FolderParts& parts, const std::string& weight, const std::string& state_name) {
  constexpr int64_t kNibbleValues = 16;
  constexpr int64_t kByteValues = 256;
  FourBitMatrix matrix{
      .state = read_state(parts.where() + ": " + state_name, parts.take(state_name, {DType::kUInt8})),
      .bytes = parts.take(weight, {DType::kUInt8}),
      .values = table_of_values(parts, weight + ".quant_map", kNibbleValues),
      .maxima = parts.take(weight + ".absmax", {DType::kFloat32, DType::kUInt8})};
  const FourBitState& state = matrix.state;
  const int64_t count = element_count(state.shape);
  if (matrix.bytes.numel() != (count + 1) / 2)
    fail("{}: {} has {} bytes, expected {} of a matrix {}", parts.where(), weight, matrix.bytes.numel(),
         (count + 1) / 2, shape_text(state.shape));
  const int64_t blocks = (count + state.block - 1) / state.block;
  parts.expect_shape(weight + ".absmax", matrix.maxima.shape(), {blocks});
  if (matrix.maxima.dtype() == DType::kUInt8) {
    matrix.nested_values = table_of_values(parts, weight + ".nested_quant_map", kByteValues);
    matrix.nested_maxima = table_of_values(parts, weight + ".nested_absmax",
                                           (blocks + state.nested_block - 1) / state.nested_block);
  }
  return matrix;
}

StoredMatrix four_bits(FolderParts& parts, const std::string& weight, const std::string& state_name) {
  const FourBitMatrix matrix = read_four_bits(parts, weight, state_name);
  const int64_t columns = matrix.state.shape[1];
  const int64_t block = matrix.state.block;
  StoredMatrix stored;
  stored.shape = matrix.state.shape;
  stored.parts = {matrix.bytes, matrix.maxima};
  if (columns % block != 0) {  // blocks cross rows
    stored.block_rows = kWholeSide;
    stored.block_columns = columns;
    stored.codes = [=](int64_t begin, int64_t end, float* to) {
      for (int64_t i = begin * columns; i < end * columns; ++i)
        *to++ = matrix.values.values<float>()[matrix.code(i)] * matrix.scale(i / block);
    };
    stored.grid = [] { return ScaleGrid{Tensor::from<float>({1, 1}, std::vector<float>{1})}; };
    return stored;
  }
  stored.kind = CodeKind::kIndices;
  stored.block_columns = block;
  stored.table = {matrix.values.values<float>().begin(), matrix.values.values<float>().end()};
  stored.codes = [=](int64_t begin, int64_t end, float* to) {
    for (int64_t i = begin * columns; i < end * columns; ++i)
      *to++ = matrix.values.values<float>()[matrix.code(i)];
  };
  stored.grid = [=] {
    Tensor scales(DType::kFloat32, {matrix.state.shape[0], columns / block});
    int64_t i = 0;
    for (float& scale : scales.values<float>()) scale = matrix.scale(i++);
    return ScaleGrid{scales};
  };
  return stored;
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
