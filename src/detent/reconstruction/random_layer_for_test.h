#pragma once

#include <cstdint>
#include <random>

#include "detent/core/tensor.h"
#include "detent/reconstruction/matrix.h"

namespace detent {

struct RandomLayer {
  Matrix<double> gram;
  Tensor weight;
};

/// Inputs that depend on each other; weights of a normal distribution.
inline RandomLayer random_layer(int64_t rows, int64_t n, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  RandomLayer layer{Matrix<double>(n, n), Tensor(DType::kFloat32, {rows, n})};
  Matrix<double> mix(n, n / 3);
  for (double& value : mix.values()) value = static_cast<double>(normal(generator));
  for (int64_t a = 0; a < n; ++a) {
    layer.gram(a, a) = 0.1;
    for (int64_t b = 0; b < n; ++b) {
      for (int64_t k = 0; k < n / 3; ++k) layer.gram(a, b) += mix(a, k) * mix(b, k);
    }
  }
  for (float& value : layer.weight.values<float>()) value = normal(generator);
  return layer;
}

}  // namespace detent
