#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/engine/steps/place_rows.h"

namespace detent {
namespace {

/// Adjacent elements of an input that lie adjacent in the result too; as often as they follow in equal steps.
struct MovedRun {
  size_t input;
  int64_t from;
  int64_t to;
  int64_t count;
  int64_t times = 1;
  int64_t from_step = 0;
  int64_t to_step = 0;
};

/// Elements that are moved one after the other, in few runs.
class MovedRuns {
 public:
  void add(size_t input, int64_t from, int64_t to, int64_t count = 1) {
    if (next_.count > 0 && next_.input == input && from == next_.from + next_.count &&
        to == next_.to + next_.count) {
      next_.count += count;
      return;
    }
    end_run();
    next_ = {input, from, to, count};
  }
  std::vector<MovedRun> finished() {
    end_run();
    next_.count = 0;
    return std::move(runs_);
  }

 private:
  void end_run() {
    if (next_.count == 0) return;
    if (!runs_.empty() && runs_.back().input == next_.input && runs_.back().count == next_.count) {
      MovedRun& last = runs_.back();
      const int64_t from_step = next_.from - last.from;
      const int64_t to_step = next_.to - last.to;
      if (last.times == 1) {
        last.from_step = from_step;
        last.to_step = to_step;
      }
      if (from_step == last.times * last.from_step && to_step == last.times * last.to_step) {
        ++last.times;
        return;
      }
    }
    runs_.push_back(next_);
  }

  MovedRun next_ = {};
  std::vector<MovedRun> runs_;
};

template <class Element>
void move_single(const MovedRun& run, const uint8_t* from, uint8_t* to) {
  const auto* const source = reinterpret_cast<const Element*>(from) + run.from;
  auto* const target = reinterpret_cast<Element*>(to) + run.to;
  for (int64_t i = 0; i < run.times; ++i) target[i * run.to_step] = source[i * run.from_step];
}

void move(const MovedRun& run, int64_t element, const uint8_t* from, uint8_t* to) {
  if (run.count == 1)
    return element == 1 ? move_single<uint8_t>(run, from, to) : move_single<float>(run, from, to);
  for (int64_t i = 0; i < run.times; ++i)
    std::memcpy(to + (run.to + i * run.to_step) * element, from + (run.from + i * run.from_step) * element,
                static_cast<size_t>(run.count * element));
}

/// Where the element of a value lies in its place.
class ElementPlaces {
 public:
  explicit ElementPlaces(const Place& place) : place_(place) {}

  int64_t of(int64_t element) const {
    const int64_t channels = place_.channels();
    if (!place_.has_positions()) return place_.at(0, 0, element / channels) + element % channels;
    const int64_t plane = place_.channel_step();
    const int64_t position = element % plane;
    const int64_t channel = element / plane % channels;
    const int64_t y = position / place_.width();
    const int64_t n = element / plane / channels * place_.depth() + y / place_.height();
    return place_.at(n, y % place_.height(), position % place_.width()) + channel;
  }

  /// Whether the places of `count` elements, `step` apart, are as far apart as those of the first two: surely
  /// where no index of their positions but one changes.
  bool are_even(int64_t first, int64_t step, int64_t count) const {
    if (count <= 2 || step == 0) return true;
    const Indices indices = indices_of_place();
    const auto larger =
        std::ranges::find_if(indices, [&](const Index& index) { return index.elements > step; });
    if (step < 0 || larger == indices.begin()) return false;
    const auto& [elements, size] = *std::prev(larger);
    const int64_t last = first / elements % size + step / elements * (count - 1);
    return step % elements == 0 && last < size;
  }

  /// How far elements that follow in each dimension of a view lie apart, where that is the same all along:
  /// surely where no index of their positions goes beyond its size.
  std::optional<std::vector<int64_t>> steps_of(const StridedView& view) const {
    const Indices indices = indices_of_place();
    std::array<int64_t, kIndices> last = {};
    for (size_t i = 0; i < kIndices; ++i) last[i] = view.offset / indices[i].elements % indices[i].size;
    std::vector<int64_t> steps;
    for (size_t d = 0; d < view.shape.size(); ++d) {
      const int64_t step = view.shape[d] == 1 ? 0 : view.strides[d];
      if (step < 0) return std::nullopt;
      steps.push_back(step == 0 ? 0 : of(view.offset + step) - of(view.offset));
      if (step == 0) continue;
      const auto larger =
          std::ranges::find_if(indices, [&](const Index& index) { return index.elements > step; });
      const auto moved = static_cast<size_t>(std::distance(indices.begin(), larger)) - 1;
      if (step % indices[moved].elements != 0) return std::nullopt;
      last[moved] += step / indices[moved].elements * (view.shape[d] - 1);
    }
    for (size_t i = 0; i < kIndices; ++i)
      if (last[i] >= indices[i].size) return std::nullopt;
    return steps;
  }

