#include "detent/runtime/code_sums.h"

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// y[row, o] = bias[o] + sum_i x[row, i] w[o, i]
Tensor linear_sums(const SumForm& form, const Tensor& codes) {
  const int64_t in = form.weight.dim(1);
  const int64_t out = form.weight.dim(0);
  Shape shape = codes.shape();
  shape.back() = out;
  Tensor result(DType::kInt32, std::move(shape));
  const auto x = codes.values<int32_t>();
  const auto w = form.weight.values<int32_t>();
  const auto y = result.values<int32_t>();
  parallel_for(result.numel(), 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i / out;
      const int64_t o = i % out;
      int32_t sum = form.bias[static_cast<size_t>(o)];
      for (int64_t k = 0; k < in; ++k) {
        sum += (x[static_cast<size_t>(row * in + k)] - form.input.zero_point) *
               w[static_cast<size_t>(o * in + k)];
      }
      y[static_cast<size_t>(i)] = sum;
    }
  });
  return result;
}

/// One spatial dimension of a convolution: window positions lie at o * stride - padding + k * dilation.
struct SpatialDim {
  int64_t in, kernel, out;                 // sizes
  int64_t in_step, kernel_step, out_step;  // elements from one index to the next
  int64_t stride, padding, dilation;

  /// Where tap `k` of window `o` lies among `size` positions; -1 outside.
  int64_t at(int64_t o, int64_t k, int64_t size) const {
    const int64_t position = o * stride - padding + k * dilation;
    return position >= 0 && position < size ? position : -1;
  }
};

/// A convolution over [N, C, ...], of any number of spatial dimensions.
struct Convolution {
  int64_t groups;
  Shape input, weight, output;
  std::vector<SpatialDim> dims;

  int64_t taps() const { return element_count({weight.begin() + 2, weight.end()}); }
  int64_t input_plane() const { return element_count({input.begin() + 2, input.end()}); }
  int64_t output_plane() const { return element_count({output.begin() + 2, output.end()}); }
};

/// Of a transposed one, windows are positions of the input, and taps fall on the result.
Convolution convolution_of(const SumForm& form, const Node& node, const Shape& input, const Shape& output) {
  Convolution conv{integer_attribute(node, "groups"), input, form.weight.shape(), output, {}};
  const size_t dims = input.size() - 2;
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  const auto in_steps = StridedView::of(conv.input).strides;
  const auto kernel_steps = StridedView::of(conv.weight).strides;
  const auto out_steps = StridedView::of(conv.output).strides;
  for (size_t i = 0; i < dims; ++i) {
    const size_t d = i + 2;
    conv.dims.push_back({conv.input[d], conv.weight[d], conv.output[d], in_steps[d], kernel_steps[d],
                         out_steps[d], stride[i], padding[i], dilation[i]});
  }
  return conv;
}

/// Sum of x * w over the window at `position`, for one channel; positions outside count 0.
int32_t window_sum(std::span<const SpatialDim> dims, const int64_t* position, const int32_t* x,
                   const int32_t* w, int32_t zero_point) {
  const SpatialDim& dim = dims[0];
  int32_t sum = 0;
  for (int64_t k = 0; k < dim.kernel; ++k) {
    const int64_t at = dim.at(position[0], k, dim.in);
    if (at < 0) continue;
    if (dims.size() == 1) {
      sum += (x[at] - zero_point) * w[k];
    } else {
      sum += window_sum(dims.subspan(1), position + 1, x + at * dim.in_step, w + k * dim.kernel_step,
                        zero_point);
    }
  }
  return sum;
}

