#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <vector>

namespace detent {

/// PyTorch's CPU generator (at::CPUGeneratorImpl): MT19937 (Matsumoto, Nishimura 1998) and its distributions,
/// so that equal seeds give equal orders and initial weights with and without libtorch.
class MersenneTwister {
 public:
  explicit MersenneTwister(uint64_t seed = 0) : engine_(static_cast<uint32_t>(seed)) {}

  uint32_t draw() { return static_cast<uint32_t>(engine_()); }
  /// Two draws, the first in the upper half.
  uint64_t draw64();
  /// An int64 of Tensor.random_(): 0 <= x < 2^63.
  int64_t draw_int64();

  /// Tensor.uniform_(from, to): 24 bits of a draw each.
  void fill_uniform(std::span<float> values, double from, double to);
  /// Tensor.normal_(0, deviation), by pairs of uniform numbers (Box, Muller 1958). PyTorch's vectors round
  /// the logarithm and the cosine otherwise: up to some units in the last place.
  void fill_normal(std::span<float> values, double deviation);
  /// torch.randperm(count).
  std::vector<int64_t> permutation(int64_t count);

 private:
  double draw_normal();

  std::mt19937 engine_;
  std::optional<double> next_normal_;  // the second one of a pair
};

/// Generator of commands without libtorch; seed it once.
MersenneTwister& default_generator();

/// Increment of splitmix64's state (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
/// generators").
constexpr uint64_t kSplitmixStep = 0x9E3779B97F4A7C15U;

/// Its output for this state.
constexpr uint64_t splitmix64(uint64_t state) {
  state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9U;
  state = (state ^ state >> 27) * 0x94D049BB133111EBU;
  return state ^ state >> 31;
}

}  // namespace detent
