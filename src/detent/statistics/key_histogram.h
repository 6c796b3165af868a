#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "detent/statistics/extremes.h"

namespace detent {

/// The counts' sum, which is below 2^32.
uint32_t sum_of_counts(std::span<const uint32_t> counts);

/// Adds `counts`, each below 2^31, to as many `counters` of 16 bits, and leaves in `counts` how often each
/// counter has passed its end. Whether one has.
bool add_counts(std::span<uint32_t> counts, uint16_t* counters);

/// The same in plain loops, for tests and tails.
uint32_t sum_of_counts_reference(std::span<const uint32_t> counts);
bool add_counts_reference(std::span<uint32_t> counts, uint16_t* counters);

/// Equal or neighbouring values.
struct ValueBin {
  float lower;  // the smallest that belongs here
  float upper;  // the largest
  int64_t count;
};

/// Counts of finite nonzero values by their first `key_bits` bits: sign, exponent and the first key_bits - 9
/// bits of the fraction. A cell is as wide as 2^(9 - key_bits) of the power of two below it, so its middle is
/// within a relative 2^(8 - key_bits) of its values (subnormal values: within half a cell of the smallest
/// normal ones). Counts commute, so merging is exact.
///
/// Memory: a page of 2^(key_bits - 9) counters of 2 bytes for each sign and exponent that has occurred, at
/// most 510 pages, and an entry of a table for each cell with 2^16 values or more. With 20 bits a page
/// has 4 KiB, and values of a normal distribution need some 50.
class KeyHistogram {
 public:
  static constexpr int kMinBits = 12;
  static constexpr int kMaxBits = 24;

  explicit KeyHistogram(int key_bits) : key_bits_(key_bits) {}

  int key_bits() const { return key_bits_; }
  int64_t total() const { return total_; }

  void add(const FiniteChunk& chunk);
  /// Adds as many values as `counts` says of each cell of a page, which are less than 2^32, and clears
  /// `counts`. Page p has the values of the exponent field p / 2, the negative ones if p is odd.
  void take_page(size_t page_number, std::span<uint32_t> counts);
  /// `other` has as many key bits.
  void merge(const KeyHistogram& other);
  /// The same histogram with fewer (or as many) bits.
  KeyHistogram coarsened(int key_bits) const;

  /// Nonempty cells in ascending order.
  std::vector<ValueBin> cells() const;

  void write(StateWriter& writer) const;
  /// Throws Error on invalid bytes. Allocates at most 64 bytes for each one read, and 4 KiB.
  void read(StateReader& reader);

 private:
  using Page = std::unique_ptr<uint16_t[]>;

  size_t cells_per_page() const { return size_t{1} << (key_bits_ - 9); }
  uint32_t cell_number(size_t page, size_t cell) const {
    return static_cast<uint32_t>(page * cells_per_page() + cell);
  }
  /// Allocates the pages [from, to].
  void cover(size_t from, size_t to);
  /// Not null; the number is covered.
  uint16_t* page(size_t page_number);
  void add_count(size_t page_number, size_t cell, uint64_t count);
  /// Calls action(page number, cell, count) for all that are not zero, in the order of the pages.
  template <class Action>
  void for_each(Action action) const;

  int key_bits_;
  int64_t total_ = 0;
  size_t first_ = 0;         // number of pages_[0]
  std::vector<Page> pages_;  // null: all zero
  /// How often a counter has passed 2^16, by cell_number.
  std::map<uint32_t, uint64_t> wraps_;
};

}  // namespace detent
