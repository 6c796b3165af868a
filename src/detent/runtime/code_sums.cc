#include "detent/runtime/code_sums.h"

#include <algorithm>

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

/// One spatial dimension of a convolution. Tap k of window o lies at o * stride - padding + k * dilation, of
/// the input; of a transposed convolution, whose windows are the elements of the input, of the result.
struct SpatialDim {
  int64_t windows, kernel, positions;
  int64_t in_step, kernel_step, out_step;  // elements from one index to the next
  int64_t stride, padding, dilation;
};

/// A convolution over [N, C, ...], of any number of spatial dimensions.
struct Convolution {
  bool transposed;
  int64_t groups;
  Shape input, weight, output;
  std::vector<SpatialDim> dims;

  int64_t taps() const { return element_count({weight.begin() + 2, weight.end()}); }
  int64_t input_plane() const { return element_count({input.begin() + 2, input.end()}); }
  int64_t output_plane() const { return element_count({output.begin() + 2, output.end()}); }
};

Convolution convolution_of(const SumForm& form, const Node& node, const Shape& input, const Shape& output) {
  const bool transposed = trait<WeightedSum>(node)->transposed;
  Convolution conv{transposed, integer_attribute(node, "groups"), input, form.weight.shape(), output, {}};
  const size_t dims = input.size() - 2;
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  const auto in_steps = StridedView::of(conv.input).strides;
  const auto kernel_steps = StridedView::of(conv.weight).strides;
  const auto out_steps = StridedView::of(conv.output).strides;
  for (size_t i = 0; i < dims; ++i) {
    const size_t d = i + 2;
    const int64_t windows = transposed ? input[d] : output[d];
    const int64_t positions = transposed ? output[d] : input[d];
    conv.dims.push_back({windows, conv.weight[d], positions, in_steps[d], kernel_steps[d], out_steps[d],
                         stride[i], padding[i], dilation[i]});
  }
  return conv;
}

/// Adds x * w of one channel of the input to the sums of one channel of the result; positions outside count
/// 0.
template <bool kTransposed>
void add_channel(std::span<const SpatialDim> dims, const int32_t* x, const int32_t* w, int32_t* sums,
                 int32_t zero_point) {
  const SpatialDim& dim = dims[0];
  for (int64_t k = 0; k < dim.kernel; ++k) {
    for (int64_t o = 0; o < dim.windows; ++o) {
      const int64_t at = o * dim.stride - dim.padding + k * dim.dilation;
      if (at < 0 || at >= dim.positions) continue;
      const int64_t read = kTransposed ? o : at;
      const int64_t written = kTransposed ? at : o;
      if (dims.size() == 1) {
        sums[written] += (x[read] - zero_point) * w[k];
      } else {
        add_channel<kTransposed>(dims.subspan(1), x + read * dim.in_step, w + k * dim.kernel_step,
                                 sums + written * dim.out_step, zero_point);
      }
    }
  }
}

/// The sums of output channel `o` of sample `n`.
void sum_plane(const SumForm& form, const Convolution& conv, const int32_t* x, int64_t n, int64_t o,
               int32_t* sums) {
  const int64_t outputs = conv.output[1] / conv.groups;  // of a group
  const int64_t inputs = conv.input[1] / conv.groups;
  const int64_t group = o / outputs;
  const int32_t* const weights = form.weight.values<int32_t>().data();
  std::fill_n(sums, conv.output_plane(), form.bias[static_cast<size_t>(o)]);
  for (int64_t i = 0; i < inputs; ++i) {
    const int64_t channel = group * inputs + i;
    const int64_t kernel = conv.transposed ? channel * outputs + o % outputs : o * inputs + i;
    const auto add = conv.transposed ? add_channel<true> : add_channel<false>;
    add(conv.dims, x + (n * conv.input[1] + channel) * conv.input_plane(), weights + kernel * conv.taps(),
        sums, form.input.zero_point);
  }
}

Tensor convolution_sums(const SumForm& form, const Convolution& conv, const Tensor& codes) {
  Tensor result(DType::kInt32, conv.output);
  const int32_t* const x = codes.values<int32_t>().data();
  int32_t* const sums = result.values<int32_t>().data();
  parallel_for(conv.output[0] * conv.output[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      sum_plane(form, conv, x, plane / conv.output[1], plane % conv.output[1],
                sums + plane * conv.output_plane());
    }
  });
  return result;
}

}  // namespace

Tensor code_sums(const SumForm& form, const Node& node, const Tensor& codes) {
  const auto* sum = trait<WeightedSum>(node);
  DETENT_CHECK(sum != nullptr, "sums of {}", node.op);
  if (sum->spatial_dims == 0) return linear_sums(form, codes);
  const Operand inputs[] = {Operand{codes.shape(), Value()}};
  const Shape shape = find_operator(node.op).infer(node, inputs).shape;
  return convolution_sums(form, convolution_of(form, node, codes.shape(), shape), codes);
}

}  // namespace detent
