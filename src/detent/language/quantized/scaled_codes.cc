#include <algorithm>
#include <array>
#include <cmath>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/language/quantized/quantization.h"

namespace detent {
namespace {

int64_t blocks_of(int64_t size, int64_t block) { return (size + block - 1) / block; }

constexpr std::array<float, 16> kNibbleElements = {0,     0.5F,  1,  1.5F,  2,  3,  4,  6,
                                                   -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

/// Elements of a byte as floats.
Tensor float_codes(const Tensor& bytes) {
  if (is_floating_point(bytes.dtype())) return to_float32(bytes);
  return to_dtype(bytes, DType::kFloat32);
}

CodeKind kind_of_bytes(DType dtype) {
  if (dtype == DType::kInt8) return CodeKind::kIntegers;
  return dtype == DType::kFloat8E4M3 ? CodeKind::kFloat8 : CodeKind::kFloats;
}

}  // namespace

Tensor grid_of_scales(const FolderParts& parts, const std::string& name, const Tensor& scales,
                      const Shape& expected) {
  const bool is_vector = expected[1] == 1 && scales.shape() == Shape{expected[0]};
  const bool is_one = element_count(expected) == 1 && scales.numel() == 1;
  if (!is_vector && !is_one) parts.expect_shape(name, scales.shape(), expected);
  return scales.reshaped(expected);
}

Tensor float32_scales(const Tensor& scales, const std::string& where) {
  if (is_floating_point(scales.dtype())) return to_float32(scales);
  if (scales.dtype() != DType::kUInt8)
    fail("{} is {}, expected floats or uint8", where, dtype_name(scales.dtype()));
  constexpr int kBiasOfExponents = 127;
  constexpr uint8_t kNotANumber = 255;
  if (std::ranges::find(scales.values<uint8_t>(), kNotANumber) != scales.values<uint8_t>().end())
    fail("{} has exponents of 255, which are NaN", where);
  Tensor result(DType::kFloat32, scales.shape());
  std::ranges::transform(scales.values<uint8_t>(), result.values<float>().begin(),
                         [](uint8_t exponent) { return std::ldexp(1.0F, exponent - kBiasOfExponents); });
  return result;
}

StoredMatrix scaled_bytes(FolderParts& parts, const std::string& weight, const std::string& scale,
                          const Shape& block) {
  const Tensor codes = parts.take(weight, {DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt8});
  if (codes.rank() != 2 || codes.numel() == 0)
    fail("{}: {} has shape {}, expected a matrix", parts.where(), weight, shape_text(codes.shape()));
  const Shape expected = {blocks_of(codes.dim(0), block[0]), blocks_of(codes.dim(1), block[1])};
  const Tensor scales = grid_of_scales(parts, scale, parts.take(scale), expected);
  const std::string zero = weight + "_zero_point";
  std::optional<Tensor> zeros = parts.take_if(zero);
  if (zeros) zeros = grid_of_scales(parts, zero, *zeros, expected);
  const std::string where = parts.where() + ": " + scale;
  return {.shape = codes.shape(),
          .kind = kind_of_bytes(codes.dtype()),
          .block_rows = block[0],
          .block_columns = std::min(block[1], codes.dim(1)),
          .codes =
              [codes](int64_t begin, int64_t end, float* to) {
                std::ranges::copy(float_codes(codes.rows(begin, end)).values<float>(), to);
              },
          .grid =
              [scales, zeros, where] {
                ScaleGrid grid{float32_scales(scales, where)};
                if (zeros) grid.zeros = float_codes(*zeros);
                return grid;
              },
          .parts = {codes, scales}};
}

StoredMatrix scaled_nibbles(FolderParts& parts, const std::string& codes, const std::string& scale,
                            int64_t group, float divisor) {
  const Tensor bytes = parts.take(codes, {DType::kUInt8, DType::kInt8});
  const Tensor scales = parts.take(scale);
  if (bytes.rank() != 2 || bytes.numel() == 0 || group < 2 || 2 * bytes.dim(1) % group != 0)
    fail("{}: {} has shape {}, expected rows of groups of {} elements, two a byte", parts.where(), codes,
         shape_text(bytes.shape()), group);
  const Shape shape = {bytes.dim(0), 2 * bytes.dim(1)};
  parts.expect_shape(scale, scales.shape(), {shape[0], shape[1] / group});
  const std::string where = parts.where() + ": " + scale;
  return {.shape = shape,
          .kind = CodeKind::kIndices,
          .block_rows = 1,
          .block_columns = group,
          .codes =
              [bytes](int64_t begin, int64_t end, float* to) {
                for (const std::byte byte : bytes.rows(begin, end).bytes()) {
                  *to++ = kNibbleElements[std::to_integer<size_t>(byte) & 15U];
                  *to++ = kNibbleElements[std::to_integer<size_t>(byte) >> 4U];
                }
              },
          .grid =
              [scales, where, divisor] {
                Tensor found = float32_scales(scales, where);
                if (divisor != 1) {
                  found = found.clone();
                  for (float& x : found.values<float>()) x /= divisor;
                }
                return ScaleGrid{found};
              },
          .table = {kNibbleElements.begin(), kNibbleElements.end()},
          .parts = {bytes, scales}};
}

}  // namespace detent
