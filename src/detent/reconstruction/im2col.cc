#include "detent/reconstruction/im2col.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

constexpr int64_t kPadded = -1;

}  // namespace

bool Im2Col::exist_for(const Node& node) {
  const auto* sum = trait<WeightedSum>(node);
  return sum != nullptr && !sum->transposed;
}

Im2Col::Im2Col(const Node& node, const std::string& where) {
  if (!exist_for(node)) {
    fail("{}: node \"{}\": got the operator {}, expected a linear layer or a convolution, not transposed",
         where, node.name, node.op);
  }
  const Shape& weight = node.find_parameter("weight")->tensor.shape();
  rows_ = weight[0];
  channels_ = weight[1];
  const size_t dims = trait<WeightedSum>(node)->spatial_dims;
  convolves_ = dims > 0;
  if (!convolves_) return;
  groups_ = integer_attribute(node, "groups");
  kernel_ = StridedView::of({weight.begin() + 2, weight.end()});
  stride_ = integers_attribute(node, "stride", dims);
  padding_ = integers_attribute(node, "padding", dims);
  dilation_ = integers_attribute(node, "dilation", dims);
}

/// How many places the window takes, in each spatial dimension.
Shape Im2Col::positions(const Shape& input) const {
  Shape counts;
  for (size_t d = 0; d < kernel_.shape.size(); ++d) {
    const int64_t span = input[d + 2] + 2 * padding_[d] - dilation_[d] * (kernel_.shape[d] - 1) - 1;
    counts.push_back(span / stride_[d] + 1);
  }
  return counts;
}

int64_t Im2Col::count(const Shape& input) const {
  return convolves_ ? input[0] * element_count(positions(input)) : element_count(input) / channels_;
}

/// Where each tap of the window at `position` lies in a plane of the input; kPadded in its padding.
void Im2Col::find_taps(const StridedView& plane, const Shape& position, std::vector<int64_t>& taps) const {
  taps.assign(1, 0);
  for (size_t d = 0; d < kernel_.shape.size(); ++d) {
    const size_t before = taps.size();
    const auto width = static_cast<size_t>(kernel_.shape[d]);
    const int64_t begin = position[d] * stride_[d] - padding_[d];
    taps.resize(before * width);
    for (size_t i = taps.size(); i-- > 0;) {
      const int64_t outer = taps[i / width];
      const int64_t at = begin + static_cast<int64_t>(i % width) * dilation_[d];
      const bool is_padded = outer == kPadded || at < 0 || at >= plane.shape[d];
      taps[i] = is_padded ? kPadded : outer + at * plane.strides[d];
    }
  }
}

void Im2Col::copy(const Tensor& input, int64_t group, int64_t begin, int64_t end,
                  Matrix<float>& target) const {
  DETENT_CHECK(end - begin <= target.rows() && target.columns() == length(), "{} rows", end - begin);
  const float* values = input.values<float>().data();
  constexpr int64_t kGrain = 64;
  if (!convolves_) {
    for (int64_t p = begin; p < end; ++p)
      std::copy_n(values + p * channels_, channels_, target.row(p - begin));
    return;
  }
  const Shape counts = positions(input.shape());
  const int64_t per_sample = element_count(counts);
  const StridedView plane = StridedView::of({input.shape().begin() + 2, input.shape().end()});
  const int64_t plane_size = element_count(plane.shape);
  parallel_for(end - begin, kGrain, [&](int64_t first, int64_t last) {
    Shape position(counts.size());
    std::vector<int64_t> taps;
    for (int64_t p = first; p < last; ++p) {
      const int64_t sample = (begin + p) / per_sample;
      int64_t rest = (begin + p) % per_sample;
      for (size_t d = counts.size(); d-- > 0; rest /= counts[d]) position[d] = rest % counts[d];
      find_taps(plane, position, taps);
      const float* image = values + (sample * groups_ + group) * channels_ * plane_size;
      float* row = target.row(p);
      for (int64_t c = 0; c < channels_; ++c, image += plane_size) {
        for (const int64_t tap : taps) *row++ = tap == kPadded ? 0.0F : image[tap];
      }
    }
  });
}

}  // namespace detent
