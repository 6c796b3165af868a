#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// An uninitialized tensor. Freed memory is kept for later ones (core/block_cache.h).
Tensor result_tensor(DType dtype, const Shape& shape);
inline Tensor result_tensor(const Shape& shape) { return result_tensor(DType::kFloat32, shape); }

/// The positions of dimension `dim` in this order, each as often as it is listed; of a negative one the only
/// element of `otherwise`, which has x's element type.
Tensor selected_positions(const Tensor& x, size_t dim, const std::vector<int64_t>& positions,
                          const Tensor& otherwise);

// Between planes of positions, one a channel, and positions of adjacent channels.

/// to[x * channels + c] = from[c * plane + x], x < `positions`.
void channels_to_last(const float* from, int64_t plane, int64_t channels, int64_t positions, float* to);
/// to[i * to_step + j] = from[j * from_step + i] ^ flip for i < rows, j < columns.
void transpose_bytes(const uint8_t* from, int64_t from_step, int64_t rows, int64_t columns, uint8_t* to,
                     int64_t to_step, uint8_t flip = 0);

/// to[c * plane + x] = from[x * channels + c], x < `positions`.
void channels_to_front(const float* from, int64_t channels, int64_t positions, float* to, int64_t plane);
/// The same of some channels of positions that are `step` apart.
void channels_to_front(const float* from, int64_t step, int64_t channels, int64_t positions, float* to,
                       int64_t plane);

/// Images [N, C, ...] of float32 in memory as [N, ..., C].
Tensor channels_last(const Tensor& images);

}  // namespace detent
