#include "detent/float32/packed_linear.h"

#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/core/product.h"

namespace detent {
namespace {

/// Outputs of a panel, whose weights then follow each other in memory: three vectors of sixteen, as
/// add_product computes together.
constexpr int64_t kPanel = 3 * FloatProduct::kPadding;
/// Products that are worth a thread.
constexpr int64_t kSplit = int64_t{1} << 21;

}  // namespace

PackedLinear::PackedLinear(const Tensor& weight, const std::optional<Tensor>& bias)
    : depth_(weight.dim(1)),
      stride_((weight.dim(0) + FloatProduct::kPadding - 1) / FloatProduct::kPadding * FloatProduct::kPadding),
      weights_(static_cast<size_t>(stride_ * depth_)),
      bias_(static_cast<size_t>(stride_), -0.0F) {
  if (bias) std::ranges::copy(bias->values<float>(), bias_.begin());
  const float* const from = weight.values<float>().data();
  for (int64_t first = 0; first < weight.dim(0); first += kPanel) {
    const int64_t width = std::min(kPanel, stride_ - first);
    const int64_t count = std::min(width, weight.dim(0) - first);
    float* to = weights_.data() + first * depth_;
    for (int64_t k = 0; k < depth_; ++k, to += width) {
      for (int64_t i = 0; i < count; ++i) to[i] = from[(first + i) * depth_ + k];
    }
  }
}

void PackedLinear::panel_sums(int64_t first, const float* inputs, int64_t rows, float* results) const {
  const int64_t width = std::min(kPanel, stride_ - first);
  for (int64_t row = 0; row < rows; ++row) std::fill_n(results + row * stride_ + first, width, 0.0F);
  add_product({.a = inputs,
               .a_row = depth_,
               .a_column = 1,
               .b = weights_.data() + first * depth_,
               .b_stride = width,
               .c = results + first,
               .c_stride = stride_,
               .rows = rows,
               .depth = depth_,
               .column_begin = 0,
               .column_end = width});
  for (int64_t row = 0; row < rows; ++row) {
    float* const to = results + row * stride_ + first;
    for (int64_t i = 0; i < width; ++i) to[i] += bias_[static_cast<size_t>(first + i)];
  }
}

void PackedLinear::sums(const float* inputs, int64_t rows, float* results) const {
  const int64_t panels = (stride_ + kPanel - 1) / kPanel;
  const int64_t grain = std::max<int64_t>(1, kSplit / std::max<int64_t>(1, rows * depth_ * kPanel));
  parallel_for(panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) panel_sums(panel * kPanel, inputs, rows, results);
  });
}

}  // namespace detent
