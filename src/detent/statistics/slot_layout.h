#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/statistics/extremes.h"

namespace detent {

/// Layout of each kept position ("slot") in a dense row-major tensor, read in chunks. Neighbouring slots
/// whose elements interleave (the last dimension is kept) are read together as a tile, so that each cache
/// line is fetched once.
class SlotLayout {
 public:
  /// `kept[i]`: whether dimension i is kept.
  SlotLayout(const Shape& shape, const std::vector<bool>& kept);

  size_t slots() const { return slots_; }
  /// Elements of each slot.
  int64_t slot_size() const { return slot_size_; }
  /// Tiles cover the slots in their order, each at most kMaxTileSlots: the floats of a cache line.
  size_t tiles() const { return tiles_of_row_ * rows_; }
  size_t first_slot(size_t tile) const;
  static constexpr int64_t kMaxTileSlots = 16;
  /// Whether a tile has several slots.
  bool is_interleaved() const { return interleaved_ > 1; }

  /// Calls visit(slot, chunk) until all elements of the tile's slots have been passed, in chunks of at most
  /// kChunkValues; the order is unspecified. A chunk is valid during the call. Elements that lie together in
  /// runs of at least `shortest_run` are passed as they lie, shorter runs copied into longer chunks.
  using Visit = std::function<void(size_t slot, std::span<const float> chunk)>;
  void read_tile(const float* data, size_t tile, int64_t shortest_run, const Visit& visit) const;

 private:
  struct Dim {
    int64_t size;
    int64_t stride;
  };
  /// Copies the elements [begin, end) of `width` neighbouring slots to columns that lie `pitch` apart.
  void gather(const float* first, int64_t begin, int64_t end, int64_t width, float* columns,
              size_t pitch) const;
  void read_runs(const float* first, size_t slot, const Visit& visit) const;
  int64_t slot_offset(size_t row) const;
  /// From the slot's first element to the first one of a run.
  int64_t run_offset(int64_t run) const;

  std::vector<Dim> kept_;     // outermost first, without the interleaved one
  std::vector<Dim> reduced_;  // outermost first; neighbours joined
  int64_t interleaved_ = 1;   // slots that lie side by side
  size_t slots_ = 1;
  size_t rows_ = 1;  // of interleaved slots
  size_t tiles_of_row_ = 1;
  int64_t slot_size_ = 1;
};

}  // namespace detent
