#include "detent/engine/steps/few_outputs.h"

#include <algorithm>

#include "detent/kernels/channels_last_sums.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

constexpr int64_t kMostOutputs = 8;   // of a group: beyond them half of a vector is used
constexpr int64_t kFewerOutputs = 4;  // where each plane is read but once
constexpr int64_t kLeastColumns = 12;
constexpr int64_t kPlanesAtOnce = 16;     // a cache line of each position
constexpr int64_t kPlaneElements = 4096;  // of a tile: planes stay in a second-level cache
constexpr int64_t kMostColumns = 512;
constexpr int64_t kWantedTiles = 8;
constexpr int64_t kLeastRows = 8;

int64_t divided_up(int64_t count, int64_t by) { return (count + by - 1) / by; }
int64_t filled(int64_t count) { return divided_up(count, kSumOutputs) * kSumOutputs; }

/// Whether vectors of windows are fuller than those of so many outputs, which need no other layout.
bool are_fuller(int64_t columns, int64_t outputs) {
  constexpr int64_t kWhole = kSumOutputs;
  constexpr int64_t kWorth = 13;  // of these
  return outputs <= kMostOutputs || (outputs < kWhole && filled(columns) * outputs <= columns * kWorth);
}

/// Positions from the first that some windows read to the last.
int64_t reach(int64_t windows, int64_t stride, int64_t taps, int64_t dilation) {
  return (windows - 1) * stride + (taps - 1) * dilation + 1;
}

}  // namespace

/// Some windows, and groups of them.
struct FewOutputs::Part {
  int64_t n, z, y, x;  // the first window
  int64_t rows;
  int64_t columns;
  int64_t first_group;
  int64_t groups;
  int64_t outputs;  // of these groups
  float* planes;
  float* sums;  // [row][output][columns, filled up]
  float* row;   // [column][output]

  int64_t padded() const { return filled(columns); }
};

std::optional<FewOutputs> FewOutputs::of(const FloatSumsLayer& layer, std::span<const SumTap> taps,
                                         std::span<const Place> places) {
  const PackedFloatSums& packed = *layer.packed;
  const Place& in = places[layer.input];
  const Place& out = places[layer.output];
  const int64_t positions = layer.window.positions();  // none where windows see padding alone
  const bool is_window = !packed.depthwise && in.has_positions() && out.has_positions() &&
                         (positions > 1 || (positions == 1 && packed.outputs <= kFewerOutputs));
  if (!is_window || layer.grid.columns(out) < kLeastColumns) return std::nullopt;
  const int64_t groups = in.channels() / packed.channels;
  if (!are_fuller(layer.grid.columns(out), packed.outputs / groups)) return std::nullopt;
  return FewOutputs(layer, taps, places);
}

FewOutputs::FewOutputs(const FloatSumsLayer& layer, std::span<const SumTap> taps,
                       std::span<const Place> places)
    : groups_(places[layer.input].channels() / layer.packed->channels),
      outputs_(layer.packed->outputs / groups_),
      channels_(layer.packed->channels),
      together_(std::clamp<int64_t>(kPlanesAtOnce / channels_, 1, groups_)),
      planes_(layer.grid.planes(places[layer.output])),
      rows_(layer.grid.rows(places[layer.output])),
      columns_(layer.grid.columns(places[layer.output])) {
  pack_weights(*layer.packed, taps);
  choose_tile(layer.window);
}

void FewOutputs::pack_weights(const PackedFloatSums& packed, std::span<const SumTap> taps) {
  const auto count = std::ssize(taps);
  const Tensor unpacked = unpacked_weight(packed, {packed.outputs, packed.depth()});
  const std::span<const float> from = unpacked.values<float>();
  weights_.resize(static_cast<size_t>(packed.outputs * channels_ * count));
  for (int64_t output = 0; output < packed.outputs; ++output) {
    for (int64_t k = 0; k < channels_ * count; ++k) {
      const int64_t packed_tap = taps[static_cast<size_t>(k % count)].packed;
      const int64_t at = output * packed.depth() + k / count * packed.window.positions() + packed_tap;
      const int64_t to = (output / outputs_ * channels_ * count + k) * outputs_ + output % outputs_;
      weights_[static_cast<size_t>(to)] = from[static_cast<size_t>(at)];
    }
  }
  start_.resize(static_cast<size_t>(packed.outputs));
  for (const PackedFloatBlock& block : packed.blocks)
    std::copy_n(packed.start.begin() + static_cast<std::ptrdiff_t>(block.start), block.outputs,
                start_.begin() + block.first_output);
}

