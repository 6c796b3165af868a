#include <algorithm>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/onnx/quantizer_export.h"
#include "detent/operators/onnx_import.h"
#include "detent/operators/quantization/onnx_import.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

// Weights of few bits with a scale for each block of a row, and layers that quantize their input at every
// run: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

/// Codes that lie densely in bytes, the first in the lowest bits: `count` of each row, which begins a byte.
Tensor unpacked(const Tensor& bytes, int64_t rows, int64_t count, int64_t bits) {
  const int64_t per_row = rows == 0 ? 0 : bytes.numel() / rows;
  if (per_row * rows != bytes.numel() || per_row < (count * bits + 7) / 8)
    fail("{} bytes for {} rows of {} codes of {} bits", bytes.numel(), rows, count, bits);
  Tensor codes(DType::kUInt8, {rows, count});
  const auto from = bytes.values<uint8_t>();
  const auto to = codes.values<uint8_t>();
  const auto mask = static_cast<unsigned>((1 << bits) - 1);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < count; ++c) {
      const auto first = static_cast<size_t>(r * per_row + c * bits / 8);
      const bool is_cut = c * bits % 8 + bits > 8;  // the next byte has the rest
      const unsigned word = from[first] | (is_cut ? static_cast<unsigned>(from[first + 1]) << 8U : 0U);
      to[static_cast<size_t>(r * count + c)] = static_cast<uint8_t>(word >> (c * bits % 8) & mask);
    }
  }
  return codes;
}

std::vector<double> as_numbers(const Tensor& tensor) {
  const Tensor numbers = to_dtype(tensor, DType::kFloat64);
  return {numbers.values<double>().begin(), numbers.values<double>().end()};
}

/// A matrix of codes with a scale for each block of a row.
struct BlockMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t bits = 0;
  int64_t block = 0;

  int64_t blocks() const { return (columns + block - 1) / block; }
};

int64_t positive(const NodeImport& node, const char* name, int64_t otherwise) {
  constexpr int64_t kMost = int64_t{1} << 31;
  const int64_t value = node.integer(name, otherwise);
  if (value < 1 || value > kMost) fail("{} is {}, expected 1 to {}", name, value, kMost);
  return value;
}

int64_t bits_of_codes(const NodeImport& node) {
  const int64_t bits = node.integer("bits", 4);
  if (bits < 2 || bits > 8) fail("codes of {} bits, expected 2 to 8", bits);
  return bits;
}

/// One for each block: packed as the codes are, numbers of their own, or none, where it is the middle.
std::vector<double> zero_points(const NodeImport& node, size_t input, const BlockMatrix& matrix) {
  const int64_t count = matrix.rows * matrix.blocks();
  if (!node.has_input(input)) return {static_cast<double>(int64_t{1} << (matrix.bits - 1))};
  const Tensor& given = node.expect_constant(input, "the zero points");
  const bool is_packed = given.dtype() == DType::kUInt8;
  std::vector<double> numbers =
      as_numbers(is_packed ? unpacked(given, matrix.rows, matrix.blocks(), matrix.bits) : given);
  if (static_cast<int64_t>(numbers.size()) != count)
    fail("{} zero points for {} blocks", numbers.size(), count);
  return numbers;
}

std::vector<double> block_scales(const NodeImport& node, size_t input, const BlockMatrix& matrix) {
  std::vector<double> scales = as_numbers(node.expect_constant(input, "the scales"));
  if (static_cast<int64_t>(scales.size()) != matrix.rows * matrix.blocks())
    fail("{} scales for {} rows of {} blocks", scales.size(), matrix.rows, matrix.blocks());
  return scales;
}

/// The block of each column where they are not in order.
void refuse_other_order(const NodeImport& node, size_t input, const BlockMatrix& matrix) {
  if (!node.has_input(input)) return;
  const std::vector<double> places = as_numbers(node.expect_constant(input, "g_idx"));
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t block = static_cast<int64_t>(i) / matrix.block;
    if (places[i] != static_cast<double>(block))
      node.refuse("g_idx with columns that are not in the order of their blocks");
  }
}

