#include <algorithm>
#include <bit>

#include <onnx/onnx_pb.h>

#include "detent/core/error.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/verbs.h"
#include "detent/onnx/weight_blocks.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

// Matrices of codes without sign, in blocks of each row:
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

constexpr const char* kMicrosoft = "com.microsoft";
constexpr int64_t kLeastBlock = 16;
constexpr int64_t kLargestBlock = 256;
constexpr int kMostBits = 8;
/// With a scale a tensor or channel, codes of more bits stay with integer layers.
constexpr int kMostBitsOfChannels = 4;

struct FewBits {
  int bits = 8;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t block = 0;
  std::vector<uint32_t> codes;
  std::vector<float> scales;
  std::vector<uint32_t> zero_points;  // none where each is the middle

  int64_t blocks() const { return (columns + block - 1) / block; }
};

/// A block a row where that is one of those that ONNX Runtime has fast products for.
int64_t block_of_channels(int64_t columns) {
  if (columns <= kLargestBlock)
    return std::max(kLeastBlock, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(columns))));
  const int64_t least = columns % kLeastBlock == 0 ? columns & -columns : 2 * kLeastBlock;
  return std::min(least, kLargestBlock);
}

/// The same scales, one for each block of a row; nothing where blocks are others than these operators have.
std::optional<QuantSpec> blocks_of_rows(QuantSpec spec, const Tensor& matrix) {
  const std::optional<IntegerCodes> integers = integer_codes(spec.format);
  if (!integers || matrix.rank() != 2 || matrix.numel() == 0) return std::nullopt;
  const bool is_of_rows = spec.granularity == Granularity::kTensor || spec.axis == 0 || spec.axis == -2;
  if (!is_of_rows) return std::nullopt;
  if (spec.granularity == Granularity::kGroup) {
    const int64_t block = *spec.group_size;
    const bool fits = integers->width <= kMostBits && block >= kLeastBlock &&
                      std::has_single_bit(static_cast<uint64_t>(block));
    return fits ? std::optional(with_given_parameters(spec, matrix)) : std::nullopt;
  }
  if (integers->width > kMostBitsOfChannels) return std::nullopt;
  spec = with_given_parameters(spec, matrix);
  GivenScales given_by_channel = given_scales(spec.format);
  const int64_t block = block_of_channels(matrix.dim(1));
  const int64_t blocks = (matrix.dim(1) + block - 1) / block;
  const auto repeat = [&](auto& numbers) {
    const auto given = numbers;
    numbers.clear();
    for (int64_t i = 0; i < matrix.dim(0) * blocks && !given.empty(); ++i)
      numbers.push_back(given[given.size() == 1 ? 0 : static_cast<size_t>(i / blocks)]);
  };
  repeat(given_by_channel.scales);
  repeat(given_by_channel.zero_points);
  spec.format = with_scales(spec.format, std::move(given_by_channel));
  spec.granularity = Granularity::kGroup;
  spec.axis = 0;
  spec.group_size = block;
  return spec;
}

/// Codes counted from the lowest.
std::vector<uint32_t> without_sign(std::vector<uint32_t> codes, const WeightBlocks& blocks, int bits) {
  if (!blocks.is_signed()) return codes;
  const uint32_t middle = uint32_t{1} << (blocks.bits - 1);
  const uint32_t above = middle - (uint32_t{1} << (bits - 1));
  for (uint32_t& code : codes) code = (code ^ middle) - above;
  return codes;
}

