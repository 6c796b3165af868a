#include <cstring>

#include "detent/core/error.h"
#include "detent/engine/step.h"

namespace detent {
namespace {

/// Adjacent elements of an input that lie adjacent in the result too.
struct MovedRun {
  size_t input;
  int64_t from;
  int64_t to;
  int64_t count;
};

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

 private:
  const Place& place_;
};

/// Calls `visit(from, to)` with the elements of a copy in row-major order.
template <class Visit>
void for_each_moved(const StridedCopy& copy, const Visit& visit) {
  const Shape& shape = copy.from.shape;
  std::vector<int64_t> index(shape.size(), 0);
  int64_t from = copy.from.offset;
  int64_t to = copy.to.offset;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    visit(from, to);
    for (size_t d = shape.size(); d-- > 0;) {
      from += copy.from.strides[d];
      to += copy.to.strides[d];
      if (++index[d] < shape[d]) break;
      from -= copy.from.strides[d] * shape[d];
      to -= copy.to.strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

class MovementStep final : public EngineStep {
 public:
  MovementStep(MovedInputs inputs, size_t to) : inputs_(std::move(inputs)), to_(to) {}

  void prepare(std::span<const Place> places) override {
    const Place& out = places[to_];
    const ElementPlaces target(out);
    int64_t moved = 0;
    for (const StridedCopy& copy : inputs_.copies) {
      const ElementPlaces source(places[inputs_.places[copy.input]]);
      const size_t first = runs_.size();
      for_each_moved(copy, [&](int64_t from, int64_t to) {
        runs_.push_back({copy.input, source.of(from), target.of(to), 1});
      });
      moved += std::ssize(runs_) - static_cast<int64_t>(first);
    }
    fills_ = moved < element_count(out.shape);
    std::ranges::sort(runs_, {}, &MovedRun::to);
    join_runs();
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
    for (const MovedRun& run : runs_)
      std::memcpy(to + run.to * element, from[run.input] + run.from * element,
                  static_cast<size_t>(run.count * element));
  }

 private:
  void join_runs() {
    size_t last = 0;
    for (size_t i = 1; i < runs_.size(); ++i) {
      MovedRun& run = runs_[last];
      const bool follows = runs_[i].input == run.input && runs_[i].from == run.from + run.count &&
                           runs_[i].to == run.to + run.count;
      if (follows) {
        ++run.count;
      } else {
        runs_[++last] = runs_[i];
      }
    }
    if (!runs_.empty()) runs_.resize(last + 1);
    runs_.shrink_to_fit();
  }

  MovedInputs inputs_;
  size_t to_;
  std::vector<MovedRun> runs_;
  bool fills_ = false;
};

}  // namespace

std::unique_ptr<EngineStep> movement_step(MovedInputs inputs, size_t to) {
  return std::make_unique<MovementStep>(std::move(inputs), to);
}

}  // namespace detent
