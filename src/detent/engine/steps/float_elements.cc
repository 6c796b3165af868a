#include <numeric>

#include "detent/engine/steps/place_rows.h"
#include "detent/graph/strided_view.h"
#include "detent/graph/element_movement.h"

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

/// Which row of an operand each row of the result takes, where both lie in rows and broadcast; empty where it
/// is the same one, or the only one.
std::vector<int64_t> repeated_rows(const Place& operand, const Place& out) {
  if (out.has_positions() || operand.width() == out.width() || operand.width() == 1) return {};
  const auto without_last = [](const Shape& shape) { return Shape(shape.begin(), shape.end() - 1); };
  const Shape rows = without_last(out.shape);
  Tensor places(DType::kInt64, without_last(operand.shape));
  std::iota(places.values<int64_t>().begin(), places.values<int64_t>().end(), 0);
  const Tensor repeated = gathered(places, StridedView::broadcast(places.shape(), rows));
  return {repeated.values<int64_t>().begin(), repeated.values<int64_t>().end()};
}

class FloatPairsStep final : public EngineStep {
 public:
  FloatPairsStep(PairFunction function, PairOperand a, PairOperand b, size_t to)
      : function_(function), a_(a), b_(b), to_(to) {}

  void prepare(std::span<const Place> places) override {
    for (size_t i = 0; i < 2; ++i) {
      const PairOperand& operand = i == 0 ? a_ : b_;
      if (operand.place) rows_[i] = repeated_rows(places[*operand.place], places[to_]);
    }
  }

  void run(RunState& state) const override {
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    const Reader a(state, a_, out, rows_[0]);
    const Reader b(state, b_, out, rows_[1]);
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
    std::span<const int64_t> rows;  // of each row of the result, where they differ
    int64_t step;                   // from one channel to the next
    bool is_flat;                   // positions of a row follow each other as those of the result do

    Reader(RunState& state, const PairOperand& operand, const Place& out, std::span<const int64_t> repeated)
        : place(operand.place ? &state.places[*operand.place] : nullptr),
          values(operand.place ? state.values(*operand.place) : &operand.number),
          rows(repeated),
          step(place != nullptr && place->channels() == out.channels() ? 1 : 0),
          is_flat(place == nullptr || (place->width() == out.width() && step == 1)) {}

    const float* at(int64_t n, int64_t y, int64_t x) const {
      if (place == nullptr) return values;
      if (!rows.empty()) return values + place->at(0, 0, rows[static_cast<size_t>(x)]);
      return values + place->at(place->images() == 1 ? 0 : n, place->height() == 1 ? 0 : y,
                                place->width() == 1 ? 0 : x);
    }
  };

  PairFunction function_;
  PairOperand a_;
  PairOperand b_;
  size_t to_;
  std::vector<int64_t> rows_[2];
};

}  // namespace

std::unique_ptr<EngineStep> float_rows_step(FloatRows rows, size_t from, size_t to) {
  return std::make_unique<FloatRowsStep>(std::move(rows), from, to);
}

std::unique_ptr<EngineStep> float_pairs_step(PairFunction function, PairOperand a, PairOperand b, size_t to) {
  return std::make_unique<FloatPairsStep>(function, a, b, to);
}

}  // namespace detent
