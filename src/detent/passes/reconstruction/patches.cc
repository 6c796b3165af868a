#include "detent/passes/reconstruction/patches.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"

namespace detent {

bool Patches::exist_for(const Node& node) {
  return node.op == "linear" || node.op == "conv1d" || node.op == "conv2d";
}

Patches::Patches(const Node& node, const std::string& where) {
  if (!exist_for(node)) {
    fail("{}: node \"{}\": got the operator {}, expected linear, conv1d or conv2d", where, node.name,
         node.op);
  }
  const Shape& weight = node.find_parameter("weight")->tensor.shape();
  rows_ = weight[0];
  channels_ = weight[1];
  convolves_ = node.op != "linear";
  if (!convolves_) return;
  groups_ = integer_attribute(node, "groups");
  const size_t dims = weight.size() - 2;  // one dimension is the second of two
  const auto read = [&](const char* name, int64_t* values) {
    std::ranges::copy(integers_attribute(node, name, dims), values + 2 - dims);
  };
  std::copy(weight.begin() + 2, weight.end(), kernel_ + 2 - dims);
  read("stride", stride_);
  read("padding", padding_);
  read("dilation", dilation_);
}

Patches::Window Patches::window(const Shape& input) const {
  const int64_t height = input.size() == 4 ? input[2] : 1;
  const int64_t width = input.back();
  const auto positions = [&](int64_t size, int dim) {
    return (size + 2 * padding_[dim] - dilation_[dim] * (kernel_[dim] - 1) - 1) / stride_[dim] + 1;
  };
  return {height, width, positions(height, 0), positions(width, 1)};
}

int64_t Patches::count(const Shape& input) const {
  if (!convolves_) return element_count(input) / channels_;
  const Window w = window(input);
  return input[0] * w.out_height * w.out_width;
}

void Patches::copy_patch(const float* image, const Window& window, int64_t y, int64_t x,
                         float* target) const {
  for (int64_t c = 0; c < channels_; ++c, image += window.height * window.width) {
    for (int64_t i = 0; i < kernel_[0]; ++i, target += kernel_[1]) {
      const int64_t row = y * stride_[0] - padding_[0] + i * dilation_[0];
      const bool inside = row >= 0 && row < window.height;
      for (int64_t j = 0; j < kernel_[1]; ++j) {
        const int64_t column = x * stride_[1] - padding_[1] + j * dilation_[1];
        target[j] =
            inside && column >= 0 && column < window.width ? image[row * window.width + column] : 0.0F;
      }
    }
  }
}

void Patches::copy(const Tensor& input, int64_t group, int64_t begin, int64_t end,
                   Matrix<float>& target) const {
  DETENT_CHECK(end - begin <= target.rows() && target.columns() == length(), "{} patches", end - begin);
  const float* values = input.values<float>().data();
  constexpr int64_t kGrain = 64;
  if (!convolves_) {
    for (int64_t p = begin; p < end; ++p)
      std::copy_n(values + p * channels_, channels_, target.row(p - begin));
    return;
  }
  const Window w = window(input.shape());
  const int64_t positions = w.out_height * w.out_width;
  const int64_t image = channels_ * w.height * w.width;
  parallel_for(end - begin, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const int64_t sample = (begin + p) / positions;
      const int64_t position = (begin + p) % positions;
      copy_patch(values + (sample * groups_ + group) * image, w, position / w.out_width,
                 position % w.out_width, target.row(p));
    }
  });
}

}  // namespace detent
