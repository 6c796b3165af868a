#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include "detent/statistics/scan.h"
#include "detent/statistics/state_bytes.h"

namespace detent {

/// Values per chunk, which stays in the first-level cache.
constexpr size_t kChunkValues = 4096;

/// Finite values that are not zero, and the extremes of their magnitudes.
struct FiniteChunk {
  std::span<const float> values;
  Magnitudes magnitudes;
};

/// Collects finite values of one sign from chunks until there are enough to process.
class SignBuffer {
 public:
  static constexpr size_t kMostValues = 2 * kChunkValues;

  /// Space for another chunk.
  float* end() { return values_.data() + size_; }
  void append(size_t count, const Magnitudes& magnitudes) {
    size_ += count;
    magnitudes_.merge(magnitudes);
  }
  bool has_room() const { return size_ <= kChunkValues; }
  FiniteChunk chunk() const { return {std::span(values_).first(size_), magnitudes_}; }
  void clear() {
    size_ = 0;
    magnitudes_ = {};
  }

 private:
  std::array<float, kMostValues> values_;
  size_t size_ = 0;
  Magnitudes magnitudes_;
};

struct SignBuffers {
  SignBuffer positive;
  SignBuffer negative;

  bool have_room() const { return positive.has_room() && negative.has_room(); }
};

/// How many values of each kind there were, and the extremes. 52 bytes a kept position.
class Extremes {
 public:
  /// Adds up to kChunkValues values. The rest of the sweep looks only at the finite values, which are
  /// appended to `buffers`; they have room. Returns how many of them are negative.
  int64_t add(std::span<const float> chunk, SignBuffers& buffers);
  /// The same if nothing else is needed: `buffers` stay empty.
  int64_t add_alone(std::span<const float> chunk, SignBuffers& buffers);
  /// Extremes of max(x, 0) for each x; `negatives` of the finite values are negative.
  Extremes post_relu(int64_t negatives) const;
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

  /// Extremes of the values that are not NaN (there must be one), or of their magnitudes. Zero is 0, never
  /// -0.
  float min() const;
  float max() const;
  float min_magnitude() const;
  float max_magnitude() const;
  float min(bool abs) const { return abs ? min_magnitude() : min(); }
  float max(bool abs) const { return abs ? max_magnitude() : max(); }
  /// Extremes of the finite values (there must be one).
  float finite_min() const { return least_; }
  float finite_max() const { return greatest_; }
  float finite_min_magnitude() const { return least_magnitude_; }
  float finite_max_magnitude() const;
  float finite_min(bool abs) const { return abs ? finite_min_magnitude() : finite_min(); }
  float finite_max(bool abs) const { return abs ? finite_max_magnitude() : finite_max(); }

  void write(StateWriter& writer) const;
  /// Throws Error on an impossible state.
  void read(StateReader& reader);
  static constexpr size_t kStateBytes = 5 * sizeof(int64_t) + 3 * sizeof(float);

 private:
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  void add_zeros(size_t zeros);
  void add_finite(const Magnitudes& positive, const Magnitudes& negative);

  int64_t count_ = 0;
  int64_t nan_ = 0;
  int64_t zeros_ = 0;
  int64_t positive_infinities_ = 0;
  int64_t negative_infinities_ = 0;
  // Extremes of the finite values.
  float least_ = kInfinity;
  float greatest_ = -kInfinity;
  float least_magnitude_ = kInfinity;
};

}  // namespace detent
