#include <algorithm>
#include <array>
#include <cstring>

#include "detent/engine/pair_table.h"
#include "detent/engine/step.h"

namespace detent {
namespace {

/// One of the loops over the elements of a result in the order of its memory; steps in bytes.
struct PairLoop {
  int64_t count;
  int64_t to, a, b;
};

/// Bytes from one element to the next in each dimension of a value.
std::vector<int64_t> steps_of(const Place& place) {
  if (!place.has_positions()) return StridedView::of(place.shape).strides;
  const int64_t sample = place.elements() / place.shape[0];
  std::vector<int64_t> steps = {sample, 1, place.image(), place.row(), place.channels()};
  steps.erase(steps.begin() + 2, steps.end() - (std::ssize(place.shape) - 2));
  return steps;
}

/// Those in the dimensions of `shape`, 0 where the value is repeated.
std::vector<int64_t> repeated_steps(const Place& place, const Shape& shape) {
  const std::vector<int64_t> own = steps_of(place);
  std::vector<int64_t> steps(shape.size(), 0);
  for (size_t i = 1; i <= own.size(); ++i) {
    if (place.shape[own.size() - i] != 1) steps[shape.size() - i] = own[own.size() - i];
  }
  return steps;
}

/// As few loops as there can be, the innermost last.
std::vector<PairLoop> loops_of(const Place& to, const Place& a, const Place& b) {
  const std::vector<int64_t> of_result = steps_of(to);
  const std::vector<int64_t> of_a = repeated_steps(a, to.shape);
  const std::vector<int64_t> of_b = repeated_steps(b, to.shape);
  std::vector<size_t> order;
  for (size_t d = 0; d < to.shape.size(); ++d) {
    if (!to.has_positions() || d != 1) order.push_back(d);
  }
  if (to.has_positions()) order.push_back(1);
  std::vector<PairLoop> loops;
  for (const size_t d : order) {
    const PairLoop next{to.shape[d], of_result[d], of_a[d], of_b[d]};
    if (next.count == 1) continue;
    const bool joins = !loops.empty() && loops.back().to == next.to * next.count &&
                       loops.back().a == next.a * next.count && loops.back().b == next.b * next.count;
    if (joins) {
      loops.back() = {loops.back().count * next.count, next.to, next.a, next.b};
    } else {
      loops.push_back(next);
    }
  }
  // Results of the innermost lie next to each other, which those of single channels in columns with a border
  // between them do not.
  if (loops.empty() || loops.back().to != 1) loops.push_back({1, 1, 1, 1});
  return loops;
}

constexpr int64_t kChunk = 512;

/// Up to kChunk bytes that follow each other.
class AdjacentBytes {
 public:
  const uint8_t* of(const uint8_t* from, int64_t step, int64_t count) {
    if (step == 1) return from;
    if (step == 0) {
      std::memset(bytes_.data(), *from, static_cast<size_t>(count));
    } else {
      for (int64_t i = 0; i < count; ++i) bytes_[static_cast<size_t>(i)] = from[i * step];
    }
    return bytes_.data();
  }

 private:
  std::array<uint8_t, kChunk> bytes_;
};

class PairsStep final : public EngineStep {
 public:
  PairsStep(const KernelSet& kernels, BytePairs pairs, size_t a, size_t b, size_t to)
      : kernels_(kernels), pairs_(std::move(pairs)), a_(a), b_(b), to_(to) {
    if (pairs_.addition) pairs_.addition->quick = quick_addition(*pairs_.addition);
  }

  void prepare(std::span<const Place> places) override {
    const Place& to = places[to_];
    loops_ = loops_of(to, places[a_], places[b_]);
    inner_ = loops_.back();
    loops_.pop_back();
    first_to_ = to.at(0, 0, 0);
    first_a_ = places[a_].at(0, 0, 0);
    first_b_ = places[b_].at(0, 0, 0);
  }

  void run(RunState& state) const override {
    constexpr int64_t kTaskBytes = 16 << 10;
    fill_halo(state.places[to_], state.bytes(to_));
    const int64_t parts = (inner_.count + kTaskBytes - 1) / kTaskBytes;  // of the innermost loop
    int64_t lines = 1;
    for (const PairLoop& loop : loops_) lines *= loop.count;
    const int64_t at_once = std::max<int64_t>(kTaskBytes / inner_.count, 1);
    ThreadPool::shared().run((lines + at_once - 1) / at_once * parts, state.threads, [&](int64_t task) {
      const int64_t first = task % parts * kTaskBytes;
      const int64_t count = std::min(kTaskBytes, inner_.count - first);
      const int64_t end = std::min(lines, (task / parts + 1) * at_once);
      for (int64_t line = task / parts * at_once; line < end; ++line) do_line(state, line, first, count);
    });
  }

 private:
  void do_line(RunState& state, int64_t line, int64_t first, int64_t count) const {
    int64_t to = first_to_ + first * inner_.to;
    int64_t a = first_a_ + first * inner_.a;
    int64_t b = first_b_ + first * inner_.b;
    for (size_t i = loops_.size(); i-- > 0; line /= loops_[i].count) {
      const int64_t index = line % loops_[i].count;
      to += index * loops_[i].to;
      a += index * loops_[i].a;
      b += index * loops_[i].b;
    }
    compute(state.bytes(a_) + a, state.bytes(b_) + b, state.bytes(to_) + to, count);
  }

  /// Results are adjacent.
  void compute(const uint8_t* a, const uint8_t* b, uint8_t* to, int64_t count) const {
    if (pairs_.table) {
      const uint8_t* const table = pairs_.table->data();
      for (int64_t i = 0; i < count; ++i)
        to[i] = table[size_t{a[i * inner_.a]} * 256 + size_t{b[i * inner_.b]}];
      return;
    }
    const bool is_adjacent = inner_.a == 1 && inner_.b == 1;
    AdjacentBytes of_a;
    AdjacentBytes of_b;
    for (int64_t i = 0; i < count;) {
      const int64_t run = is_adjacent ? count : std::min(kChunk, count - i);
      const uint8_t* x = of_a.of(a + i * inner_.a, inner_.a, run);
      const uint8_t* y = of_b.of(b + i * inner_.b, inner_.b, run);
      if (pairs_.addition) {
        kernels_.add(*pairs_.addition, x, y, to + i, run);
      } else {
        kernels_.multiply(*pairs_.product, x, y, to + i, run);
      }
      i += run;
    }
  }

  const KernelSet& kernels_;
  BytePairs pairs_;
  size_t a_, b_, to_;
  std::vector<PairLoop> loops_;  // but the innermost, ...
  PairLoop inner_ = {};          // which this is
  int64_t first_to_ = 0, first_a_ = 0, first_b_ = 0;
};

}  // namespace

std::unique_ptr<EngineStep> pairs_step(const KernelSet& kernels, BytePairs pairs, size_t a, size_t b,
                                       size_t to) {
  return std::make_unique<PairsStep>(kernels, std::move(pairs), a, b, to);
}

}  // namespace detent
