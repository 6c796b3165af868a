#include "detent/engine/steps/pair_loops.h"
#include "detent/engine/steps/place_rows.h"

// Functions of values, and pairs of them, between places of one layout.

namespace detent {
namespace {

class FloatRowsStep final : public EngineStep {
 public:
  FloatRowsStep(FloatRows rows, size_t from, size_t to) : rows_(std::move(rows)), from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    const float* const from = state.values(from_);
    float* const to = state.values(to_);
    for_each_chunk(state.places[from_], out, state, rows_.function.row,
                   [&](int64_t first, int64_t result, int64_t count) {
                     const auto size = static_cast<size_t>(count);
                     rows_.function.apply({from + first, size}, {to + result, size});
                   });
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }

  std::optional<size_t> row_results() const override { return to_; }
  bool maps_rows_of(size_t place, std::span<const Place> places) const override {
    return place == from_ && (rows_.function.row == 1 || rows_.function.row == places[place].shape.back());
  }
  bool compute_rows(RunState& state, const MatrixRows& rows) const override {
    const auto count = static_cast<size_t>(rows.count * state.places[to_].shape.back());
    rows_.function.apply({reinterpret_cast<const float*>(rows.from), count},
                         {reinterpret_cast<float*>(rows.to), count});
    return false;
  }
  std::optional<size_t> element_source() const override {
    return rows_.function.row == 1 ? std::optional(from_) : std::nullopt;
  }
  bool compute_elements(const void* from, void* to, int64_t count) const override {
    const auto size = static_cast<size_t>(count);
    rows_.function.apply({static_cast<const float*>(from), size}, {static_cast<float*>(to), size});
    return false;
  }

 private:
  FloatRows rows_;
  size_t from_;
  size_t to_;
};

class FloatPairsStep final : public EngineStep {
 public:
  FloatPairsStep(PairFunction function, PairOperand a, PairOperand b, size_t to)
      : function_(function), a_(a), b_(b), to_(to) {}

  void prepare(std::span<const Place> places) override {
    const auto place_of = [&](const PairOperand& operand) {
      return operand.place ? &places[*operand.place] : nullptr;
    };
    loops_ = PairLoops(places[to_], place_of(a_), place_of(b_));
    of_rows_a_ = RowOffsets(place_of(a_), places[to_].shape);
    of_rows_b_ = RowOffsets(place_of(b_), places[to_].shape);
  }

  void run(RunState& state) const override {
    constexpr int64_t kTaskElements = 4 << 10;
    fill_halo(state.places[to_], state.bytes(to_));
    const auto values_of = [&](const PairOperand& operand) -> const float* {
      return operand.place ? state.values(*operand.place) : &operand.number;
    };
    const float* const a = values_of(a_);
    const float* const b = values_of(b_);
    float* const to = state.values(to_);
    const auto compute = [&](const PairLoops::Line& line) {
      if (line.rows == 1)
        return function_(a + line.a, line.a_step, b + line.b, line.b_step, line.count, to + line.to);
      AdjacentElements<float, kTogether> of_a;
      AdjacentElements<float, kTogether> of_b;
      function_(of_a.of(a + line.a, line.a_step, line.count, line.a_row, line.rows), 1,
                of_b.of(b + line.b, line.b_step, line.count, line.b_row, line.rows), 1,
                line.rows * line.count, to + line.to);
    };
    loops_.run(state.threads, kTaskElements, compute, loops_.line() < kShortLine ? kTogether : 0);
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }

  std::optional<size_t> row_results() const override { return to_; }
  bool maps_rows_of(size_t place, std::span<const Place> places) const override {
    const auto lies_in_rows = [&](const PairOperand& operand) {
      return !operand.place || !places[*operand.place].has_positions();
    };
    return (a_.place == place) != (b_.place == place) && lies_in_rows(a_) && lies_in_rows(b_);
  }
  bool compute_rows(RunState& state, const MatrixRows& rows) const override {
    const int64_t columns = state.places[to_].shape.back();
    const auto row_of = [&](const PairOperand& operand, const RowOffsets& offsets, int64_t row) {
      if (!operand.place) return &operand.number;
      if (operand.place == rows.place) return reinterpret_cast<const float*>(rows.from) + row * columns;
      return static_cast<const float*>(state.values(*operand.place)) +
             offsets.of(rows.matrix, rows.first + row);
    };
    const RowLines lines = lines_of(rows.count, columns, of_rows_a_, of_rows_b_);
    for (int64_t row = 0; row < lines.count; ++row)
      function_(row_of(a_, of_rows_a_, row), of_rows_a_.step(), row_of(b_, of_rows_b_, row),
                of_rows_b_.step(), lines.elements, reinterpret_cast<float*>(rows.to) + row * columns);
    return false;
  }
  std::optional<size_t> element_source() const override {
    if (a_.place.has_value() == b_.place.has_value()) return std::nullopt;
    return a_.place ? a_.place : b_.place;
  }
  bool compute_elements(const void* from, void* to, int64_t count) const override {
    const auto* const x = static_cast<const float*>(from);
    function_(a_.place ? x : &a_.number, a_.place ? 1 : 0, b_.place ? x : &b_.number, b_.place ? 1 : 0, count,
              static_cast<float*>(to));
    return false;
  }

 private:
  /// A call for each line of fewer elements takes longer than to write out what its operands repeat.
  static constexpr int64_t kShortLine = 64;
  static constexpr int64_t kTogether = 1024;

  PairFunction function_;
  PairOperand a_;
  PairOperand b_;
  size_t to_;
  PairLoops loops_;
  RowOffsets of_rows_a_;
  RowOffsets of_rows_b_;
};

}  // namespace

std::unique_ptr<EngineStep> float_rows_step(FloatRows rows, size_t from, size_t to) {
  return std::make_unique<FloatRowsStep>(std::move(rows), from, to);
}

std::unique_ptr<EngineStep> float_pairs_step(PairFunction function, PairOperand a, PairOperand b, size_t to) {
  return std::make_unique<FloatPairsStep>(function, a, b, to);
}

}  // namespace detent
