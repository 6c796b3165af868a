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

 private:
  FloatRows rows_;
  size_t from_;
  size_t to_;
};

class FloatPairsStep final : public EngineStep {
 public:
  FloatPairsStep(PairFunction function, PairOperand a, PairOperand b, size_t to)
      : function_(function), a_(a), b_(b), to_(to) {}

  void run(RunState& state) const override {
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    const Reader a(state, a_, out);
    const Reader b(state, b_, out);
    if (!out.has_positions() && a.is_flat && b.is_flat) {
      for_each_chunk(out, out, state, 1, [&](int64_t first, int64_t result, int64_t count) {
        function_(a.values + first * a.step, a.step, b.values + first * b.step, b.step, count,
                  state.values(to_) + result);
      });
      return;
    }
    const int64_t at_once = a.is_flat && b.is_flat ? out.width() : 1;
    const int64_t channels = out.channels();
    const int64_t width = out.width();
    const auto compute = [&](int64_t n, int64_t y, int64_t first, int64_t end) {
      for (int64_t x = first; x < end; x += at_once) {
        function_(a.at(n, y, x), a.step, b.at(n, y, x), b.step, at_once * channels,
                  state.values(to_) + out.at(n, y, x));
      }
    };
    if (out.has_positions()) {
      for_each_row(out, state, [&](int64_t n, int64_t y) { compute(n, y, 0, width); });
      return;
    }
    constexpr int64_t kRows = 16;
    ThreadPool::shared().run((width + kRows - 1) / kRows, state.threads, [&](int64_t task) {
      compute(0, 0, task * kRows, std::min(width, (task + 1) * kRows));
    });
  }

 private:
  /// Where the values of an operand lie for a position of the result.
  struct Reader {
    const Place* place;
    const float* values;
    int64_t step;  // from one channel to the next
    bool is_flat;  // positions of a row follow each other as those of the result do

    Reader(RunState& state, const PairOperand& operand, const Place& out)
        : place(operand.place ? &state.places[*operand.place] : nullptr),
          values(operand.place ? state.values(*operand.place) : &operand.number),
          step(operand.place ? 1 : 0),
          is_flat(place == nullptr || place->width() == out.width()) {}

    const float* at(int64_t n, int64_t y, int64_t x) const {
      if (place == nullptr) return values;
      return values + place->at(place->images() == 1 ? 0 : n, place->height() == 1 ? 0 : y,
                                place->width() == 1 ? 0 : x);
    }
  };

  PairFunction function_;
  PairOperand a_;
  PairOperand b_;
  size_t to_;
};

}  // namespace

std::unique_ptr<EngineStep> float_rows_step(FloatRows rows, size_t from, size_t to) {
  return std::make_unique<FloatRowsStep>(std::move(rows), from, to);
}

std::unique_ptr<EngineStep> float_pairs_step(PairFunction function, PairOperand a, PairOperand b, size_t to) {
  return std::make_unique<FloatPairsStep>(function, a, b, to);
}

}  // namespace detent
