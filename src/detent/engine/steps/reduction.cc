#include <algorithm>
#include <vector>

#include "detent/engine/steps/place_rows.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

/// Dimensions that follow each other become one element: in rows, or of values with their channels last the
/// positions or the channels.
class ReductionStep final : public EngineStep {
 public:
  ReductionStep(const RowReduction& reduction, ReducedDims dims, size_t from, size_t to)
      : reduction_(reduction), dims_(dims), from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Place& in = state.places[from_];
    fill_halo(state.places[to_], state.bytes(to_));
    if (!in.has_positions()) {
      reduce_rows(state);
    } else if (dims_.first == 1) {
      for_each_row(in, state, [&](int64_t plane, int64_t y) { reduce_channels(state, plane, y); });
    } else {
      reduce_positions(state);
    }
  }
  bool takes_slice(size_t index, const Place& /*place*/) const override { return index == from_; }

 private:
  static constexpr int64_t kShort = 64;

  /// [outer, length, inner] -> [outer, inner]
  void reduce_rows(RunState& state) const {
    const Shape& shape = state.places[from_].shape;
    const auto first = shape.begin() + static_cast<int64_t>(dims_.first);
    const auto end = shape.begin() + static_cast<int64_t>(dims_.end);
    const int64_t length = element_count({first, end});
    const int64_t inner = element_count({end, shape.end()});
    const float* const from = state.values(from_);
    float* const to = state.values(to_);
    const int64_t outer = element_count({shape.begin(), first});
    if (inner == 1 && length <= kShort && reduction_.rows != nullptr) {
      ThreadPool::shared().run((outer + kShort - 1) / kShort, state.threads, [&](int64_t task) {
        const int64_t begin = task * kShort;
        reduce_short_rows(from + begin * length, length, std::min(kShort, outer - begin), to + begin);
      });
      return;
    }
    if (inner == 1) {
      const int64_t at_once = std::max<int64_t>(1, 4096 / length);
      ThreadPool::shared().run((outer + at_once - 1) / at_once, state.threads, [&](int64_t task) {
        for (int64_t i = task * at_once; i < std::min(outer, (task + 1) * at_once); ++i)
          to[i] = reduction_.row({from + i * length, static_cast<size_t>(length)});
      });
      return;
    }
    const auto result_of = [&](int64_t i) { return to + i * inner; };
    reduce_columns(state, outer, inner, result_of, [&](int64_t i) {
      std::vector<const float*> rows(static_cast<size_t>(length));
      for (int64_t row = 0; row < length; ++row)
        rows[static_cast<size_t>(row)] = from + (i * length + row) * inner;
      return rows;
    });
  }

  /// As columns, which vectors reduce at once.
  void reduce_short_rows(const float* from, int64_t length, int64_t count, float* to) const {
    float columns[kShort * kShort];
    const float* rows[kShort];
    channels_to_last(from, length, count, length, columns);
    for (int64_t i = 0; i < length; ++i) rows[i] = columns + i * count;
    reduction_.rows(rows, length, count, to);
  }

  void reduce_positions(RunState& state) const {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    const float* const from = state.values(from_);
    float* const to = state.values(to_);
    const auto result_of = [&](int64_t sample) {
      return to + (out.has_positions() ? out.at(sample, 0, 0, 0) : sample * in.channels());
    };
    reduce_columns(state, in.shape[0], in.channels(), result_of, [&](int64_t sample) {
      std::vector<const float*> rows;
      rows.reserve(static_cast<size_t>(in.depth() * in.height() * in.width()));
      for (int64_t z = 0; z < in.depth(); ++z) {
        for (int64_t y = 0; y < in.height(); ++y) {
          for (int64_t x = 0; x < in.width(); ++x) rows.push_back(from + in.at(sample, z, y, x));
        }
      }
      return rows;
    });
  }

  /// The rows `rows_of(i)`, of `columns` each, become that at `result_of(i)`.
  template <class ResultOf, class RowsOf>
  void reduce_columns(RunState& state, int64_t count, int64_t columns, const ResultOf& result_of,
                      const RowsOf& rows_of) const {
    constexpr int64_t kFew = 64;
    const int64_t at_once = state.threads > 1 ? kFew : columns;
    const int64_t parts = (columns + at_once - 1) / at_once;
    ThreadPool::shared().run(count * parts, state.threads, [&](int64_t task) {
      std::vector<const float*> rows = rows_of(task / parts);
      const int64_t first = task % parts * at_once;
      for (const float*& row : rows) row += first;
      reduction_.rows(rows.data(), std::ssize(rows), std::min(at_once, columns - first),
                      result_of(task / parts) + first);
    });
  }

  void reduce_channels(RunState& state, int64_t plane, int64_t y) const {
    const Place& in = state.places[from_];
    const float* from = state.values(from_) + in.at(plane, y, 0);
    float* const to = state.values(to_) + (plane * in.height() + y) * in.width();
    for (int64_t x = 0; x < in.width(); ++x, from += in.pitch())
      to[x] = reduction_.row({from, static_cast<size_t>(in.channels())});
  }

  RowReduction reduction_;
  ReducedDims dims_;
  size_t from_;
  size_t to_;
};

}  // namespace

std::unique_ptr<EngineStep> reduction_step(const RowReduction& reduction, ReducedDims dims, size_t from,
                                           size_t to) {
  return std::make_unique<ReductionStep>(reduction, dims, from, to);
}

}  // namespace detent
