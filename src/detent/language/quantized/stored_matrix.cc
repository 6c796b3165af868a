#include "detent/language/quantized/stored_matrix.h"

#include <algorithm>
#include <bit>

#include "detent/core/parallel.h"
#include "detent/files/file.h"

namespace detent {
namespace {

/// Whether products with integers of 8 bits are exact: then code * scale - zero * scale is (code - zero) *
/// scale, and codes without a sign may stay in as many bits as the file has.
bool has_short_mantissas(const Tensor& scales) {
  constexpr uint32_t kLast = 0xFF;
  return std::ranges::all_of(scales.values<float>(),
                             [](float scale) { return (std::bit_cast<uint32_t>(scale) & kLast) == 0; });
}

}  // namespace

void StoredMatrix::decode(const ScaleGrid& given, int64_t begin, int64_t end, float* weights) const {
  codes(begin, end, weights);
  const int64_t columns = shape[1];
  const int64_t blocks = given.scales.dim(1);
  const float* const scales = given.scales.values<float>().data();
  const float* const zeros = given.zeros ? given.zeros->values<float>().data() : nullptr;
  for (int64_t row = begin; row < end; ++row, weights += columns) {
    const int64_t first = row / block_rows * blocks;
    const auto scaled = [&](float code, int64_t block) {
      return zeros == nullptr ? code * scales[first + block]
                              : (code - zeros[first + block]) * scales[first + block];
    };
    if (!block_of.empty()) {
      for (int64_t i = 0; i < columns; ++i) weights[i] = scaled(weights[i], block_of[static_cast<size_t>(i)]);
      continue;
    }
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t last = std::min((block + 1) * block_columns, columns);
      for (int64_t i = block * block_columns; i < last; ++i) weights[i] = scaled(weights[i], block);
    }
  }
}

Tensor StoredMatrix::values() const {
  constexpr int64_t kGrain = 64;  // rows, since some methods have neighbours of a column in a word
  const ScaleGrid scales = grid();
  Tensor result = unfilled_tensor(DType::kFloat32, shape);
  float* const to = result.values<float>().data();
  parallel_for(shape[0], kGrain,
               [&](int64_t begin, int64_t end) { decode(scales, begin, end, to + begin * shape[1]); });
  for (const Tensor& part : parts) release_pages(part.bytes());
  return result;
}

Tensor StoredMatrix::rows(std::span<const int64_t> indices) const {
  const ScaleGrid scales = grid();
  Tensor result(DType::kFloat32, {std::ssize(indices), shape[1]});
  float* to = result.values<float>().data();
  for (const int64_t index : indices) {
    decode(scales, index, index + 1, to);
    to += shape[1];
  }
  return result;
}

/// Scales of a row of blocks for each row.
Tensor StoredMatrix::scales_of_rows(const ScaleGrid& given) const {
  if (block_rows == 1) return given.scales;
  Tensor result(DType::kFloat32, {shape[0], given.scales.dim(1)});
  auto to = result.values<float>().begin();
  for (int64_t row = 0; row < shape[0]; ++row) {
    const Tensor from = given.scales.rows(row / block_rows, row / block_rows + 1);
    to = std::ranges::copy(from.values<float>(), to).out;
  }
  return result;
}

std::optional<StoredScales> StoredMatrix::scales() const {
  if (kind == CodeKind::kFloats) return std::nullopt;
  const ScaleGrid found = grid();
  StoredScales result{.group = block_columns,
                      .scales = scales_of_rows(found),
                      .are_float8 = kind == CodeKind::kFloat8,
                      .table = table,
                      .block_of = block_of};
  if (!block_of.empty() || kind != CodeKind::kIntegers || !found.zeros || block_rows != 1) return result;
  const auto zeros = found.zeros->values<float>();
  const bool is_one = std::ranges::adjacent_find(zeros, std::ranges::not_equal_to()) == zeros.end();
  if (is_one || !has_short_mantissas(found.scales)) return result;
  Tensor minimums(DType::kFloat32, found.scales.shape());
  std::ranges::transform(zeros, found.scales.values<float>(), minimums.values<float>().begin(),
                         [](float zero, float scale) { return -zero * scale; });
  result.minimums = std::move(minimums);
  return result;
}

}  // namespace detent
