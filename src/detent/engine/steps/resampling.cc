#include <algorithm>
#include <cstring>

#include "detent/engine/steps/place_rows.h"
#include "detent/inference/resize_weights.h"
#include "detent/kernels/row_reductions.h"

namespace detent {
namespace {

/// Taps of each position along one dimension, as kernels read them.
class AxisTaps {
 public:
  AxisTaps() = default;
  explicit AxisTaps(const std::vector<ResizeTaps>& taps) : count_(std::ssize(taps.front().places)) {
    for (const ResizeTaps& position : taps) {
      places_.insert(places_.end(), position.places.begin(), position.places.end());
      for (const double weight : position.weights) weights_.push_back(static_cast<float>(weight));
    }
  }

  int64_t count() const { return count_; }
  int64_t place(int64_t position, int64_t tap) const {
    return places_.empty() ? position : places_[static_cast<size_t>(position * count_ + tap)];
  }
  const float* weights(int64_t position) const { return weights_.data() + position * count_; }
  bool is_identity() const { return places_.empty(); }

 private:
  int64_t count_ = 1;
  std::vector<int64_t> places_;
  std::vector<float> weights_;
};

/// Positions that are weighted sums of positions: along the depth, then the height, then the width, each
/// rounded. Bytes are moved only.
class ResampleStep final : public EngineStep {
 public:
  ResampleStep(const std::vector<ResampledAxis>& axes, size_t rank, size_t from, size_t to)
      : from_(from), to_(to) {
    for (const ResampledAxis& axis : axes) axes_[3 + axis.dim - rank] = AxisTaps(axis.taps);
  }

  void run(RunState& state) const override {
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    for_each_row(out, state, [&](int64_t plane, int64_t y) { run_row(state, plane, y); });
  }
  bool takes_slice(size_t index, const Place& /*place*/) const override { return index == to_; }

 private:
  struct Buffers {
    std::vector<float> line;
    std::vector<float> planes;
    std::vector<const float*> rows;
  };

  void run_row(RunState& state, int64_t plane, int64_t y) const {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    uint8_t* const to = state.bytes(to_) + out.at(plane, y, 0) * out.element_bytes();
    const int64_t n = plane / out.depth();
    const int64_t z = plane % out.depth();
    const int64_t size = in.channels() * in.element_bytes();
    if (depth().count() == 1 && height().count() == 1) {
      const int64_t line = in.at(n, depth().place(z, 0), height().place(y, 0), 0);
      spread(state.bytes(from_) + line * in.element_bytes(), in, out, to);
      return;
    }
    thread_local Buffers buffers;
    const int64_t length = in.width() * in.channels();
    buffers.line.resize(static_cast<size_t>(length));
    buffers.planes.resize(static_cast<size_t>(length * height().count()));
    std::vector<const float*> lines;
    for (int64_t i = 0; i < height().count(); ++i)
      lines.push_back(line_of(state, n, z, height().place(y, i), buffers.planes.data() + i * length));
    // Without taps across, the sums are the result.
    const bool is_result = width().is_identity() && !out.is_slice();
    float* const sums = is_result ? reinterpret_cast<float*>(to) : buffers.line.data();
    if (height().count() == 1) {
      std::memcpy(sums, lines.front(), static_cast<size_t>(in.width() * size));
    } else {
      weighted_rows(lines.data(), height().weights(y), height().count(), length, sums);
    }
    if (!is_result) spread(reinterpret_cast<const uint8_t*>(sums), in, out, to);
  }

  /// Row `y` of the input for plane `z` of the result, in `buffer` where it is of several planes.
  const float* line_of(RunState& state, int64_t n, int64_t z, int64_t y, float* buffer) const {
    const Place& in = state.places[from_];
    std::vector<const float*> planes;
    for (int64_t i = 0; i < depth().count(); ++i)
      planes.push_back(state.values(from_) + in.at(n, depth().place(z, i), y, 0));
    if (planes.size() == 1) return planes.front();
    weighted_rows(planes.data(), depth().weights(z), depth().count(), in.width() * in.channels(), buffer);
    return buffer;
  }

  /// The positions of a row of the result, of one line.
  void spread(const uint8_t* line, const Place& in, const Place& out, uint8_t* to) const {
    const int64_t size = in.channels() * in.element_bytes();
    const int64_t pitch = out.pitch() * out.element_bytes();
    if (width().is_identity() && !out.is_slice()) {
      std::memcpy(to, line, static_cast<size_t>(in.width() * size));
    } else if (width().count() == 1) {
      for (int64_t x = 0, run = 1; x < out.width(); x += run, to += run * pitch) {
        const int64_t first = width().place(x, 0);
        for (run = 1; !out.is_slice() && x + run < out.width() && width().place(x + run, 0) == first + run;)
          ++run;
        std::memcpy(to, line + first * size, static_cast<size_t>(run * size));
      }
    } else {
      std::vector<const float*> taps(static_cast<size_t>(width().count()));
      for (int64_t x = 0; x < out.width(); ++x, to += pitch) {
        for (int64_t i = 0; i < width().count(); ++i)
          taps[static_cast<size_t>(i)] = reinterpret_cast<const float*>(line + width().place(x, i) * size);
        weighted_rows(taps.data(), width().weights(x), width().count(), in.channels(),
                      reinterpret_cast<float*>(to));
      }
    }
  }

  const AxisTaps& depth() const { return axes_[0]; }
  const AxisTaps& height() const { return axes_[1]; }
  const AxisTaps& width() const { return axes_[2]; }

  AxisTaps axes_[3];
  size_t from_;
  size_t to_;
};

}  // namespace

std::unique_ptr<EngineStep> resample_step(const std::vector<ResampledAxis>& axes, size_t rank, size_t from,
                                          size_t to) {
  return std::make_unique<ResampleStep>(axes, rank, from, to);
}

}  // namespace detent
