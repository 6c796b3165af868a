#include <algorithm>
#include <cstring>
#include <optional>

#include "detent/engine/steps/place_rows.h"

namespace detent {
namespace {

/// Adjacent elements, at equal distances in each place.
struct JoinedRun {
  int64_t from;
  int64_t to;
  int64_t count;
  int64_t times = 1;
  int64_t from_step = 0;
  int64_t to_step = 0;
};

class JoinStep final : public EngineStep {
 public:
  JoinStep(const KernelSet& kernels, std::vector<JoinedInput> inputs, size_t axis, size_t to)
      : kernels_(kernels), inputs_(std::move(inputs)), axis_(axis), to_(to) {}

  void run(RunState& state) const override {
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    if (!out.has_positions()) {
      join_rows(state);
      return;
    }
    for_each_row(out, state, [&](int64_t plane, int64_t y) {
      for (const JoinedInput& input : inputs_) {
        const Place& in = state.places[input.place];
        if (const auto run = run_of_row(in, input.begin, out, plane, y)) copy(state, input, *run);
      }
    });
  }
  bool takes_slice(size_t /*index*/, const Place& /*place*/) const override { return axis_ == 1; }

 private:
  /// The part that one input has in row `y` of a plane; planes count those of all samples.
  std::optional<JoinedRun> run_of_row(const Place& in, int64_t begin, const Place& out, int64_t plane,
                                      int64_t y) const {
    const int64_t row = out.at(plane, y, 0);
    const size_t rank = out.shape.size();
    if (axis_ == 1)
      return JoinedRun{in.at(plane, y, 0), row + begin, in.channels(), in.width(), in.pitch(), out.pitch()};
    const int64_t count = in.width() * in.channels();
    if (axis_ == rank - 1) return JoinedRun{in.at(plane, y, 0), row + begin * out.channels(), count};
    const int64_t at[] = {plane / out.depth(), plane % out.depth(), y};
    const int64_t index = (axis_ == 0 ? at[0] : axis_ == rank - 2 ? at[2] : at[1]) - begin;
    if (index < 0 || index >= in.shape[axis_]) return std::nullopt;
    if (axis_ == 0) return JoinedRun{in.at(index * in.depth() + at[1], y, 0), row, count};
    if (axis_ == rank - 2) return JoinedRun{in.at(plane, index, 0), row, count};
    return JoinedRun{in.at(at[0] * in.depth() + index, y, 0), row, count};
  }

  void join_rows(RunState& state) const {
    constexpr int64_t kTaskBytes = 16 << 10;
    const Place& out = state.places[to_];
    const Shape& shape = out.shape;
    const auto axis = shape.begin() + static_cast<int64_t>(axis_);
    const int64_t outer = element_count({shape.begin(), axis});
    const int64_t inner = element_count({axis + 1, shape.end()});
    const int64_t row = *axis * inner;
    const int64_t at_once =
        std::max<int64_t>(kTaskBytes / std::max<int64_t>(row * out.element_bytes(), 1), 1);
    ThreadPool::shared().run((outer + at_once - 1) / at_once, state.threads, [&](int64_t task) {
      const int64_t first = task * at_once;
      const int64_t times = std::min(at_once, outer - first);
      for (const JoinedInput& input : inputs_) {
        const int64_t count = state.places[input.place].shape[axis_] * inner;
        copy(state, input, {first * count, first * row + input.begin * inner, count, times, count, row});
      }
    });
  }

  void copy(RunState& state, const JoinedInput& input, const JoinedRun& run) const {
    const int64_t element = state.places[to_].element_bytes();
    const uint8_t* from = state.bytes(input.place) + run.from * element;
    uint8_t* to = state.bytes(to_) + run.to * element;
    const int64_t length = run.count * element;
    const int64_t from_step = run.from_step * element;
    const int64_t to_step = run.to_step * element;
    if (!input.table.empty()) {
      for (int64_t i = 0; i < run.times; ++i)
        kernels_.look_up(input.table.data(), from + i * from_step, to + i * to_step, length);
    } else if (length == sizeof(float)) {
      for (int64_t i = 0; i < run.times; ++i)
        std::memcpy(to + i * to_step, from + i * from_step, sizeof(float));
    } else {
      for (int64_t i = 0; i < run.times; ++i)
        std::memcpy(to + i * to_step, from + i * from_step, static_cast<size_t>(length));
    }
  }

  const KernelSet& kernels_;
  std::vector<JoinedInput> inputs_;
  size_t axis_;
  size_t to_;
};

}  // namespace

std::unique_ptr<EngineStep> join_step(const KernelSet& kernels, std::vector<JoinedInput> inputs, size_t axis,
                                      size_t to) {
  return std::make_unique<JoinStep>(kernels, std::move(inputs), axis, to);
}

}  // namespace detent
