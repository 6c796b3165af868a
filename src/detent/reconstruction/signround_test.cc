#include "detent/reconstruction/learned_rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "detent/reconstruction/random_layer_for_test.h"

namespace detent {
namespace {

/// A row of 8 whose sums no type rounds: weights in 64ths, inputs of whole numbers.
RandomLayer exact_layer(uint32_t seed) {
  std::mt19937 generator(seed);
  const auto draw = [&](int64_t range) {
    return static_cast<int64_t>(generator() % static_cast<uint32_t>(2 * range + 1)) - range;
  };
  RandomLayer layer{Matrix<double>(8, 8), Tensor(DType::kFloat32, {1, 8})};
  Matrix<double> inputs(3, 8);
  for (double& x : inputs.values()) x = static_cast<double>(draw(4));
  for (int64_t a = 0; a < 8; ++a) {
    for (int64_t b = 0; b < 8; ++b) {
      for (int64_t k = 0; k < 3; ++k) layer.gram(a, b) += inputs(k, a) * inputs(k, b);
    }
  }
  for (float& w : layer.weight.values<float>()) w = static_cast<float>(draw(200)) / 64;
  return layer;
}

double error_of(const RandomLayer& layer, const std::vector<double>& rounded) {
  double error = 0;
  const auto weights = layer.weight.values<float>();
  for (size_t a = 0; a < 8; ++a) {
    for (size_t b = 0; b < 8; ++b) {
      error += (rounded[a] - static_cast<double>(weights[a])) *
               (rounded[b] - static_cast<double>(weights[b])) *
               layer.gram(static_cast<int64_t>(a), static_cast<int64_t>(b));
    }
  }
  return error;
}

/// The paper's loop for integers, W + V rounded half up: 64 steps of 1/64 that fall to 0.
double least_error_of_the_papers_loop(const RandomLayer& layer) {
  const auto weights = layer.weight.values<float>();
  std::vector<double> v(8, 0.0);
  std::vector<double> rounded(8);
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step <= 64; ++step) {
    for (size_t i = 0; i < 8; ++i) rounded[i] = std::floor(static_cast<double>(weights[i]) + v[i] + 0.5);
    least = std::min(least, error_of(layer, rounded));
    for (size_t i = 0; i < 8; ++i) {
      double gradient = 0;
      for (size_t k = 0; k < 8; ++k)
        gradient += (rounded[k] - static_cast<double>(weights[k])) *
                    layer.gram(static_cast<int64_t>(k), static_cast<int64_t>(i));
      const double sign = gradient > 0 ? 1 : gradient < 0 ? -1 : 0;
      v[i] = std::clamp(v[i] - (1 - step / 64.0) / 64 * sign, -0.5, 0.5);
    }
  }
  return least;
}

TEST(SignRound, EqualsThePapersLoopWhereNothingIsRounded) {
  const QuantSpec spec = parse_quant_spec_text("affine:width=4,symmetric=true,scale=1");
  int moved = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const RandomLayer layer = exact_layer(seed);
    Tensor learned = layer.weight.clone();
    signround(layer.gram, ValueGrid(spec, learned, ""), {.iterations = 64}, learned, 0, 1);
    const auto values = learned.values<float>();
    const Tensor rounded = fake_quantize(spec, layer.weight);
    const auto nearest = rounded.values<float>();
    const double of_nearest = error_of(layer, std::vector<double>(nearest.begin(), nearest.end()));
    // Rounding to nearest takes even numbers at ties, which the loop does not try.
    EXPECT_EQ(error_of(layer, std::vector<double>(values.begin(), values.end())),
              std::min(of_nearest, least_error_of_the_papers_loop(layer)))
        << seed;
    moved += std::ranges::equal(values, nearest) ? 0 : 1;
  }
  EXPECT_GT(moved, 100);
}

}  // namespace
}  // namespace detent
