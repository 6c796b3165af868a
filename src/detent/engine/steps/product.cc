#include <algorithm>
#include <numeric>

#include "detent/engine/step.h"
#include "detent/engine/steps/matrix_batch.h"

namespace detent {
namespace {

int64_t multiple(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

/// Columns that one call multiplies with.
struct ColumnGroup {
  int64_t first_block;
  int64_t blocks;
  int64_t columns;
};

/// sum = sum_k (a - za) (b - zb). The second operand's bytes become signed ones, w = b - middle, as kernels
/// take weights, so with zw = zb - middle
///
///     sum = sum_k a w  -  za sum_k w + depth za zw  -  zw sum_k a
///
/// of which the middle belongs to a column, and the last to a row. All of it modulo 2^32: the sum fits.
class ProductStep final : public EngineStep {
 public:
  explicit ProductStep(MatrixProductLayer layer)
      : layer_(std::move(layer)), batch_(layer_.a.view, layer_.b.view) {
    const Shape& a = layer_.a.view.shape;
    const Shape& b = layer_.b.view.shape;
    rows_ = a[a.size() - 2];
    depth_ = a.back();
    columns_ = b.back();
    steps_ = multiple(depth_, kStepInputs) / kStepInputs;
    blocks_ = multiple(columns_, kBlockOutputs) / kBlockOutputs;
    note_groups();
    const ProductForm& form = layer_.form;
    zero_a_ = form.a.zero_point - form.a.low;
    middle_ = std::clamp(form.b.zero_point - form.b.low, std::max(form.b.size() - 128, 0), 128);
    zero_w_ = form.b.zero_point - form.b.low - middle_;
    note_finish();
  }

  void prepare(std::span<const Place> places) override {
    result_matrix_ = rows_ * columns_ * (places[layer_.output].is_values ? 4 : 1);
  }

  void run(RunState& state) const override {
    begin_rows(state);
    const auto batch = std::ssize(batch_.a);
    const int64_t wanted = state.threads > 1 ? 4 * int64_t{state.threads} : 1;
    const int64_t tiles = std::max((rows_ + kMostRows - 1) / kMostRows,
                                   std::min((wanted + batch - 1) / batch, (rows_ + kFewRows - 1) / kFewRows));
    const int64_t at_once = (rows_ + tiles - 1) / tiles;
    ThreadPool::shared().run(batch * tiles, state.threads, [&](int64_t task) {
      const int64_t first = task % tiles * at_once;
      compute_rows(state, {task / tiles, first, std::min(at_once, rows_ - first), 0, nullptr, nullptr});
    });
  }

  std::optional<size_t> row_results() const override { return layer_.output; }
  bool multiplies_rows() const override { return true; }
  bool maps_rows_of(size_t place, std::span<const Place> places) const override {
    return layer_.a.place == place && layer_.b.place != place &&
           batch_.takes_each_of(layer_.a.view, places[place].shape);
  }
  void begin_rows(RunState& state) const override {
    uint8_t* const scratch = state.bytes(layer_.scratch);
    const auto groups = std::ssize(groups_);
    ThreadPool::shared().run(std::ssize(batch_.packed) * groups, state.threads, [&](int64_t task) {
      pack(state, task / groups, groups_[static_cast<size_t>(task % groups)], scratch);
    });
  }
  /// At most kMostRows.
  bool compute_rows(RunState& state, const MatrixRows& rows) const override {
    const StridedView& view = layer_.a.view;
    const int64_t row = view.strides[view.strides.size() - 2];
    const int64_t element = finish_.gives_values ? 4 : 1;
    const uint8_t* const lying =
        state.bytes(layer_.a.place) + batch_.a[static_cast<size_t>(rows.matrix)] + rows.first * row;
    std::byte* const place = reinterpret_cast<std::byte*>(state.bytes(layer_.output)) +
                             rows.matrix * result_matrix_ + rows.first * columns_ * element;
    multiply(state, rows.matrix, rows.from_or(lying), rows.count, rows.to_or(place));
    return false;
  }

  static int64_t scratch_bytes(const StridedView& b) {
    const int64_t depth = b.shape[b.shape.size() - 2];
    const int64_t blocks = multiple(b.shape.back(), kBlockOutputs) / kBlockOutputs;
    const int64_t matrix = blocks * (multiple(depth, kStepInputs) * kBlockOutputs + kStartBytes);
    return matrix * element_count(MatrixBatch::batch_of(b).shape);
  }

 private:
  static constexpr int64_t kMostRows = 96;  // of a task
  static constexpr int64_t kFewRows = 24;
  static constexpr int64_t kMostColumns = 4 * kBlockOutputs;  // of a group
  static constexpr int64_t kStartBytes = 4 * kBlockOutputs;   // of a block

  void note_groups() {
    const int64_t most = layer_.kernels->most_blocks;
    const int64_t parts = (blocks_ + most - 1) / most;
    for (int64_t part = 0, block = 0; part < parts; ++part) {
      const int64_t blocks = (blocks_ - block + parts - part - 1) / (parts - part);
      groups_.push_back({block, blocks, std::min(blocks * kBlockOutputs, columns_ - block * kBlockOutputs)});
      block += blocks;
    }
  }

  void note_finish() {
    const ProductForm& form = layer_.form;
    if (form.output) finish_ = finish_for(*form.output);
    finish_.gives_values = !form.output;
    if (form.fixed) {
      fixed_.assign(kMostColumns, *form.fixed);
      finish_.fixed = fixed_.data();
      return;
    }
    float factor = form.output ? form.multiplier : form.scale;
    if (form.output && form.output->is_sign) factor = 2;  // signs are -2 and 0 steps
    multiplier_.assign(kMostColumns, factor);
    finish_.multiplier = multiplier_.data();
    const double most = static_cast<double>(form.largest_product) * static_cast<double>(depth_);
    finish_.cuts_bytes = form.output && most * static_cast<double>(factor) < 0x1p30;
  }

  int64_t matrix_bytes() const { return blocks_ * steps_ * kBlockBytes; }
  int8_t* packed(uint8_t* scratch, int64_t matrix, int64_t block) const {
    return reinterpret_cast<int8_t*>(scratch) + matrix * matrix_bytes() + block * steps_ * kBlockBytes;
  }
  int32_t* start(uint8_t* scratch, int64_t matrix, int64_t block) const {
    uint8_t* after = scratch + std::ssize(batch_.packed) * matrix_bytes();
    return reinterpret_cast<int32_t*>(after) + (matrix * blocks_ + block) * kBlockOutputs;
  }

  /// Some columns of a matrix, and what their sums begin with.
  void pack(RunState& state, int64_t matrix, const ColumnGroup& group, uint8_t* scratch) const {
    const StridedView& view = layer_.b.view;
    const int64_t row = view.strides[view.strides.size() - 2];
    const int64_t column = view.strides.back();
    int8_t* const to = packed(scratch, matrix, group.first_block);
    layer_.kernels->pack_columns({.bytes = state.bytes(layer_.b.place) +
                                           batch_.packed[static_cast<size_t>(matrix)] +
                                           group.first_block * kBlockOutputs * column,
                                  .row = row,
                                  .column = column,
                                  .depth = depth_,
                                  .columns = group.columns,
                                  .middle = static_cast<uint8_t>(middle_),
                                  .blocks = group.blocks,
                                  .to = to});
    const std::span<int32_t> sums(start(scratch, matrix, group.first_block),
                                  static_cast<size_t>(group.blocks * kBlockOutputs));
    std::ranges::fill(sums, 0);
    if (zero_a_ != 0) {
      const std::vector<uint8_t> zeros(static_cast<size_t>(steps_ * kStepInputs),
                                       static_cast<uint8_t>(zero_a_));
      const uint8_t* const window = zeros.data();
      std::byte* const nowhere = nullptr;
      WindowSums product = window_sums(group, to, sums.data());
      product.windows = &window;
      product.results = &nowhere;
      product.count = 1;
      product.sums_after = sums.data();
      layer_.kernels->add_windows(product);
    }
    const uint32_t both =
        static_cast<uint32_t>(depth_) * static_cast<uint32_t>(zero_a_) * static_cast<uint32_t>(zero_w_);
    for (int32_t& sum : sums) sum = static_cast<int32_t>(both - static_cast<uint32_t>(sum));
  }

  WindowSums window_sums(const ColumnGroup& group, const int8_t* weights, const int32_t* start) const {
    static constexpr int64_t kRun = 0;
    return {.windows = nullptr,
            .results = nullptr,
            .result_offset = 0,
            .count = 0,
            .runs = &kRun,
            .run_count = 1,
            .run_steps = steps_,
            .weights = weights,
            .blocks = group.blocks,
            .outputs = group.columns,
            .start = start,
            .finish = finish_,
            .next = nullptr,
            .next_bytes = 0};
  }

  /// Rows of a matrix, and their results.
  void multiply(RunState& state, int64_t matrix, const uint8_t* a, int64_t count, std::byte* result) const {
    uint8_t* const scratch = state.bytes(layer_.scratch);
    const StridedView& view = layer_.a.view;
    const int64_t row = view.strides[view.strides.size() - 2];
    const int64_t element = finish_.gives_values ? 4 : 1;
    const uint8_t* windows[kMostRows];
    std::byte* results[kMostRows];
    uint32_t of_rows[kMostRows];
    for (int64_t i = 0; i < count; ++i) {
      windows[i] = a + i * row;
      results[i] = result + i * columns_ * element;
      if (zero_w_ == 0) continue;
      of_rows[i] = static_cast<uint32_t>(std::accumulate(windows[i], windows[i] + depth_, int32_t{0})) *
                   static_cast<uint32_t>(zero_w_);
    }
    const int64_t b = batch_.b[static_cast<size_t>(matrix)];
    std::vector<int32_t> before(zero_w_ == 0 ? 0 : static_cast<size_t>(count * kMostColumns));
    for (const ColumnGroup& group : groups_) {
      const int32_t* begin = start(scratch, b, group.first_block);
      WindowSums product = window_sums(group, packed(scratch, b, group.first_block), begin);
      product.windows = windows;
      product.results = results;
      product.result_offset = group.first_block * kBlockOutputs * element;
      product.count = count;
      if (zero_w_ != 0) {
        const int64_t width = group.blocks * kBlockOutputs;
        for (int64_t i = 0; i < count; ++i) {
          for (int64_t o = 0; o < width; ++o)
            before[static_cast<size_t>(i * width + o)] =
                static_cast<int32_t>(static_cast<uint32_t>(begin[o]) - of_rows[i]);
        }
        product.sums_before = before.data();
      }
      layer_.kernels->add_windows(product);
    }
  }

  MatrixProductLayer layer_;
  int64_t rows_, depth_, columns_;
  int64_t steps_, blocks_;
  MatrixBatch batch_;
  std::vector<ColumnGroup> groups_;
  int32_t zero_a_, middle_, zero_w_;
  std::vector<float> multiplier_;
  std::vector<FixedMultiplier> fixed_;
  SumFinish finish_;
  int64_t result_matrix_ = 0;  // bytes
};

}  // namespace

int64_t product_scratch_bytes(const StridedView& b) { return ProductStep::scratch_bytes(b); }

std::unique_ptr<EngineStep> product_step(MatrixProductLayer layer) {
  return std::make_unique<ProductStep>(std::move(layer));
}

}  // namespace detent
