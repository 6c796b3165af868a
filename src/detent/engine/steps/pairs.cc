#include <algorithm>
#include <array>

#include "detent/engine/pair_table.h"
#include "detent/engine/step.h"
#include "detent/engine/steps/pair_loops.h"
#include "detent/engine/steps/place_rows.h"

namespace detent {
namespace {

constexpr int64_t kChunk = 512;

using AdjacentBytes = AdjacentElements<uint8_t, kChunk>;

class PairsStep final : public EngineStep {
 public:
  PairsStep(const KernelSet& kernels, BytePairs pairs, size_t a, size_t b, size_t to)
      : kernels_(kernels), pairs_(std::move(pairs)), a_(a), b_(b), to_(to) {
    if (pairs_.addition) pairs_.addition->quick = quick_addition(*pairs_.addition);
  }

  void prepare(std::span<const Place> places) override {
    loops_ = PairLoops(places[to_], &places[a_], &places[b_]);
    of_rows_a_ = RowOffsets(&places[a_], places[to_].shape);
    of_rows_b_ = RowOffsets(&places[b_], places[to_].shape);
  }

  void run(RunState& state) const override {
    constexpr int64_t kTaskBytes = 16 << 10;
    fill_halo(state.places[to_], state.bytes(to_));
    const auto compute_line = [&](const PairLoops::Line& line) {
      uint8_t* const to = state.bytes(to_) + line.to;
      compute(line, state.bytes(a_) + line.a, state.bytes(b_) + line.b, to);
      if (!after_.empty()) kernels_.look_up(after_.data(), to, to, line.rows * line.count);
    };
    loops_.run(state.threads, kTaskBytes, compute_line, kChunk);
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }
  bool takes_table(size_t index) const override { return index == to_ && after_.empty(); }
  void add_table(std::span<const uint8_t> table) override { after_.assign(table.begin(), table.end()); }

  std::optional<size_t> row_results() const override { return to_; }
  bool maps_rows_of(size_t place, std::span<const Place> places) const override {
    return (a_ == place) != (b_ == place) && !places[a_].has_positions() && !places[b_].has_positions();
  }
  bool compute_rows(RunState& state, const MatrixRows& rows) const override {
    const int64_t columns = state.places[to_].shape.back();
    const auto row_of = [&](size_t place, const RowOffsets& offsets, int64_t row) -> const uint8_t* {
      if (place == rows.place) return reinterpret_cast<const uint8_t*>(rows.from) + row * columns;
      return state.bytes(place) + offsets.of(rows.matrix, rows.first + row);
    };
    auto* const to = reinterpret_cast<uint8_t*>(rows.to);
    const RowLines lines = lines_of(rows.count, columns, of_rows_a_, of_rows_b_);
    const PairLoops::Line line{.to = 0,
                               .a = 0,
                               .b = 0,
                               .count = lines.elements,
                               .a_step = of_rows_a_.step(),
                               .b_step = of_rows_b_.step()};
    for (int64_t row = 0; row < lines.count; ++row)
      compute(line, row_of(a_, of_rows_a_, row), row_of(b_, of_rows_b_, row), to + row * columns);
    if (!after_.empty()) kernels_.look_up(after_.data(), to, to, rows.count * columns);
    return false;
  }

 private:
  void compute(const PairLoops::Line& line, const uint8_t* a, const uint8_t* b, uint8_t* to) const {
    if (pairs_.table) {
      const uint8_t* const table = pairs_.table->data();
      for (int64_t row = 0; row < line.rows; ++row, a += line.a_row, b += line.b_row) {
        for (int64_t i = 0; i < line.count; ++i)
          *to++ = table[size_t{a[i * line.a_step]} * 256 + size_t{b[i * line.b_step]}];
      }
      return;
    }
    const bool is_adjacent = line.a_step == 1 && line.b_step == 1;
    AdjacentBytes of_a;
    AdjacentBytes of_b;
    if (line.rows > 1) {
      const uint8_t* x = of_a.of(a, line.a_step, line.count, line.a_row, line.rows);
      const uint8_t* y = of_b.of(b, line.b_step, line.count, line.b_row, line.rows);
      return join(x, y, to, line.rows * line.count);
    }
    for (int64_t i = 0; i < line.count;) {
      const int64_t run = is_adjacent ? line.count : std::min(kChunk, line.count - i);
      const uint8_t* x = of_a.of(a + i * line.a_step, line.a_step, run);
      const uint8_t* y = of_b.of(b + i * line.b_step, line.b_step, run);
      join(x, y, to + i, run);
      i += run;
    }
  }

  void join(const uint8_t* x, const uint8_t* y, uint8_t* to, int64_t count) const {
    if (pairs_.addition) {
      kernels_.add(*pairs_.addition, x, y, to, count);
    } else {
      kernels_.multiply(*pairs_.product, x, y, to, count);
    }
  }

  const KernelSet& kernels_;
  BytePairs pairs_;
  size_t a_, b_, to_;
  std::vector<uint8_t> after_;  // the results of which are looked up, if there is one
  PairLoops loops_;
  RowOffsets of_rows_a_;
  RowOffsets of_rows_b_;
};

}  // namespace

std::unique_ptr<EngineStep> pairs_step(const KernelSet& kernels, BytePairs pairs, size_t a, size_t b,
                                       size_t to) {
  return std::make_unique<PairsStep>(kernels, std::move(pairs), a, b, to);
}

}  // namespace detent