 private:
  static constexpr size_t kIndices = 5;
  struct Index {
    int64_t elements;  // from one to the next
    int64_t size;
  };
  using Indices = std::array<Index, kIndices>;  // the fastest first

  Indices indices_of_place() const {
    constexpr int64_t kOpen = std::numeric_limits<int64_t>::max();
    const int64_t channels = place_.channels();
    if (!place_.has_positions())
      return {{{1, channels}, {channels, kOpen}, {kOpen, 1}, {kOpen, 1}, {kOpen, 1}}};
    const int64_t plane = place_.channel_step();
    return {{{1, place_.width()},
             {place_.width(), place_.height()},
             {place_.width() * place_.height(), place_.depth()},
             {plane, channels},
             {plane * channels, kOpen}}};
  }

  const Place& place_;
};

/// The copy with its dimensions in the order in which they lie in the place, so that runs are long: where
/// channels are last, a position's channels are one run.
StridedCopy in_order_of_place(const StridedCopy& copy, const ElementPlaces& place) {
  if (element_count(copy.to.shape) == 0) return copy;
  std::vector<std::pair<int64_t, size_t>> order;
  const int64_t first = place.of(copy.to.offset);
  for (size_t d = 0; d < copy.to.shape.size(); ++d) {
    const bool is_single = copy.to.shape[d] == 1;
    const int64_t step = is_single ? 0 : place.of(copy.to.offset + copy.to.strides[d]) - first;
    order.emplace_back(-std::abs(step), d);
  }
  std::ranges::stable_sort(order, {}, &std::pair<int64_t, size_t>::first);
  StridedCopy ordered = copy;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t d = order[i].second;
    ordered.from.shape[i] = ordered.to.shape[i] = copy.to.shape[d];
    ordered.from.strides[i] = copy.from.strides[d];
    ordered.to.strides[i] = copy.to.strides[d];
  }
  return ordered;
}

/// Calls `visit(from, to)` with the first elements of a copy's lines along the last dimension.
template <class Visit>
void for_each_moved_line(const StridedCopy& copy, const Visit& visit) {
  const Shape& shape = copy.from.shape;
  std::vector<int64_t> index(shape.size(), 0);
  int64_t from = copy.from.offset;
  int64_t to = copy.to.offset;
  const int64_t lines = shape.empty() ? 1 : element_count(shape) / std::max<int64_t>(shape.back(), 1);
  for (int64_t i = 0; i < lines; ++i) {
    visit(from, to);
    for (size_t d = shape.size(); d-- > 1;) {
      from += copy.from.strides[d - 1];
      to += copy.to.strides[d - 1];
      if (++index[d - 1] < shape[d - 1]) break;
      from -= copy.from.strides[d - 1] * shape[d - 1];
      to -= copy.to.strides[d - 1] * shape[d - 1];
      index[d - 1] = 0;
    }
  }
}

/// Adds the elements of a copy that lie as far apart as the steps of its dimensions say, from these places
/// on.
void add_in_steps(const StridedCopy& copy, size_t input, int64_t from, int64_t to,
                  const std::vector<int64_t>& from_steps, const std::vector<int64_t>& to_steps,
                  MovedRuns& runs) {
  StridedCopy places;
  places.from.offset = from;
  places.to.offset = to;
  for (size_t d = 0; d < copy.from.shape.size(); ++d) {
    const int64_t size = copy.from.shape[d];
    if (size == 1) continue;
    const bool follows = !places.from.shape.empty() && places.from.strides.back() == from_steps[d] * size &&
                         places.to.strides.back() == to_steps[d] * size;
    if (follows) {
      places.from.shape.back() *= size;
      places.from.strides.back() = from_steps[d];
      places.to.strides.back() = to_steps[d];
    } else {
      places.from.shape.push_back(size);
      places.from.strides.push_back(from_steps[d]);
      places.to.strides.push_back(to_steps[d]);
    }
  }
  if (places.from.shape.empty()) return runs.add(input, from, to);
  const int64_t count = places.from.shape.back();
  const int64_t next = places.from.strides.back();
  const int64_t next_result = places.to.strides.back();
  for_each_moved_line(places, [&](int64_t first, int64_t result) {
    if (next == 1 && next_result == 1) return runs.add(input, first, result, count);
    for (int64_t i = 0; i < count; ++i) runs.add(input, first + i * next, result + i * next_result);
  });
}

/// Adds the elements of a copy, in the order of its dimensions.
void add_moved(const StridedCopy& copy, size_t input, const ElementPlaces& source,
               const ElementPlaces& target, MovedRuns& runs) {
  const Shape& shape = copy.from.shape;
  if (element_count(shape) == 0) return;
  const auto from_steps = source.steps_of(copy.from);
  const auto to_steps = target.steps_of(copy.to);
  if (from_steps && to_steps) {
    add_in_steps(copy, input, source.of(copy.from.offset), target.of(copy.to.offset), *from_steps, *to_steps,
                 runs);
    return;
  }
  const int64_t count = shape.empty() ? 1 : shape.back();
  const int64_t from_step = shape.empty() ? 0 : copy.from.strides.back();
  const int64_t to_step = shape.empty() ? 0 : copy.to.strides.back();
  for_each_moved_line(copy, [&](int64_t from, int64_t to) {
    if (!source.are_even(from, from_step, count) || !target.are_even(to, to_step, count)) {
      for (int64_t i = 0; i < count; ++i)
        runs.add(input, source.of(from + i * from_step), target.of(to + i * to_step));
      return;
    }
    const int64_t first = source.of(from);
    const int64_t result = target.of(to);
    const int64_t next = count == 1 ? 1 : source.of(from + from_step) - first;
    const int64_t next_result = count == 1 ? 1 : target.of(to + to_step) - result;
    if (next == 1 && next_result == 1) return runs.add(input, first, result, count);
    for (int64_t i = 0; i < count; ++i) runs.add(input, first + i * next, result + i * next_result);
  });
}

class MovementStep final : public EngineStep {
 public:
  MovementStep(MovedInputs inputs, size_t to) : inputs_(std::move(inputs)), to_(to) {}

