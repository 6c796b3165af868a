#pragma once

#include <algorithm>
#include <random>
#include <utility>

#include "detent/core/tensor.h"

namespace detent {

/// Float32 numbers of the standard normal distribution.
inline Tensor normal_tensor(Shape shape, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  Tensor tensor(DType::kFloat32, std::move(shape));
  std::ranges::generate(tensor.values<float>(), [&] { return normal(generator); });
  return tensor;
}

}  // namespace detent
