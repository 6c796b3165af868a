#include "detent/reconstruction/im2col.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"

namespace detent {

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

/// Copies the window at `position`, from dimension `dim` on. of one channel.
void Im2Col::copy_window(const float* plane, const StridedView& input, const int64_t* position, size_t dim,
                         float* target) const {
  const bool is_last = dim + 1 == kernel_.shape.size();
  const int64_t begin = position[dim] * stride_[dim] - padding_[dim];
  const int64_t taps = kernel_.strides[dim];
  for (int64_t k = 0; k < kernel_.shape[dim]; ++k, target += taps) {
    const int64_t at = begin + k * dilation_[dim];
    if (at < 0 || at >= input.shape[dim]) {
      std::fill_n(target, taps, 0.0F);
    } else if (is_last) {
      *target = plane[at];
    } else {
      copy_window(plane + at * input.strides[dim], input, position, dim + 1, target);
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
    std::vector<int64_t> position(counts.size());
    for (int64_t p = first; p < last; ++p) {
      const int64_t sample = (begin + p) / per_sample;
      int64_t rest = (begin + p) % per_sample;
      for (size_t d = counts.size(); d-- > 0; rest /= counts[d]) position[d] = rest % counts[d];
      const float* image = values + (sample * groups_ + group) * channels_ * plane_size;
      float* row = target.row(p);
      for (int64_t c = 0; c < channels_; ++c, image += plane_size, row += element_count(kernel_.shape)) {
        copy_window(image, plane, position.data(), 0, row);
      }
    }
  });
}

}  // namespace detent