void FewOutputs::choose_tile(const WindowShape& w) {
  const auto input_columns = [&] { return reach(tile_columns_, w.stride_x, w.width, w.dilation_x); };
  tile_columns_ = std::min(columns_, kMostColumns);
  const int64_t row = input_columns() * w.depth;
  const int64_t fit = (kPlaneElements / row - (w.height - 1) * w.dilation_y - 1) / w.stride_y + 1;
  const int64_t wanted = std::max(kLeastRows, divided_up(rows_, kWantedTiles));
  tile_rows_ = std::clamp<int64_t>(std::min(fit, wanted), 1, rows_);
  input_rows_ = reach(tile_rows_, w.stride_y, w.height, w.dilation_y);
  phase_ = divided_up(input_columns(), w.stride_x);
  plane_ = filled(w.depth * input_rows_ * w.stride_x * phase_);
  if (plane_ % (kPlaneElements / 4) == 0) plane_ += kSumOutputs;  // in other sets of a cache
  for (int64_t z = 0; z < w.depth; ++z) {
    for (int64_t y = 0; y < w.height; ++y) {
      for (int64_t x = 0; x < w.width; ++x) {
        const int64_t column = x * w.dilation_x;
        const int64_t row_start = (z * input_rows_ + y * w.dilation_y) * w.stride_x;
        taps_.push_back((row_start + column % w.stride_x) * phase_ + column / w.stride_x);
      }
    }
  }
}

void FewOutputs::run(RunState& state, const FloatSumsLayer& layer) const {
  const Place& out = state.places[layer.output];
  const int64_t across = divided_up(columns_, tile_columns_);
  const int64_t down = divided_up(rows_, tile_rows_);
  const int64_t tiles = out.images() / out.depth() * planes_ * down * across;
  ThreadPool::shared().run(tiles, state.threads, [&](int64_t tile) {
    thread_local std::vector<float> buffer;
    const int64_t padded = filled(tile_columns_);
    const int64_t planes = kPlanesAtOnce * plane_ + padded;  // windows that fill up a vector read past them
    const int64_t sums = tile_rows_ * together_ * outputs_ * padded;
    buffer.resize(static_cast<size_t>(planes + sums + together_ * outputs_ * padded));
    Part part{.n = tile / across / down / planes_,
              .z = tile / across / down % planes_,
              .y = tile / across % down * tile_rows_,
              .x = tile % across * tile_columns_,
              .rows = 0,
              .columns = 0,
              .first_group = 0,
              .groups = 0,
              .outputs = 0,
              .planes = buffer.data(),
              .sums = buffer.data() + planes,
              .row = buffer.data() + planes + sums};
    part.rows = std::min(tile_rows_, rows_ - part.y);
    part.columns = std::min(tile_columns_, columns_ - part.x);
    for (; part.first_group < groups_; part.first_group += together_) {
      part.groups = std::min(together_, groups_ - part.first_group);
      part.outputs = part.groups * outputs_;
      run_part(state, layer, part);
    }
  });
}