  void prepare(std::span<const Place> places) override {
    const Place& out = places[to_];
    const ElementPlaces target(out);
    int64_t moved = 0;
    MovedRuns runs;
    for (const StridedCopy& copy : inputs_.copies) {
      const ElementPlaces source(places[inputs_.places[copy.input]]);
      add_moved(in_order_of_place(copy, target), copy.input, source, target, runs);
      moved += element_count(copy.to.shape);
    }
    fills_ = moved < element_count(out.shape);
    runs_ = runs.finished();
  }

  void run(RunState& state) const override {
    const Place& out = state.places[to_];
    uint8_t* to = state.bytes(to_);
    if (fills_) {
      std::memset(to, out.zero_byte(), static_cast<size_t>(out.elements() * out.element_bytes()));
    } else {
      fill_halo(out, to);
    }
    std::vector<const uint8_t*> from;
    for (const size_t place : inputs_.places) from.push_back(state.bytes(place));
    const int64_t element = out.element_bytes();
    for (const MovedRun& run : runs_) move(run, element, from[run.input], to);
  }
  bool takes_slice(size_t index, const Place& /*place*/) const override { return index != to_; }

 private:
  MovedInputs inputs_;
  size_t to_;
  std::vector<MovedRun> runs_;
  bool fills_ = false;
};

class SpreadChannelsStep final : public EngineStep {
 public:
  SpreadChannelsStep(const SpreadChannels& spread, size_t from, size_t to)
      : spread_(spread), from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Place& in = state.places[from_];
    fill_halo(state.places[to_], state.bytes(to_));
    for_each_row(in, state, [&](int64_t n, int64_t y) {
      in.is_values ? spread_row(state, n, y, state.values(from_), state.values(to_))
                   : spread_row(state, n, y, state.bytes(from_), state.bytes(to_));
    });
  }
  bool takes_slice(size_t /*index*/, const Place& /*place*/) const override { return true; }

 private:
  template <class T>
  void spread_row(RunState& state, int64_t n, int64_t y, const T* from, T* to) const {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    const int64_t channels = out.channels();
    for (int64_t x = 0; x < in.width(); ++x) {
      for (int64_t i = 0; i < spread_.rows; ++i) {
        for (int64_t j = 0; j < spread_.columns; ++j) {
          const T* const first = from + in.at(n, y, x) + i * spread_.by_row + j * spread_.by_column;
          T* const result = to + out.at(n, y * spread_.rows + i, x * spread_.columns + j);
          for (int64_t c = 0; c < channels; ++c) result[c] = first[c * spread_.by_channel];
        }
      }
    }
  }

  SpreadChannels spread_;
  size_t from_;
  size_t to_;
};

}  // namespace

std::unique_ptr<EngineStep> spread_channels_step(const SpreadChannels& spread, size_t from, size_t to) {
  return std::make_unique<SpreadChannelsStep>(spread, from, to);
}

std::unique_ptr<EngineStep> movement_step(MovedInputs inputs, size_t to) {
  return std::make_unique<MovementStep>(std::move(inputs), to);
}

}  // namespace detent
