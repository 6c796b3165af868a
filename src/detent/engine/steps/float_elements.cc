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
    loops_.run(state.threads, kTaskElements, [&](const PairLoops::Line& line) {
      function_(a + line.a, line.a_step, b + line.b, line.b_step, line.count, to + line.to);
    });
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }

 private:
  PairFunction function_;
  PairOperand a_;
  PairOperand b_;
  size_t to_;
  PairLoops loops_;
};

}  // namespace

std::unique_ptr<EngineStep> float_rows_step(FloatRows rows, size_t from, size_t to) {
  return std::make_unique<FloatRowsStep>(std::move(rows), from, to);
}

std::unique_ptr<EngineStep> float_pairs_step(PairFunction function, PairOperand a, PairOperand b, size_t to) {
  return std::make_unique<FloatPairsStep>(function, a, b, to);
}

}  // namespace detent
