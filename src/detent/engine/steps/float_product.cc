#include <algorithm>
#include <vector>

#include "detent/engine/step.h"
#include "detent/engine/steps/matrix_batch.h"
#include "detent/kernels/product.h"

namespace detent {
namespace {

int64_t padded(int64_t columns) {
  return (columns + FloatProduct::kPadding - 1) / FloatProduct::kPadding * FloatProduct::kPadding;
}

/// Whether rows of `b` can be read where they lie.
bool has_whole_rows(const StridedView& b) {
  return b.strides.back() == 1 && b.shape.back() % FloatProduct::kPadding == 0;
}

class FloatProductStep final : public EngineStep {
 public:
  explicit FloatProductStep(FloatProductLayer layer)
      : layer_(std::move(layer)), batch_(layer_.a.view, layer_.b.view) {
    const Shape& a = layer_.a.view.shape;
    rows_ = a[a.size() - 2];
    depth_ = a.back();
    columns_ = layer_.b.view.shape.back();
    multiplies_floats = true;
  }

  void run(RunState& state) const override {
    begin_rows(state);
    const int64_t blocks = (rows_ + kRows - 1) / kRows;
    const int64_t count = std::ssize(batch_.a) * blocks;
    const int64_t together =
        std::max<int64_t>(1, kProducts / (std::min(kRows, rows_) * depth_ * padded(columns_)));
    ThreadPool::shared().run((count + together - 1) / together, state.threads, [&](int64_t task) {
      for (int64_t i = task * together; i < std::min(count, (task + 1) * together); ++i) {
        const int64_t first = i % blocks * kRows;
        compute_rows(state, {i / blocks, first, std::min(kRows, rows_ - first), 0, nullptr, nullptr});
      }
    });
  }

  std::optional<size_t> row_results() const override {
    return layer_.is_turned ? std::nullopt : std::optional(layer_.output);
  }
  bool multiplies_rows() const override { return !layer_.is_turned; }
  bool maps_rows_of(size_t place, std::span<const Place> places) const override {
    return !layer_.is_turned && layer_.a.place == place && layer_.b.place != place &&
           batch_.takes_each_of(layer_.a.view, places[place].shape);
  }
  void begin_rows(RunState& state) const override {
    if (layer_.scratch) pack_matrices(state);
  }
  bool compute_rows(RunState& state, const MatrixRows& rows) const override {
    const StridedView& a = layer_.a.view;
    const int64_t a_row = a.strides[a.strides.size() - 2];
    const float* const lying =
        state.values(layer_.a.place) + batch_.a[static_cast<size_t>(rows.matrix)] + rows.first * a_row;
    float* const place = state.values(layer_.output) + (rows.matrix * rows_ + rows.first) * columns_;
    multiply(state, rows.matrix, rows.from_or(lying), rows.count, rows.to_or(place));
    return false;
  }

 private:
  static constexpr int64_t kRows = 48;            // of a matrix at once
  static constexpr int64_t kProducts = 32 << 10;  // of a task, from small matrices
  static constexpr int64_t kDepth = 128;          // of a part of `b` that stays in the first-level cache

  /// Rows of `kTile` columns at a time: what is read along a column and written along a row stays near.
  void pack_matrices(RunState& state) const {
    constexpr int64_t kTile = 16;
    const StridedView& view = layer_.b.view;
    const int64_t row = view.strides[view.strides.size() - 2];
    const int64_t column = view.strides.back();
    const int64_t width = padded(columns_);
    const int64_t tiles = width / kTile;
    ThreadPool::shared().run(std::ssize(batch_.packed) * tiles, state.threads, [&](int64_t task) {
      const int64_t matrix = task / tiles;
      const int64_t first = task % tiles * kTile;
      const int64_t count = std::clamp<int64_t>(columns_ - first, 0, kTile);
      const float* const from =
          state.values(layer_.b.place) + batch_.packed[static_cast<size_t>(matrix)] + first * column;
      float* const to = state.values(*layer_.scratch) + matrix * depth_ * width + first;
      for (int64_t k = 0; k < depth_; ++k) {
        for (int64_t i = 0; i < count; ++i) to[k * width + i] = from[k * row + i * column];
        std::fill_n(to + k * width + count, kTile - count, 0.0F);
      }
    });
  }

  /// Rows of a matrix, and their results.
  void multiply(RunState& state, int64_t matrix, const float* left, int64_t count, float* result) const {
    const StridedView& a = layer_.a.view;
    const StridedView& b = layer_.b.view;
    const int64_t a_row = a.strides[a.strides.size() - 2];
    const int64_t a_column = a.strides.back();
    const auto index = static_cast<size_t>(matrix);
    const auto right = static_cast<size_t>(batch_.b[index]);
    const int64_t width = padded(columns_);
    const float* const packed = layer_.scratch
                                    ? state.values(*layer_.scratch) + batch_.b[index] * depth_ * width
                                    : state.values(layer_.b.place) + batch_.packed[right];
    const int64_t b_row = layer_.scratch ? width : b.strides[b.strides.size() - 2];
    thread_local std::vector<float> sums;
    const bool is_whole = width == columns_;
    if (!is_whole) sums.resize(std::max(sums.size(), static_cast<size_t>(count * width)));
    float* const to = is_whole ? result : sums.data();
    std::fill_n(to, count * width, 0.0F);
    for (int64_t k = 0; k < depth_; k += kDepth) {
      add_product({.a = left + k * a_column,
                   .a_row = a_row,
                   .a_column = a_column,
                   .b = packed + k * b_row,
                   .b_stride = b_row,
                   .c = to,
                   .c_stride = width,
                   .rows = count,
                   .depth = std::min(kDepth, depth_ - k),
                   .column_begin = 0,
                   .column_end = width});
    }
    if (is_whole) return;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t column = 0; column < columns_; ++column)
        result[i * columns_ + column] = to[i * width + column];
    }
  }

  FloatProductLayer layer_;
  MatrixBatch batch_;
  int64_t rows_, depth_, columns_;
};

MatrixOperand transposed(MatrixOperand matrices) {
  const size_t rank = matrices.view.shape.size();
  std::swap(matrices.view.shape[rank - 2], matrices.view.shape[rank - 1]);
  std::swap(matrices.view.strides[rank - 2], matrices.view.strides[rank - 1]);
  return matrices;
}

}  // namespace

FloatProductLayer turned(FloatProductLayer layer) {
  constexpr int64_t kLeastRows = 8;
  constexpr int64_t kLeastColumns = 4;  // that meet a matrix, which is brought into another order once
  const Shape& a = layer.a.view.shape;
  if (layer.b.view.shape.back() != 1 || a[a.size() - 2] < kLeastRows) return layer;
  const MatrixOperand rows = transposed(layer.b);
  const MatrixOperand matrices = transposed(layer.a);
  const MatrixBatch batch(rows.view, matrices.view);
  if (std::ssize(batch.a) < kLeastColumns * std::ssize(batch.packed)) return layer;
  layer.a = rows;
  layer.b = matrices;
  layer.is_turned = true;
  return layer;
}

int64_t float_product_scratch_bytes(const StridedView& b) {
  if (has_whole_rows(b)) return 0;
  const int64_t depth = b.shape[b.shape.size() - 2];
  return element_count(MatrixBatch::batch_of(b).shape) * depth * padded(b.shape.back()) *
         int64_t{sizeof(float)};
}

std::unique_ptr<EngineStep> float_product_step(FloatProductLayer layer) {
  return std::make_unique<FloatProductStep>(std::move(layer));
}

}  // namespace detent
