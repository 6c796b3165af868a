#include "detent/inference/reference_step.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/accumulated_sums.h"
#include "detent/inference/windows.h"
#include "detent/kernels/product.h"

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

/// Adds x * w of one channel of the input of a transposed convolution to the sums of one channel of the
/// result; what falls outside is dropped.
void add_transposed(std::span<const SpatialDim> dims, const int32_t* x, const int32_t* w, int32_t* sums,
                    int32_t zero_point) {
  const SpatialDim& dim = dims[0];
  for (int64_t k = 0; k < dim.kernel; ++k) {
    for (int64_t o = 0; o < dim.windows; ++o) {
      const int64_t at = o * dim.stride - dim.padding + k * dim.dilation;
      if (at < 0 || at >= dim.positions) continue;
      if (dims.size() == 1) {
        sums[at] += (x[o] - zero_point) * w[k];
      } else {
        add_transposed(dims.subspan(1), x + o * dim.in_step, w + k * dim.kernel_step,
                       sums + at * dim.out_step, zero_point);
      }
    }
  }
}

/// The sums of output channel `o` of sample `n` of a transposed convolution.
void sum_transposed_plane(const SumForm& form, const Convolution& conv, const int32_t* x, int64_t n,
                          int64_t o, int32_t* sums) {
  const int64_t outputs = conv.output[1] / conv.groups;  // of a group
  const int64_t inputs = conv.input[1] / conv.groups;
  const int32_t* const weights = form.weight.values<int32_t>().data();
  std::fill_n(sums, conv.output_plane(), form.bias[static_cast<size_t>(o)]);
  for (int64_t i = 0; i < inputs; ++i) {
    const int64_t channel = o / outputs * inputs + i;
    add_transposed(conv.dims, x + (n * conv.input[1] + channel) * conv.input_plane(),
                   weights + (channel * outputs + o % outputs) * conv.taps(), sums, form.input.zero_point);
  }
}

Tensor transposed_sums(const SumForm& form, const Convolution& conv, const Tensor& codes) {
  Tensor result(DType::kInt32, conv.output);
  const int32_t* const x = codes.values<int32_t>().data();
  int32_t* const sums = result.values<int32_t>().data();
  parallel_for(conv.output[0] * conv.output[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      sum_transposed_plane(form, conv, x, plane / conv.output[1], plane % conv.output[1],
                           sums + plane * conv.output_plane());
    }
  });
  return result;
}

constexpr int64_t kPadding = IntegerProduct::kPadding;

int64_t padded(int64_t count) { return (count + kPadding - 1) / kPadding * kPadding; }

/// A convolution as products of matrices: weights [output channel, input channel and tap] times what the taps
/// read [input channel and tap, window].
class WindowProducts {
 public:
  WindowProducts(const SumForm& form, const Node& node, const Convolution& conv, const Tensor& codes)
      : form_(form),
        conv_(conv),
        codes_(codes),
        columns_(node, conv.input, conv.output),
        windows_(columns_.windows()),
        taps_(columns_.taps()) {}

  Tensor sums() const {
    Tensor result(DType::kInt32, conv_.output);
    const int64_t outputs = conv_.output[1] / conv_.groups;
    const int64_t parts = (outputs + kOutputs - 1) / kOutputs;  // of a group
    parallel_for(conv_.output[0] * conv_.groups * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t group = i / parts % conv_.groups;
        const int64_t first = i % parts * kOutputs;
        add_outputs(i / parts / conv_.groups, group, group * outputs + first,
                    std::min(kOutputs, outputs - first), result);
      }
    });
    return result;
  }

 private:
  // Their inputs and sums stay in the second-level cache.
  static constexpr int64_t kOutputs = 32;
  static constexpr int64_t kWindows = 512;
  static constexpr int64_t kDepth = 128;

  /// The sums of output channels [first, first + count), all of one group, of sample `n`.
  void add_outputs(int64_t n, int64_t group, int64_t first, int64_t count, Tensor& result) const {
    const int64_t inputs = conv_.input[1] / conv_.groups;
    const int64_t step = std::clamp<int64_t>(kDepth / taps_, 1, inputs);
    const int64_t stride = padded(std::min(kWindows, windows_));
    std::vector<int32_t> read(static_cast<size_t>(step * taps_ * stride));
    std::vector<int32_t> sums(static_cast<size_t>(count * stride));
    for (int64_t window = 0; window < windows_; window += kWindows) {
      const int64_t windows = std::min(kWindows, windows_ - window);
      for (int64_t o = 0; o < count; ++o)
        std::fill_n(sums.data() + o * stride, windows, form_.bias[static_cast<size_t>(first + o)]);
      for (int64_t i = 0; i < inputs; i += step) {
        const int64_t channels = std::min(step, inputs - i);
        read_windows(n * conv_.input[1] + group * inputs + i, channels, window, windows, stride, read.data());
        add_product(IntegerProduct{.a = form_.weight.values<int32_t>().data() + (first * inputs + i) * taps_,
                                   .a_row = inputs * taps_,
                                   .a_column = 1,
                                   .b = read.data(),
                                   .b_stride = stride,
                                   .c = sums.data(),
                                   .c_stride = stride,
                                   .rows = count,
                                   .depth = channels * taps_,
                                   .column_begin = 0,
                                   .column_end = padded(windows)});
      }
      int32_t* const to = result.values<int32_t>().data() + (n * conv_.output[1] + first) * windows_ + window;
      for (int64_t o = 0; o < count; ++o) std::copy_n(sums.data() + o * stride, windows, to + o * windows_);
    }
  }

  /// Inputs of `windows` windows from `window` on, a row for each plane and tap, counted from the zero point;
  /// 0 in the padding.
  void read_windows(int64_t plane, int64_t planes, int64_t window, int64_t windows, int64_t stride,
                    int32_t* to) const {
    for (int64_t i = 0; i < planes; ++i) {
      const int32_t* const x = codes_.values<int32_t>().data() + (plane + i) * conv_.input_plane();
      for (int64_t tap = 0; tap < taps_; ++tap, to += stride)
        columns_.read(x, tap, window, windows, form_.input.zero_point, to);
    }
  }

  const SumForm& form_;
  const Convolution& conv_;
  const Tensor& codes_;
  WindowColumns columns_;
  int64_t windows_;
  int64_t taps_;
};

}  // namespace

Tensor code_sums(const SumForm& form, const Node& node, const Tensor& codes) {
  const auto* sum = trait<WeightedSum>(node);
  DETENT_CHECK(sum != nullptr, "sums of {}", node.op);
  if (const std::optional<Accumulator> accumulator = inexact_accumulator(form, node))
    return accumulated_sums(form, node, *accumulator, codes).sums;
  if (sum->spatial_dims == 0) return linear_sums(form, codes);
  const Operand inputs[] = {Operand{codes.shape(), Value()}};
  const Shape shape = find_operator(node.op).infer(node, inputs).shape;
  const Convolution conv = convolution_of(form, node, codes.shape(), shape);
  return conv.transposed ? transposed_sums(form, conv, codes)
                         : WindowProducts(form, node, conv, codes).sums();
}

}  // namespace detent
