#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "detent/statistics/state_bytes.h"

namespace detent {

/// Values that are looked at together: they and a copy of them stay in the nearest cache.
constexpr size_t kChunkValues = 4096;

/// The finite values of a chunk without its zeros, and the bits of their smallest and largest magnitude.
/// Where there are none, the magnitudes say nothing.
struct FiniteChunk {
  std::span<const float> values;
  uint32_t min_magnitude = 0;
  uint32_t max_magnitude = 0;
};

/// Room for FiniteChunk::values.
using ChunkBuffer = std::array<float, kChunkValues>;

/// How many values of each kind there were, and the extremes. 52 bytes a kept position.
class Extremes {
 public:
  /// Adds up to kChunkValues values. The rest of the sweep looks only at what this returns, which lies in
  /// `chunk` or in `buffer`: zeros, infinities and NaN are dealt with here.
  FiniteChunk add(std::span<const float> chunk, ChunkBuffer& buffer);
  /// The same where nothing else is needed.
  void add_alone(std::span<const float> chunk, ChunkBuffer& buffer);
  void merge(const Extremes& other);

  /// All values, and those of a kind.
  int64_t count() const { return count_; }
  int64_t nan() const { return nan_; }
  int64_t zeros() const { return zeros_; }
  int64_t positive_infinities() const { return positive_infinities_; }
  int64_t negative_infinities() const { return negative_infinities_; }
  int64_t infinities() const { return positive_infinities_ + negative_infinities_; }
  /// Zeros included.
  int64_t finite() const { return count_ - nan_ - infinities(); }

  /// Of the values that are not NaN (there must be one), or of their magnitudes. Zero is 0, never -0.
  float min() const;
  float max() const;
  float min_magnitude() const;
  float max_magnitude() const;
  float min(bool abs) const { return abs ? min_magnitude() : min(); }
  float max(bool abs) const { return abs ? max_magnitude() : max(); }
  /// Of the finite values (there must be one).
  float finite_min() const { return least_; }
  float finite_max() const { return greatest_; }
  float finite_min_magnitude() const { return least_magnitude_; }
  float finite_max_magnitude() const;
  float finite_min(bool abs) const { return abs ? finite_min_magnitude() : finite_min(); }
  float finite_max(bool abs) const { return abs ? finite_max_magnitude() : finite_max(); }

  void write(StateWriter& writer) const;
  /// Throws Error on a state that no values have.
  void read(StateReader& reader);
  static constexpr size_t kStateBytes = 5 * sizeof(int64_t) + 3 * sizeof(float);

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  FiniteChunk add(std::span<const float> chunk, ChunkBuffer& buffer, bool alone);

  int64_t count_ = 0;
  int64_t nan_ = 0;
  int64_t zeros_ = 0;
  int64_t positive_infinities_ = 0;
  int64_t negative_infinities_ = 0;
  // Of the finite values.
  float least_ = kInfinity;
  float greatest_ = -kInfinity;
  float least_magnitude_ = kInfinity;
};

}  // namespace detent
