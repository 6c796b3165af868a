#include "detent/passes/post_training/rotation.h"

#include <bit>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"

namespace detent {
namespace {

/// H x in place, by sums and differences of pairs.
void rotate(std::span<double> x) {
  for (size_t half = 1; half < x.size(); half *= 2) {
    for (size_t begin = 0; begin < x.size(); begin += 2 * half) {
      for (size_t i = begin; i < begin + half; ++i) {
        const double a = x[i];
        const double b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
  const double root = std::sqrt(static_cast<double>(x.size()));
  for (double& value : x) value /= root;
}

/// Rotates every `block` elements that follow each other at a distance of `stride`.
Tensor rotated(const Tensor& tensor, int64_t block, int64_t stride) {
  constexpr int64_t kGrain = 64;
  Tensor result = tensor.clone();
  float* values = result.values<float>().data();
  DETENT_CHECK(tensor.numel() % (block * stride) == 0, "{} in blocks of {} times {}",
               shape_text(tensor.shape()), block, stride);
  parallel_for(tensor.numel() / block, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<double> x(static_cast<size_t>(block));
    for (int64_t i = begin; i < end; ++i) {
      float* first = values + i / stride * block * stride + i % stride;
      for (int64_t k = 0; k < block; ++k) x[static_cast<size_t>(k)] = static_cast<double>(first[k * stride]);
      rotate(x);
      for (int64_t k = 0; k < block; ++k) first[k * stride] = static_cast<float>(x[static_cast<size_t>(k)]);
    }
  });
  return result;
}

/// Elements that share a scale along a row; nothing where that is no number.
std::optional<int64_t> elements_of_scale(const OperandFormat& format) {
  if (!format.other) return std::nullopt;
  const std::optional<BlockSize> blocks = block_size(format.other->format);
  if (blocks && blocks->is_single()) return blocks->sizes.front();
  return format.other->group_size;
}

}  // namespace

Tensor hadamard_matrix(int64_t block) {
  Tensor matrix(DType::kFloat32, {block, block});
  const double size = 1 / std::sqrt(static_cast<double>(block));
  const std::span<float> values = matrix.values<float>();
  for (size_t at = 0; at < values.size(); ++at) {
    const size_t row = at / static_cast<size_t>(block);
    const size_t column = at % static_cast<size_t>(block);
    values[at] = static_cast<float>(std::popcount(row & column) % 2 == 0 ? size : -size);
  }
  return matrix;
}

Tensor with_rotated_inputs(const Tensor& weight, int64_t block) { return rotated(weight, block, 1); }

Tensor with_rotated_outputs(const Tensor& weight, int64_t block) {
  return rotated(weight, block, weight.numel() / weight.dim(0));
}

void fit_rotated_blocks(Table& passes, const StaticQuantizeOptions& options) {
  constexpr const char* kKey = "block_size";
  std::optional<int64_t> block = elements_of_scale(options.activations);
  if (!block) block = elements_of_scale(options.weights);
  if (!block) block = options.weight_group_size;
  if (!block || *block < 2 || !std::has_single_bit(static_cast<uint64_t>(*block))) return;
  Value* found = passes.find("hadamard");
  if (found == nullptr) return;
  Table& rotation = *found->get_if<Table>();
  if (rotation.find(kKey) == nullptr) rotation[kKey] = *block;
}

}  // namespace detent
