#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/inference/code_type.h"

namespace detent {

/// How the elements of a value follow each other: row-major, or with the channels, dimension 1, last.
enum class Layout { kRows, kChannelsLast };

/// A border around each image of a value, filled with zero points, in which windows may begin and end. Images
/// of three dimensions have whole planes before and after theirs too.
struct Halo {
  int64_t front = 0;
  int64_t back = 0;
  int64_t top = 0;
  int64_t left = 0;
  int64_t bottom = 0;
  int64_t right = 0;

  void cover(const Halo& other) {
    front = std::max(front, other.front);
    back = std::max(back, other.back);
    top = std::max(top, other.top);
    left = std::max(left, other.left);
    bottom = std::max(bottom, other.bottom);
    right = std::max(right, other.right);
  }
  bool empty() const { return front + back + top + left + bottom + right == 0; }
};

/// Where a value lies while a program runs: codes as bytes, counted from the lowest of their type, or float32
/// values, which may be those that codes of a wide type have.
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
  /// Elements of another place, from `part_begin` bytes on; it is one that is no part itself.
  std::optional<size_t> part_of = {};
  int64_t part_begin = 0;
  /// Elements from a position to the next of a slice, a part that has some channels of each position; 0: it
  /// is none.
  int64_t slice_pitch = 0;
  /// Its elements are read in another shape too: they stay adjacent, without a border.
  bool is_shared = false;
  /// One step writes and reads it, some rows at a time: it takes no room.
  bool is_within_step = false;

  /// Bytes that a kernel may read past the last.
  static constexpr int64_t kSlack = 128;

  /// Sizes that follow from shape and layout, noted once by measure().
  struct Sizes {
    bool has_positions = false;
    int64_t images = 1;  // planes of all images
    int64_t depth = 1;   // planes of an image
    int64_t height = 1;
    int64_t width = 0;
    int64_t channels = 1;
    int64_t pitch = 1;
  };
  Sizes sizes = {};

  void measure() {
    sizes.has_positions = layout == Layout::kChannelsLast && shape.size() > 2 && shape.size() < 6;
    if (sizes.has_positions) {
      sizes.depth = shape.size() == 5 ? shape[2] : 1;
      sizes.images = shape[0] * sizes.depth;
      sizes.channels = shape[1];
      sizes.height = shape.size() > 3 ? shape[shape.size() - 2] : 1;
      sizes.width = shape.back();
    } else {
      sizes.channels = shape.empty() ? 1 : shape.back();
      sizes.width = sizes.channels == 0 ? 0 : element_count(shape) / sizes.channels;
    }
    sizes.pitch = is_slice() ? slice_pitch : sizes.channels;
  }
  bool is_slice() const { return slice_pitch > 0; }
  bool has_positions() const { return sizes.has_positions; }
  /// Images of three dimensions count as so many of two, which follow each other.
  int64_t images() const { return sizes.images; }
  int64_t depth() const { return sizes.depth; }
  int64_t height() const { return sizes.height; }
  int64_t width() const { return sizes.width; }
  int64_t channels() const { return sizes.channels; }
  /// Elements from a position to the next.
  int64_t pitch() const { return sizes.pitch; }
  int64_t row() const { return (halo.left + width() + halo.right) * pitch(); }
  int64_t image() const { return (halo.top + height() + halo.bottom) * row(); }
  /// Offset of the first channel, in elements.
  int64_t at(int64_t n, int64_t y, int64_t x) const {
    if (halo.front + halo.back > 0) return at(n / depth(), n % depth(), y, x);
    return n * image() + (halo.top + y) * row() + (halo.left + x) * pitch();
  }
  /// The same of plane `z` of sample `n`.
  int64_t at(int64_t n, int64_t z, int64_t y, int64_t x) const {
    const int64_t plane = n * (halo.front + depth() + halo.back) + halo.front + z;
    return plane * image() + (halo.top + y) * row() + (halo.left + x) * pitch();
  }
  /// With the border, and what lies between the positions of a slice.
  int64_t elements() const { return images() / depth() * (halo.front + depth() + halo.back) * image(); }
  int64_t element_bytes() const { return is_values ? int64_t{sizeof(float)} : 1; }
  int64_t bytes() const { return is_within_step ? 0 : elements() * element_bytes() + kSlack; }
  /// Which element of the value, in row-major order, is channel 0 of this position; the next channel is
  /// `channel_step` elements on.
  int64_t element(int64_t n, int64_t y, int64_t x) const {
    if (!has_positions()) return x * channels();
    const int64_t plane = n / depth() * channels() * depth() + n % depth();
    return (plane * height() + y) * width() + x;
  }
  int64_t channel_step() const { return has_positions() ? depth() * height() * width() : 1; }
  /// Each byte of a value of 0.
  uint8_t zero_byte() const { return is_values ? 0 : static_cast<uint8_t>(type.zero_point - type.low); }
};

/// Whether codes of the type fit into bytes.
inline bool fits_bytes(const CodeType& type) {
  return type.size() <= 256 && type.low <= type.zero_point && type.zero_point <= type.high;
}

/// Whether places have codes of the type as their values: those of more than 8 bits, which float32 holds.
inline bool is_wide(const CodeType& type) {
  return type.size() > 256 && !type.is_sign && type.low <= type.zero_point && type.zero_point <= type.high;
}

/// Gives each place its offset, so that those which are needed at the same time do not overlap. Returns the
/// bytes they take together.
int64_t arrange(std::vector<Place>& places);

}  // namespace detent