std::optional<FewBits> few_bits(const NodeExport& node, const char* name) {
  if (node.style() != OnnxStyle::kMatMulNBits) return std::nullopt;
  const auto rounding = rounding_of(node.node(), name);
  const Tensor* matrix = node.find_parameter(name);
  const auto spec = rounding && matrix != nullptr ? blocks_of_rows(*rounding, *matrix) : std::nullopt;
  if (!spec) return std::nullopt;
  const WeightBlocks blocks = weight_blocks(*spec, *matrix);
  const int width = integer_codes(spec->format)->width;
  FewBits result{.bits = width <= 2 ? 2 : blocks.bits,
                 .rows = blocks.shape[0],
                 .columns = blocks.shape[1],
                 .block = blocks.block,
                 .codes = {},
                 .scales = blocks.scales,
                 .zero_points = {}};
  result.codes = without_sign(blocks.codes, blocks, result.bits);
  std::vector<uint32_t> zeros = blocks.zero_points;
  zeros.resize(result.scales.size(), 0);
  zeros = without_sign(std::move(zeros), blocks, result.bits);
  const uint32_t middle = uint32_t{1} << (result.bits - 1);
  if (std::ranges::any_of(zeros, [&](uint32_t zero) { return zero != middle; })) result.zero_points = zeros;
  return result;
}

/// Rows of `count` codes, each of whole bytes, with zeros at the end.
std::string packed_rows(const std::vector<uint32_t>& codes, int64_t count, int64_t padded, int bits) {
  std::string bytes;
  for (auto row = codes.begin(); row != codes.end(); row += count) {
    std::vector<uint32_t> whole(row, row + count);
    whole.resize(static_cast<size_t>(padded), 0);
    bytes += packed_bits(whole, bits);
  }
  return bytes;
}

int64_t whole_bytes(int64_t codes, int bits) { return (codes * bits + 7) / 8; }

std::string zero_points_of(NodeExport& node, const FewBits& matrix) {
  if (matrix.zero_points.empty()) return "";
  return node.elements("zero_points", onnx::TensorProto::UINT8,
                       {matrix.rows, whole_bytes(matrix.blocks(), matrix.bits)},
                       packed_rows(matrix.zero_points, matrix.blocks(), matrix.blocks(), matrix.bits));
}

Table attributes_of(const FewBits& matrix) { return {{"bits", matrix.bits}, {"block_size", matrix.block}}; }

}  // namespace

bool wrote_matmul_of_blocks(NodeExport& node) {
  const std::optional<FewBits> matrix = few_bits(node, "weight");
  if (!matrix) return false;
  const int64_t padded = matrix->blocks() * matrix->block;
  Table attributes = attributes_of(*matrix);
  attributes["K"] = matrix->columns;
  attributes["N"] = matrix->rows;
  const std::string codes =
      node.elements("weight_quantized", onnx::TensorProto::UINT8,
                    {matrix->rows, matrix->blocks(), whole_bytes(matrix->block, matrix->bits)},
                    packed_rows(matrix->codes, matrix->columns, padded, matrix->bits));
  const std::string scales =
      node.constant(Tensor::from({matrix->rows * matrix->blocks()}, matrix->scales), "weight_scale");
  node.emit("MatMulNBits",
            {node.input(0), codes, scales, zero_points_of(node, *matrix), "", node.parameter("bias")},
            std::move(attributes), std::nullopt, kMicrosoft);
  return true;
}

bool wrote_gather_of_blocks(NodeExport& node, const std::string& indices) {
  const std::optional<FewBits> matrix = few_bits(node, "weight");
  const bool fits = matrix && matrix->columns * matrix->bits % 8 == 0;
  if (!fits) return false;
  Table attributes = attributes_of(*matrix);
  attributes["gather_axis"] = 0;
  attributes["quantize_axis"] = 1;
  const std::string codes =
      node.elements("weight_quantized", onnx::TensorProto::UINT8,
                    {matrix->rows, whole_bytes(matrix->columns, matrix->bits)},
                    packed_rows(matrix->codes, matrix->columns, matrix->columns, matrix->bits));
  const std::string scales =
      node.constant(Tensor::from({matrix->rows, matrix->blocks()}, matrix->scales), "weight_scale");
  node.emit("GatherBlockQuantized", {codes, indices, scales, zero_points_of(node, *matrix)},
            std::move(attributes), std::nullopt, kMicrosoft);
  return true;
}

}  // namespace detent
