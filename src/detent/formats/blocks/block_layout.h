#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent {

/// The key "block_size": sizes aligned with the last dimensions of a tensor; missing leading ones are 1,
/// superfluous ones ignored; -1 stands for the whole dimension, as does a size beyond it. A single number
/// runs along one dimension (QuantSpec::block_axis), blocks being 1 in all others.
struct BlockSize {
  std::vector<int64_t> sizes;

  bool is_single() const { return sizes.size() == 1; }

  static std::string field_type();
  Value to_value() const;
  /// Throws Error unless it is a number or a list of numbers, each at least 1 or -1.
  static BlockSize from_value(const Value& value, const std::string& where);

  bool operator==(const BlockSize&) const = default;
};

/// Partition of a row-major tensor into blocks, and of these into units of work. Dimensions that blocks treat
/// alike are merged. A *band* is one row of blocks: all columns of the innermost (contiguous) dimension times
/// a box of the outer ones. A *unit* is a band, or a piece of it that cuts no block, of some 8K elements.
class BlockLayout {
 public:
  /// One dimension, after merging.
  struct Dimension {
    int64_t size;
    int64_t block;  // 1 <= block <= size
    int64_t stride;
  };
  /// The columns [begin, end) of a band; `extents` are the box's sizes in the outer dimensions. Blocks are
  /// numbered in row-major order, bands by bands.
  struct Unit {
    int64_t block = 0;   // number of the first block
    int64_t offset = 0;  // of the box's first row, column 0
    int64_t begin = 0;
    int64_t end = 0;
    std::vector<int64_t> extents = {};
  };

  /// How the tensor falls into slabs: as many adjacent elements as hold the whole blocks of `units` units,
  /// and begin at multiples of 8. Slab s has the units [s * units, (s + 1) * units) and ends where the next
  /// begins.
  class Slabs {
   public:
    int64_t count() const { return count_; }
    /// Elements of any but the last in its period.
    int64_t elements() const { return elements_; }
    int64_t begin(int64_t slab) const {
      return std::min(total_, slab / per_period_ * period_ + slab % per_period_ * elements_);
    }
    int64_t first_unit(int64_t slab) const { return std::min(total_units_, slab * units_); }

   private:
    friend class BlockLayout;
    int64_t elements_, units_;
    int64_t period_, per_period_;  // elements, slabs
    int64_t total_, total_units_;
    int64_t count_;
  };

  /// Blocks of at least this many columns are processed one by one, narrower ones side by side in tiles.
  static constexpr int64_t kWide = 16;

  /// Throws Error if `shape` lacks the dimension `axis` of a single block size.
  BlockLayout(const BlockSize& block_size, std::optional<int64_t> axis, const Shape& shape);

  int64_t block_count() const { return block_count_; }
  /// Consecutive columns that share a block.
  int64_t block_columns() const { return columns_.block; }
  int64_t columns() const { return columns_.size; }
  const std::vector<Dimension>& outer() const { return outer_; }
  /// Rows of a whole band.
  int64_t band_rows() const { return band_rows_; }
  /// Columns of a tile of narrow blocks: whole blocks, a multiple of 16.
  int64_t tile_columns() const { return tile_columns_; }

  /// Whether all rows and blocks, as they are taken, begin at multiples of `bytes` (64 at most) when the
  /// tensor's elements are at `values`.
  bool in_whole_vectors(const float* values, size_t bytes) const;

  /// Cuts units of about this many elements instead of some 8K.
  void cut_units(int64_t elements);
  int64_t unit_count() const { return bands_ * units_per_band_; }
  /// Units per task of a thread.
  int64_t units_per_thread() const;
  void locate(int64_t index, Unit& unit) const;
  /// Rows of a unit that lie next to each other in the last outer dimension are a run: how many there are,
  /// and the offset of column 0 of the first row of one.
  static int64_t runs_of_rows(const Unit& unit);
  int64_t first_row(const Unit& unit, int64_t run) const;
  Slabs slabs() const;

 private:
  std::vector<Dimension> outer_;
  Dimension columns_{1, 1, 1};
  int64_t block_count_ = 0;
  int64_t bands_ = 0;
  int64_t band_rows_ = 1;
  int64_t tile_columns_ = 1;
  int64_t unit_columns_ = 1;
  int64_t units_per_band_ = 0;
};

/// Calls visit(offset) for every row of the unit, offset being that of its column 0.
template <class Visitor>
void for_each_row(const BlockLayout& layout, const BlockLayout::Unit& unit, Visitor&& visit) {
  const bool is_row = unit.extents.empty();
  const int64_t count = is_row ? 1 : unit.extents.back();
  const int64_t stride = is_row ? 0 : layout.outer().back().stride;
  const int64_t runs = layout.runs_of_rows(unit);
  for (int64_t run = 0; run < runs; ++run) {
    const int64_t first = layout.first_row(unit, run);
    for (int64_t i = 0; i < count; ++i) visit(first + i * stride);
  }
}

}  // namespace detent