/// x W^T + bias, where W has codes of few bits: rows of blocks, each of which fills whole bytes.
void convert_matmul_of_blocks(NodeImport& node) {
  const BlockMatrix matrix = {positive(node, "N", 0), positive(node, "K", 0), bits_of_codes(node),
                              positive(node, "block_size", 0)};
  const Tensor& bytes = node.expect_constant(1, "the weight");
  if (bytes.dtype() != DType::kUInt8 || node.rank(0) < 1 || node.size(0, -1) != matrix.columns)
    fail("an input of shape {} and codes of {}, expected a last dimension of {} and uint8",
         shape_text(node.type(0).shape), dtype_name(bytes.dtype()), matrix.columns);
  refuse_other_order(node, 4, matrix);
  // A block that the row does not fill has codes that mean nothing.
  const int64_t whole = matrix.blocks() * matrix.block;
  if (bytes.numel() * 8 != matrix.rows * whole * matrix.bits)
    fail("{} bytes for {} rows of {} blocks of {} codes of {} bits", bytes.numel(), matrix.rows,
         matrix.blocks(), matrix.block, matrix.bits);
  const Tensor codes = unpacked(bytes, matrix.rows, matrix.columns, matrix.bits);
  const CodeBlocks blocks = {1, matrix.block, {0, static_cast<double>((int64_t{1} << matrix.bits) - 1)}};
  const RoundedConstant weight =
      rounded_constant(codes, block_scales(node, 2, matrix), zero_points(node, 3, matrix), blocks);
  NodeImport::Parameters parameters = {{"weight", weight.spec ? node.parameter(weight.values, *weight.spec)
                                                              : NodeImport::parameter(weight.values)}};
  const Tensor* const bias = node.constant(5);
  const bool is_bias =
      bias != nullptr && bias->dtype() == DType::kFloat32 && bias->shape() == Shape{matrix.rows};
  if (is_bias) parameters.emplace_back("bias", node.parameter(5));
  NodeInput result = node.add("linear", {node.input(0)}, {}, std::move(parameters));
  if (node.has_input(5) && !is_bias) result = node.add("add", {result, node.input(5)});
  node.set_output(0, result);
}

/// The values of 4-bit codes of the library bitsandbytes: FP4, whose first bit is the sign, and NF4,
/// quantiles of a normal distribution (Dettmers et al. 2023, arXiv:2305.14314).
constexpr float kFloat4[] = {
    0.0F,  5.208333333e-03F,  0.66666667F,  1.0F,  0.33333333F,  0.5F,  0.16666667F,  0.25F,
    -0.0F, -5.208333333e-03F, -0.66666667F, -1.0F, -0.33333333F, -0.5F, -0.16666667F, -0.25F};
constexpr float kNormalFloat4[] = {-1.0F,
                                   -0.6961928009986877F,
                                   -0.5250730514526367F,
                                   -0.39491748809814453F,
                                   -0.28444138169288635F,
                                   -0.18477343022823334F,
                                   -0.09105003625154495F,
                                   0.0F,
                                   0.07958029955625534F,
                                   0.16093020141124725F,
                                   0.24611230194568634F,
                                   0.33791524171829224F,
                                   0.44070982933044434F,
                                   0.5626170039176941F,
                                   0.7229568362236023F,
                                   1.0F};

/// x W^T, where W is a matrix of such codes, the first in the upper half of a byte, with a scale for each
/// block of them in row-major order: a layer of the floats that they stand for.
void convert_matmul_of_values(NodeImport& node) {
  const int64_t outputs = positive(node, "N", 0);
  const int64_t inputs = positive(node, "K", 0);
  const int64_t block = positive(node, "block_size", 0);
  const int64_t kind = node.integer("quant_type", 0);
  if (kind != 0 && kind != 1) fail("quant_type is {}, expected 0 or 1", kind);
  if (node.integer("transB", 1) == 0) node.refuse("transB 0");
  node.integer("training_mode", 0);
  const Tensor& bytes = node.expect_constant(1, "the weight");
  const Tensor scales = to_dtype(node.expect_constant(2, "absmax"), DType::kFloat32);
  const int64_t count = outputs * inputs;
  if (bytes.dtype() != DType::kUInt8 || bytes.numel() != (count + 1) / 2 ||
      scales.numel() != (count + block - 1) / block || node.rank(0) < 1 || node.size(0, -1) != inputs)
    fail("{} bytes and {} scales for {} x {} codes in blocks of {}, and an input of shape {}", bytes.numel(),
         scales.numel(), outputs, inputs, block, shape_text(node.type(0).shape));
  Tensor weight(DType::kFloat32, {outputs, inputs});
  for (size_t i = 0; float& value : weight.values<float>()) {
    const unsigned byte = bytes.values<uint8_t>()[i / 2];
    const unsigned code = i % 2 == 0 ? byte >> 4U : byte & 15U;
    value =
        (kind == 0 ? kFloat4 : kNormalFloat4)[code] * scales.values<float>()[i / static_cast<size_t>(block)];
    ++i;
  }
  node.set_output(0, node.add("linear", {node.input(0)}, {}, {{"weight", NodeImport::parameter(weight)}}));
}

/// Codes of a constant as numbers of their own: those of bytes that hold several are taken apart.
struct GatheredCodes {
  Tensor codes;
  Tensor zero_points;
  std::pair<double, double> range;
  bool has_zero_points;
};

Shape with_last(Shape shape, int64_t size) {
  if (shape.empty()) fail("a tensor without dimensions, expected codes");
  shape.back() = size;
  return shape;
}

