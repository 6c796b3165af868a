#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "detent/engine/step.h"

namespace detent {

/// The sums of a convolution whose groups have few outputs each, as the last one of a network that gives
/// images has: tiles of its input become planes of channels, which vectors of windows are read of
/// (PlaneSums). The same bits as where vectors run over outputs.
class FewOutputs {
 public:
  /// nullopt where vectors of outputs take less time: more outputs, short rows.
  /// `taps` are those of the layer's window, in its order.
  static std::optional<FewOutputs> of(const FloatSumsLayer& layer, std::span<const SumTap> taps,
                                      std::span<const Place> places);

  /// Computes the layer that it was made for, its epilogue included.
  void run(RunState& state, const FloatSumsLayer& layer) const;

 private:
  struct Part;

  FewOutputs(const FloatSumsLayer& layer, std::span<const SumTap> taps, std::span<const Place> places);
  void pack_weights(const PackedFloatSums& packed, std::span<const SumTap> taps);
  void choose_tile(const WindowShape& window);
  void run_part(RunState& state, const FloatSumsLayer& layer, const Part& part) const;
  void load_channels(const Part& part, const FloatSumsLayer& layer, const Place& in, const float* from,
                     int64_t count, float* to) const;
  void leave_rows(RunState& state, const FloatSumsLayer& layer, const Part& part) const;

  int64_t groups_;
  int64_t outputs_;             // of a group
  int64_t channels_;            // of a group
  int64_t together_;            // groups whose channels become planes at once
  std::vector<float> weights_;  // [group][channel][tap][output]
  std::vector<float> start_;    // [output]
  // Windows of a sample.
  int64_t planes_;
  int64_t rows_;
  int64_t columns_;
  // A tile, of windows and of its input.
  int64_t tile_rows_ = 1;
  int64_t tile_columns_ = 1;
  int64_t input_rows_ = 1;  // of a plane
  int64_t phase_ = 1;       // columns of a row whose distance is a multiple of the stride, side by side
  int64_t plane_ = 1;       // elements of a channel
  std::vector<int64_t> taps_;
};

}  // namespace detent
