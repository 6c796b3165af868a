#include "detent/statistics/slot_layout.h"

#include <algorithm>

namespace detent {

namespace {

/// target[column * pitch + row] = source[row * stride + column]. In blocks of rows that the nearest cache
/// holds, so that each column is written in runs.
void transpose(const float* source, int64_t stride, int64_t rows, int64_t columns, float* target,
               size_t pitch) {
  constexpr int64_t kRows = 16;
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t end = std::min(begin + kRows, rows);
    // Rows are too far apart for the processor to foresee them.
    for (int64_t row = end; row < std::min(end + kRows, rows); ++row) {
      __builtin_prefetch(source + row * stride);
      __builtin_prefetch(source + row * stride + columns - 1);
    }
    for (int64_t column = 0; column < columns; ++column) {
      float* to = target + static_cast<size_t>(column) * pitch;
      for (int64_t row = begin; row < end; ++row) to[row] = source[row * stride + column];
    }
  }
}

}  // namespace

SlotLayout::SlotLayout(const Shape& shape, const std::vector<bool>& kept) {
  int64_t stride = 1;
  int64_t slots = 1;
  bool previous_kept = false;
  std::vector<Dim> dims[2];  // reduced and kept, innermost first
  for (size_t i = shape.size(); i-- > 0;) {
    const int64_t size = shape[i];
    if (size != 1) {
      auto& same = dims[kept[i] ? 1 : 0];
      if (!same.empty() && previous_kept == kept[i]) {
        same.back().size *= size;  // the neighbour, so their elements form one longer dimension
      } else {
        same.push_back({size, stride});
      }
      previous_kept = kept[i];
    }
    (kept[i] ? slots : slot_size_) *= size;
    stride *= size;
  }
  for (auto& of_kind : dims) std::ranges::reverse(of_kind);
  reduced_ = std::move(dims[0]);
  kept_ = std::move(dims[1]);
  if (!kept_.empty() && kept_.back().stride == 1) {
    interleaved_ = kept_.back().size;
    kept_.pop_back();
  }
  slots_ = static_cast<size_t>(slots);
  if (slots_ == 0 || slot_size_ == 0) {
    rows_ = 0;
    return;
  }
  rows_ = slots_ / static_cast<size_t>(interleaved_);
  tiles_of_row_ = static_cast<size_t>((interleaved_ - 1) / kMaxTileSlots + 1);
}

size_t SlotLayout::first_slot(size_t tile) const {
  return tile / tiles_of_row_ * static_cast<size_t>(interleaved_) +
         tile % tiles_of_row_ * static_cast<size_t>(kMaxTileSlots);
}

int64_t SlotLayout::slot_offset(size_t row) const {
  int64_t offset = 0;
  auto rest = static_cast<int64_t>(row);
  for (size_t i = kept_.size(); i-- > 0;) {
    offset += rest % kept_[i].size * kept_[i].stride;
    rest /= kept_[i].size;
  }
  return offset;
}

int64_t SlotLayout::run_offset(int64_t run) const {
  int64_t offset = 0;
  for (size_t k = reduced_.empty() ? 0 : reduced_.size() - 1; k-- > 0;) {
    offset += run % reduced_[k].size * reduced_[k].stride;
    run /= reduced_[k].size;
  }
  return offset;
}

void SlotLayout::gather(const float* first, int64_t begin, int64_t end, int64_t width, float* columns,
                        size_t pitch) const {
  const Dim inner = reduced_.empty() ? Dim{1, 0} : reduced_.back();
  for (int64_t i = begin; i < end;) {
    const int64_t position = i % inner.size;
    const float* source = first + run_offset(i / inner.size) + position * inner.stride;
    const int64_t run = std::min(inner.size - position, end - i);
    float* target = columns + (i - begin);
    if (inner.stride == 1) {
      std::copy_n(source, run, target);
    } else {
      transpose(source, inner.stride, run, width, target, pitch);
    }
    i += run;
  }
}

void SlotLayout::read_runs(const float* first, size_t slot, const Visit& visit) const {
  const int64_t run_size = reduced_.back().size;
  for (int64_t run = 0; run < slot_size_ / run_size; ++run) {
    const std::span<const float> values(first + run_offset(run), static_cast<size_t>(run_size));
    for (size_t begin = 0; begin < values.size(); begin += kChunkValues)
      visit(slot, values.subspan(begin, std::min(kChunkValues, values.size() - begin)));
  }
}

void SlotLayout::read_tile(const float* data, size_t tile, int64_t shortest_run, const Visit& visit) const {
  constexpr auto kChunk = static_cast<int64_t>(kChunkValues);
  const size_t row = tile / tiles_of_row_;
  const int64_t first_of_row = static_cast<int64_t>(tile % tiles_of_row_) * kMaxTileSlots;
  const int64_t width = std::min(kMaxTileSlots, interleaved_ - first_of_row);
  const float* first = data + slot_offset(row) + first_of_row;
  const size_t slot = first_slot(tile);
  const bool in_runs = !reduced_.empty() && reduced_.back().stride == 1;
  if (in_runs && (reduced_.size() == 1 || reduced_.back().size >= shortest_run))
    return read_runs(first, slot, visit);
  // Not a multiple of the cache's ways, or the columns would evict each other.
  const size_t pitch = static_cast<size_t>(std::min(kChunk, slot_size_)) + 16;
  std::vector<float> columns(pitch * static_cast<size_t>(width));
  for (int64_t begin = 0; begin < slot_size_; begin += kChunk) {
    const int64_t end = std::min(begin + kChunk, slot_size_);
    gather(first, begin, end, width, columns.data(), pitch);
    for (size_t i = 0; i < static_cast<size_t>(width); ++i)
      visit(slot + i, {columns.data() + i * pitch, static_cast<size_t>(end - begin)});
  }
}

}  // namespace detent