GatheredCodes gathered_codes(const NodeImport& node) {
  const Tensor& data = node.expect_constant(0, "the codes");
  const NarrowType* const narrow = node.narrow_type(0);
  const bool has_zeros = node.has_input(3);
  GatheredCodes result{
      data, has_zeros ? node.expect_constant(3, "the zero points") : Tensor(), {0, 0}, has_zeros};
  if (narrow != nullptr) {
    if (narrow->is_float()) node.refuse(fmt::format("codes of {}", narrow->name));
    result.range = {narrow->low(), narrow->high()};
    return result;
  }
  const int64_t bits = bits_of_codes(node);
  if (data.dtype() != DType::kUInt8) node.refuse(fmt::format("codes of {}", dtype_name(data.dtype())));
  result.range = {0, static_cast<double>((int64_t{1} << bits) - 1)};
  if (8 % bits != 0) node.refuse(fmt::format("codes of {} bits", bits));
  if (bits == 8) return result;
  const auto taken_apart = [&](const Tensor& bytes, int64_t last) {
    const int64_t rows = bytes.numel() / std::max<int64_t>(bytes.dim(-1), 1);
    return unpacked(bytes, rows, last, bits).reshaped(with_last(bytes.shape(), last));
  };
  if (data.rank() < 1) fail("codes without dimensions");
  result.codes = taken_apart(data, data.dim(-1) * (8 / bits));
  if (has_zeros) {
    const Tensor& scales = node.expect_constant(2, "the scales");
    if (scales.rank() != data.rank() || result.zero_points.rank() != data.rank() ||
        result.zero_points.dtype() != DType::kUInt8)
      fail("zero points of shape {} for scales of shape {}", shape_text(result.zero_points.shape()),
           shape_text(scales.shape()));
    result.zero_points = taken_apart(result.zero_points, scales.dim(-1));
  }
  return result;
}

int64_t axis_within(const NodeImport& node, const char* name, int64_t otherwise, int64_t rank) {
  const int64_t axis = node.integer(name, otherwise);
  const int64_t counted = axis < 0 ? axis + rank : axis;
  if (counted < 0 || counted >= rank) fail("{} is {} for {} dimensions", name, axis, rank);
  return counted;
}

/// Elements of a constant of codes: of rows of a matrix an embedding.
void convert_gather_of_blocks(NodeImport& node) {
  const GatheredCodes gathered = gathered_codes(node);
  const int64_t rank = gathered.codes.rank();
  const int64_t axis = axis_within(node, "gather_axis", 0, rank);
  const CodeBlocks blocks = {axis_within(node, "quantize_axis", 1, rank), positive(node, "block_size", 128),
                             gathered.range};
  const double middle = gathered.range.first < 0 ? 0 : (gathered.range.second + 1) / 2;
  // Codes of uint4 have a zero point of 0 where none is given, those of bytes the middle.
  const bool is_narrow = node.narrow_type(0) != nullptr;
  std::vector<double> zeros = {is_narrow ? 0 : middle};
  if (gathered.has_zero_points) zeros = as_numbers(gathered.zero_points);
  const RoundedConstant rows = rounded_constant(
      gathered.codes, as_numbers(node.expect_constant(2, "the scales")), std::move(zeros), blocks);
  NodeInput indices = node.input(1);
  if (rank == 2 && axis == 0 && node.constant(1) == nullptr) {
    if (node.type(1).dtype != DType::kInt64) indices = node.add("cast", {indices}, {{"dtype", "int64"}});
    const ParameterRef weight =
        rows.spec ? node.parameter(rows.values, *rows.spec) : NodeImport::parameter(rows.values);
    return node.set_output(0, node.add("embedding", {indices}, {}, {{"weight", weight}}));
  }
  NodeInput table = node.constant_of(rows.values);
  if (rows.spec) table = node.add_rounding(table, *rows.spec);
  node.set_output(0, node.add("gather", {table, indices}, {{"dim", axis}}));
}

/// A linear layer of a constant matrix of codes, whose input gets a scale at every run.
void convert_dynamic_matmul(NodeImport& node) {
  const auto matrix = rounded_constant(node, {1, 2, 3}, 1);
  if (!matrix || !matrix->spec || matrix->values.rank() != 2)
    node.refuse("a weight that is no constant matrix of codes with constant scales");
  QuantSpec weight = *matrix->spec;
  if (weight.granularity != Granularity::kTensor) weight.axis = 0;
  QuantSpec of_input;
  of_input.format = integer_format({.width = 8, .is_signed = false});
  NodeImport::Parameters parameters = {{"weight", node.parameter(transposed_matrix(matrix->values), weight)}};
  const int64_t columns = matrix->values.dim(1);
  const Tensor* const bias = node.constant(4);
  const bool is_bias = bias != nullptr && bias->dtype() == DType::kFloat32 && bias->shape() == Shape{columns};
  if (is_bias) parameters.emplace_back("bias", node.parameter(4));
  NodeInput result =
      node.add("linear", {node.add_rounding(node.input(0), of_input)}, {}, std::move(parameters));
  if (node.has_input(4) && !is_bias) result = node.add("add", {result, node.input(4)});
  node.set_output(0, result);
}

}  // namespace

OnnxConverterList block_weight_converters() {
  return {{"MatMulNBits", convert_matmul_of_blocks},
          {"MatMulBnb4", convert_matmul_of_values},
          {"GatherBlockQuantized", convert_gather_of_blocks},
          {"DynamicQuantizeMatMul", convert_dynamic_matmul}};
}

}  // namespace detent
