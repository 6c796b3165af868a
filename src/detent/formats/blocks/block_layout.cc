#include "detent/formats/blocks/block_layout.h"

#include <algorithm>
#include <numeric>

#include "detent/core/error.h"

namespace detent {
namespace {

/// Elements of a unit: enough to make its bookkeeping vanish, few enough to stay in the first-level cache.
/// A power of two.
constexpr int64_t kUnitElements = int64_t{1} << 13;
/// Elements that are worth handing to a thread.
constexpr int64_t kThreadElements = int64_t{1} << 16;
/// Elements of a tile: they stay in the first-level cache between finding the maximum and rounding.
constexpr int64_t kTileElements = 4096;
constexpr int64_t kMaxTileColumns = 512;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Block sizes of every dimension.
Shape block_shape(const BlockSize& block_size, std::optional<int64_t> axis, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  const auto& sizes = block_size.sizes;
  Shape block(shape.size(), 1);
  if (block_size.is_single()) {
    const int64_t given = axis.value_or(-1);
    const int64_t dimension = given < 0 ? given + rank : given;
    if (rank == 0 && !axis) return block;
    if (dimension < 0 || dimension >= rank) {
      fail("quantization: key \"block_axis\": got {}, but the tensor has the shape {}", given,
           shape_text(shape));
    }
    block[static_cast<size_t>(dimension)] = sizes[0];
  } else {
    const size_t aligned = std::min(sizes.size(), shape.size());
    std::copy_n(sizes.rbegin(), aligned, block.rbegin());
  }
  for (size_t i = 0; i < block.size(); ++i) {
    block[i] = block[i] < 0 ? shape[i] : std::min(block[i], shape[i]);
  }
  return block;
}

}  // namespace

// From the innermost dimension outward. A dimension joins the one inside it when blocks span all of that (the
// outer block then is so many whole inner ones), or when blocks are 1 in both.
BlockLayout::BlockLayout(const BlockSize& block_size, std::optional<int64_t> axis, const Shape& shape) {
  const Shape block = block_shape(block_size, axis, shape);
  if (element_count(shape) == 0) return;
  std::vector<Dimension> merged = {{1, 1, 1}};
  for (size_t i = shape.size(); i-- > 0;) {
    Dimension& inner = merged.back();
    if (inner.block == inner.size || (inner.block == 1 && block[i] == 1)) {
      inner = {inner.size * shape[i], inner.block * block[i], inner.stride};
    } else {
      merged.push_back({shape[i], block[i], inner.size * inner.stride});
    }
  }
  columns_ = merged.front();
  outer_.assign(merged.rbegin(), merged.rend() - 1);
  bands_ = 1;
  for (const Dimension& dimension : outer_) {
    bands_ *= divide_up(dimension.size, dimension.block);
    band_rows_ *= dimension.block;
  }
  block_count_ = bands_ * divide_up(columns_.size, columns_.block);
  // Shapes come from files before their data do: no product of large sizes here is larger than element_count.
  const int64_t step =
      columns_.block > kMaxTileColumns ? columns_.block : std::lcm(columns_.block, int64_t{kWide});
  tile_columns_ = step * std::max<int64_t>(1, std::min(kMaxTileColumns, kTileElements / band_rows_) / step);
  cut_units(kUnitElements);
}

void BlockLayout::cut_units(int64_t elements) {
  const int64_t quantum = columns_.block < kWide ? tile_columns_ : columns_.block;
  unit_columns_ = quantum * std::max<int64_t>(1, elements / quantum / band_rows_);
  units_per_band_ = divide_up(columns_.size, unit_columns_);
}

bool BlockLayout::in_whole_vectors(const float* values, size_t bytes) const {
  const auto lanes = static_cast<int64_t>(bytes / sizeof(float));
  const int64_t width = columns_.block;
  const bool whole_blocks = width < kWide || width == columns_.size || width % lanes == 0;
  const bool whole_rows = outer_.empty() || columns_.size % lanes == 0;
  return whole_blocks && whole_rows && reinterpret_cast<uintptr_t>(values) % bytes == 0;
}

int64_t BlockLayout::units_per_thread() const {
  const int64_t elements = std::min(unit_columns_, columns_.size) * band_rows_;
  return std::max<int64_t>(1, kThreadElements / std::max<int64_t>(1, elements));
}

void BlockLayout::locate(int64_t index, Unit& unit) const {
  unit.begin = index % units_per_band_ * unit_columns_;
  unit.end = std::min(columns_.size, unit.begin + unit_columns_);
  unit.offset = 0;
  unit.extents.resize(outer_.size());
  int64_t band = index / units_per_band_;
  unit.block = band * divide_up(columns_.size, columns_.block) + unit.begin / columns_.block;
  for (size_t i = outer_.size(); i-- > 0;) {
    const Dimension& dimension = outer_[i];
    const int64_t blocks = divide_up(dimension.size, dimension.block);
    const int64_t first = band % blocks * dimension.block;
    band /= blocks;
    unit.offset += first * dimension.stride;
    unit.extents[i] = std::min(dimension.block, dimension.size - first);
  }
}

int64_t BlockLayout::runs_of_rows(const Unit& unit) {
  int64_t runs = 1;
  for (size_t i = 0; i + 1 < unit.extents.size(); ++i) runs *= unit.extents[i];
  return runs;
}

int64_t BlockLayout::first_row(const Unit& unit, int64_t run) const {
  int64_t offset = unit.offset;
  for (size_t i = unit.extents.size(); i-- > 1;) {
    offset += run % unit.extents[i - 1] * outer_[i - 1].stride;
    run /= unit.extents[i - 1];
  }
  return offset;
}

// A period is the whole of the outermost dimension in which blocks are cut: within it, slabs begin at
// multiples of the block, of the columns at multiples of the unit. Where these are no multiples of 8, eight
// periods are.
BlockLayout::Slabs BlockLayout::slabs() const {
  constexpr int64_t kAlignment = 8;
  Slabs slabs;
  slabs.elements_ = std::min(unit_columns_, columns_.size);
  slabs.units_ = 1;
  slabs.period_ = columns_.size;
  slabs.per_period_ = units_per_band_;
  int64_t inner_units = units_per_band_;
  slabs.total_ = columns_.size;
  for (size_t i = outer_.size(); i-- > 0;) {
    const Dimension& dimension = outer_[i];
    slabs.total_ *= dimension.size;
    if (dimension.block > 1) {
      slabs.elements_ = dimension.block * dimension.stride;
      slabs.units_ = inner_units;
      slabs.period_ = dimension.size * dimension.stride;
      slabs.per_period_ = divide_up(dimension.size, dimension.block);
    }
    inner_units *= divide_up(dimension.size, dimension.block);
  }
  slabs.total_units_ = unit_count();
  const bool one_period = slabs.period_ == slabs.total_;
  if (slabs.elements_ % kAlignment != 0 || (slabs.period_ % kAlignment != 0 && !one_period)) {
    slabs.units_ *= kAlignment * slabs.per_period_;
    slabs.period_ *= kAlignment;
    slabs.elements_ = slabs.period_;
    slabs.per_period_ = 1;
  }
  slabs.count_ = divide_up(slabs.total_units_, slabs.units_);
  return slabs;
}

std::string BlockSize::field_type() { return "integer or list of integers"; }

Value BlockSize::to_value() const { return is_single() ? Value(sizes[0]) : Value(sizes); }

BlockSize BlockSize::from_value(const Value& value, const std::string& where) {
  BlockSize result;
  const List single = {value};
  const List* list = value.get_if<List>();
  for (const Value& element : list == nullptr ? single : *list) {
    const auto* size = element.get_if<int64_t>();
    if (size == nullptr || *size == 0 || *size < -1) {
      fail("{}: got {}, expected sizes of at least 1, or -1 for a whole dimension", where, value_text(value));
    }
    result.sizes.push_back(*size);
  }
  if (result.sizes.empty()) fail("{}: got an empty list, expected at least one size", where);
  return result;
}

}  // namespace detent
