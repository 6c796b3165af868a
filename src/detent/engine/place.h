#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/integer/code_type.h"

namespace detent {

/// How the elements of a value follow each other: row-major, or with the channels, dimension 1, last.
enum class Layout { kRows, kChannelsLast };

/// A border around each image of a value, filled with zero points, in which windows may begin and end.
struct Halo {
  int64_t top = 0;
  int64_t left = 0;
  int64_t bottom = 0;
  int64_t right = 0;

  void cover(const Halo& other) {
    top = std::max(top, other.top);
    left = std::max(left, other.left);
    bottom = std::max(bottom, other.bottom);
    right = std::max(right, other.right);
  }
  bool empty() const { return top + left + bottom + right == 0; }
};

/// Where a value lies while a program runs: codes as bytes, counted from the lowest of their type, or float32
/// values.
struct Place {
  Shape shape;  // of the value
  Layout layout = Layout::kRows;
  CodeType type;
  bool is_values = false;
  Halo halo = {};
  // By position of steps: written first, read last.
  size_t first_step = 0;
  size_t last_step = 0;
  int64_t offset = 0;  // in the arena

  /// Bytes that a kernel may read behind the last.
  static constexpr int64_t kSlack = 128;

  bool has_positions() const { return layout == Layout::kChannelsLast && shape.size() > 2; }
  int64_t images() const { return has_positions() ? shape[0] : 1; }
  int64_t height() const { return has_positions() && shape.size() == 4 ? shape[2] : 1; }
  int64_t width() const {
    if (has_positions()) return shape.back();
    return channels() == 0 ? 0 : element_count(shape) / channels();
  }
  int64_t channels() const {
    if (has_positions()) return shape[1];
    return shape.empty() ? 1 : shape.back();
  }
  int64_t row() const { return (halo.left + width() + halo.right) * channels(); }
  int64_t image() const { return (halo.top + height() + halo.bottom) * row(); }
  /// Of the first channel, in elements.
  int64_t at(int64_t n, int64_t y, int64_t x) const {
    return n * image() + (halo.top + y) * row() + (halo.left + x) * channels();
  }
  int64_t bytes() const { return images() * image() * (is_values ? 4 : 1) + kSlack; }
  /// What a value of 0 is.
  uint8_t zero_byte() const { return static_cast<uint8_t>(type.zero_point - type.low); }
};

/// Whether codes of the type fit into bytes.
inline bool fits_bytes(const CodeType& type) {
  return type.size() <= 256 && type.low <= type.zero_point && type.zero_point <= type.high;
}

/// Gives each place its offset, so that those which are needed at the same time do not overlap. Returns the
/// bytes they take together.
int64_t arrange(std::vector<Place>& places);

}  // namespace detent