void FewOutputs::run_part(RunState& state, const FloatSumsLayer& layer, const Part& part) const {
  const Place& in = state.places[layer.input];
  const WindowShape& w = layer.window;
  const int64_t padded = part.padded();
  for (int64_t i = 0; i < part.rows * part.outputs; ++i) {
    const int64_t output = part.first_group * outputs_ + i % part.outputs;
    std::fill_n(part.sums + i * padded, padded, start_[static_cast<size_t>(output)]);
  }
  const float* const from = state.values(layer.input) +
                            in.at(part.n, part.z * w.stride_z - w.padding_z,
                                  part.y * w.stride_y - w.padding_y, part.x * w.stride_x - w.padding_x) +
                            part.first_group * channels_;
  const auto taps = std::ssize(taps_);
  for (int64_t c = 0; c < channels_; c += kPlanesAtOnce) {
    const int64_t count = std::min(kPlanesAtOnce, channels_ - c);  // of each group
    load_channels(part, layer, in, from + c, part.groups > 1 ? part.groups * channels_ : count, part.planes);
    for (int64_t i = 0; i < part.rows * part.groups; ++i) {
      const int64_t row = i / part.groups;
      const int64_t group = i % part.groups;
      const int64_t channel = (part.first_group + group) * channels_ + c;
      add_planes({.planes = part.planes + group * channels_ * plane_ + row * w.stride_y * w.stride_x * phase_,
                  .plane = plane_,
                  .channels = count,
                  .taps = taps_,
                  .weights = weights_.data() + channel * taps * outputs_,
                  .outputs = outputs_,
                  .windows = padded,
                  .sums = part.sums + i * outputs_ * padded});
    }
  }
  leave_rows(state, layer, part);
}

/// `from` is the first position that the part's windows read.
void FewOutputs::load_channels(const Part& part, const FloatSumsLayer& layer, const Place& in,
                               const float* from, int64_t count, float* to) const {
  const WindowShape& w = layer.window;
  const int64_t rows = reach(part.rows, w.stride_y, w.height, w.dilation_y);
  const int64_t columns = reach(part.columns, w.stride_x, w.width, w.dilation_x);
  for (int64_t z = 0; z < w.depth; ++z) {
    for (int64_t y = 0; y < rows; ++y) {
      const float* const row = from + z * w.dilation_z * in.image() + y * in.row();
      for (int64_t x = 0; x < std::min(w.stride_x, columns); ++x) {
        channels_to_front(row + x * in.pitch(), w.stride_x * in.pitch(), count,
                          divided_up(columns - x, w.stride_x),
                          to + ((z * input_rows_ + y) * w.stride_x + x) * phase_, plane_);
      }
    }
  }
}

/// The epilogue.
void FewOutputs::leave_rows(RunState& state, const FloatSumsLayer& layer, const Part& part) const {
  const Place& out = state.places[layer.output];
  const FloatFollowUps& follow_ups = layer.follow_ups;
  const size_t other_place = follow_ups.other.value_or(layer.output);
  const ResultGrid& grid = layer.grid;
  const int64_t first_output = part.first_group * outputs_;
  const int64_t count = part.columns * part.outputs;
  for (int64_t y = 0; y < part.rows; ++y) {
    end_planes(follow_ups.end.from(first_output), part.sums + y * part.outputs * part.padded(), part.padded(),
               part.outputs);
  }
  for (int64_t y = 0; y < part.rows; ++y) {
    const auto at = [&](const Place& place) {
      return place.at(part.n, grid.first_z + part.z * grid.step_z, grid.first_y + (part.y + y) * grid.step_y,
                      grid.first_x + part.x * grid.step_x) +
             first_output;
    };
    const float* const sums = part.sums + y * part.outputs * part.padded();
    float* const to = state.values(layer.output) + at(out);
    const int64_t apart = grid.step_x * out.pitch();
    if (!follow_ups.other && !follow_ups.function && apart == part.outputs) {
      channels_to_last(sums, part.padded(), part.outputs, part.columns, to);
      continue;
    }
    channels_to_last(sums, part.padded(), part.outputs, part.columns, part.row);
    if (follow_ups.function) {
      const auto size = static_cast<size_t>(count);
      follow_ups.function->function.apply({part.row, size}, {part.row, size});
    }
    if (!follow_ups.other) {
      for (int64_t x = 0; x < part.columns; ++x)
        std::copy_n(part.row + x * part.outputs, part.outputs, to + x * apart);
      continue;
    }
    const Place& other = state.places[other_place];
    const float* const others = state.values(other_place) + at(other);
    for (int64_t x = 0; x < part.columns; ++x)
      add_values(follow_ups.last, part.row + x * part.outputs, others + x * grid.step_x * other.pitch(),
                 part.outputs, to + x * apart);
  }
}

}  // namespace detent