/// The sums of output channel `o` of sample `n`, one after the other.
void sum_plane(const SumForm& form, const Convolution& conv, std::span<const int32_t> x, int64_t n, int64_t o,
               int32_t* sums) {
  const int64_t per_group = conv.weight[1];
  const int64_t first = o / (conv.weight[0] / conv.groups) * per_group;
  const int32_t* const image = x.data() + (n * conv.input[1] + first) * conv.input_plane();
  const int32_t* const w = form.weight.values<int32_t>().data() + o * per_group * conv.taps();
  std::vector<int64_t> position(conv.dims.size());
  for (int64_t i = 0; i < conv.output_plane(); ++i) {
    for (size_t d = 0; d < position.size(); ++d) {
      position[d] = i / conv.dims[d].out_step % conv.dims[d].out;
    }
    int32_t sum = form.bias[static_cast<size_t>(o)];
    for (int64_t c = 0; c < per_group; ++c) {
      sum += window_sum(conv.dims, position.data(), image + c * conv.input_plane(), w + c * conv.taps(),
                        form.input.zero_point);
    }
    sums[i] = sum;
  }
}

Tensor convolution_sums(const SumForm& form, const Convolution& conv, const Tensor& codes) {
  Tensor result(DType::kInt32, conv.output);
  const auto x = codes.values<int32_t>();
  int32_t* const sums = result.values<int32_t>().data();
  parallel_for(conv.output[0] * conv.output[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      sum_plane(form, conv, x, plane / conv.output[1], plane % conv.output[1],
                sums + plane * conv.output_plane());
    }
  });
  return result;
}

/// Adds x * w of one channel of the input to the sums of one channel of the result.
void scatter(std::span<const SpatialDim> dims, const int32_t* x, const int32_t* w, int32_t* sums,
             int32_t zero_point) {
  const SpatialDim& dim = dims[0];
  for (int64_t i = 0; i < dim.in; ++i) {
    for (int64_t k = 0; k < dim.kernel; ++k) {
      const int64_t to = dim.at(i, k, dim.out);
      if (to < 0) continue;
      if (dims.size() == 1) {
        sums[to] += (x[i] - zero_point) * w[k];
      } else {
        scatter(dims.subspan(1), x + i * dim.in_step, w + k * dim.kernel_step, sums + to * dim.out_step,
                zero_point);
      }
    }
  }
}

Tensor transposed_sums(const SumForm& form, const Convolution& conv, const Tensor& codes) {
  Tensor result(DType::kInt32, conv.output);
  const int32_t* const x = codes.values<int32_t>().data();
  const int32_t* const w = form.weight.values<int32_t>().data();
  const auto sums = result.values<int32_t>();
  const int64_t channels = conv.output[1];
  for (int64_t i = 0; i < result.numel(); ++i) {
    sums[static_cast<size_t>(i)] = form.bias[static_cast<size_t>(i / conv.output_plane() % channels)];
  }
  const int64_t per_group = conv.weight[1];
  for (int64_t n = 0; n < conv.input[0]; ++n) {
    for (int64_t c = 0; c < conv.input[1]; ++c) {
      const int64_t first = c / (conv.weight[0] / conv.groups) * per_group;
      for (int64_t o = 0; o < per_group; ++o) {
        scatter(conv.dims, x + (n * conv.input[1] + c) * conv.input_plane(),
                w + (c * per_group + o) * conv.taps(),
                sums.data() + (n * channels + first + o) * conv.output_plane(), form.input.zero_point);
      }
    }
  }
  return result;
}

}  // namespace

Tensor code_sums(const SumForm& form, const Node& node, const Tensor& codes) {
  const auto* sum = trait<WeightedSum>(node);
  DETENT_CHECK(sum != nullptr, "sums of {}", node.op);
  if (sum->spatial_dims == 0) return linear_sums(form, codes);
  const Operand inputs[] = {Operand{codes.shape(), Value()}};
  const Shape shape = find_operator(node.op).infer(node, inputs).shape;
  const Convolution conv = convolution_of(form, node, codes.shape(), shape);
  return sum->transposed ? transposed_sums(form, conv, codes) : convolution_sums(form, conv, codes);
}

}  // namespace detent
