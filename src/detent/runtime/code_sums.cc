#include "detent/runtime/code_sums.h"

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"

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

/// A convolution over [N, C, H, W]; one dimension is [N, C, 1, L].
struct Convolution {
  int64_t groups;
  std::vector<int64_t> stride, padding, dilation;
  Shape input, weight, output;
};

Shape with_height(Shape shape) {
  if (shape.size() == 3) shape.insert(shape.begin() + 2, 1);
  return shape;
}

std::vector<int64_t> two_dimensional(const Node& node, const char* attribute, size_t dims, int64_t first) {
  std::vector<int64_t> values = integers_attribute(node, attribute, dims);
  if (dims == 1) values.insert(values.begin(), first);
  return values;
}

Convolution convolution_of(const SumForm& form, const Node& node, const Shape& input, const Shape& output) {
  const size_t dims = input.size() - 2;
  return {.groups = integer_attribute(node, "groups"),
          .stride = two_dimensional(node, "stride", dims, 1),
          .padding = two_dimensional(node, "padding", dims, 0),
          .dilation = two_dimensional(node, "dilation", dims, 1),
          .input = with_height(input),
          .weight = with_height(form.weight.shape()),
          .output = with_height(output)};
}

int64_t offset(const Shape& shape, int64_t a, int64_t b, int64_t c, int64_t d) {
  return ((a * shape[1] + b) * shape[2] + c) * shape[3] + d;
}

/// sum over channels i of the group and window positions of x[n, i, y * stride - padding + ky * dilation,
/// ...] times w[o, i, ky, kx]; positions outside count 0.
int32_t convolution_sum(const SumForm& form, const Convolution& conv, std::span<const int32_t> x, int64_t n,
                        int64_t o, int64_t y, int64_t column) {
  const int64_t per_group = conv.weight[1];
  const int64_t first = o / (conv.weight[0] / conv.groups) * per_group;
  const auto w = form.weight.values<int32_t>();
  int32_t sum = form.bias[static_cast<size_t>(o)];
  for (int64_t i = 0; i < per_group; ++i) {
    for (int64_t ky = 0; ky < conv.weight[2]; ++ky) {
      const int64_t row = y * conv.stride[0] - conv.padding[0] + ky * conv.dilation[0];
      if (row < 0 || row >= conv.input[2]) continue;
      for (int64_t kx = 0; kx < conv.weight[3]; ++kx) {
        const int64_t at = column * conv.stride[1] - conv.padding[1] + kx * conv.dilation[1];
        if (at < 0 || at >= conv.input[3]) continue;
        const int32_t code = x[static_cast<size_t>(offset(conv.input, n, first + i, row, at))];
        sum += (code - form.input.zero_point) * w[static_cast<size_t>(offset(conv.weight, o, i, ky, kx))];
      }
    }
  }
  return sum;
}

Tensor convolution_sums(const SumForm& form, const Node& node, const Tensor& codes, const Shape& shape) {
  const Convolution conv = convolution_of(form, node, codes.shape(), shape);
  Tensor result(DType::kInt32, shape);
  const auto x = codes.values<int32_t>();
  const auto sums = result.values<int32_t>();
  parallel_for(conv.output[0] * conv.output[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t n = plane / conv.output[1];
      const int64_t o = plane % conv.output[1];
      for (int64_t y = 0; y < conv.output[2]; ++y) {
        for (int64_t column = 0; column < conv.output[3]; ++column) {
          sums[static_cast<size_t>(offset(conv.output, n, o, y, column))] =
              convolution_sum(form, conv, x, n, o, y, column);
        }
      }
    }
  });
  return result;
}

/// Adds x[n, c, row, column] * w[c, o, ky, kx] to the result at row * stride - padding + ky * dilation.
void scatter(const SumForm& form, const Convolution& conv, std::span<const int32_t> x,
             std::span<int32_t> sums, int64_t n, int64_t c, int64_t o) {
  const auto w = form.weight.values<int32_t>();
  const int64_t channel = c / (conv.weight[0] / conv.groups) * conv.weight[1] + o;
  for (int64_t row = 0; row < conv.input[2]; ++row) {
    for (int64_t column = 0; column < conv.input[3]; ++column) {
      const int32_t steps =
          x[static_cast<size_t>(offset(conv.input, n, c, row, column))] - form.input.zero_point;
      for (int64_t ky = 0; ky < conv.weight[2]; ++ky) {
        const int64_t to_row = row * conv.stride[0] - conv.padding[0] + ky * conv.dilation[0];
        if (to_row < 0 || to_row >= conv.output[2]) continue;
        for (int64_t kx = 0; kx < conv.weight[3]; ++kx) {
          const int64_t to_column = column * conv.stride[1] - conv.padding[1] + kx * conv.dilation[1];
          if (to_column < 0 || to_column >= conv.output[3]) continue;
          sums[static_cast<size_t>(offset(conv.output, n, channel, to_row, to_column))] +=
              steps * w[static_cast<size_t>(offset(conv.weight, c, o, ky, kx))];
        }
      }
    }
  }
}

Tensor transposed_sums(const SumForm& form, const Node& node, const Tensor& codes, const Shape& shape) {
  const Convolution conv = convolution_of(form, node, codes.shape(), shape);
  Tensor result(DType::kInt32, shape);
  const auto sums = result.values<int32_t>();
  const int64_t plane = shape[2] * shape[3];
  for (int64_t i = 0; i < result.numel(); ++i) {
    sums[static_cast<size_t>(i)] = form.bias[static_cast<size_t>(i / plane % shape[1])];
  }
  for (int64_t n = 0; n < conv.input[0]; ++n) {
    for (int64_t c = 0; c < conv.input[1]; ++c) {
      for (int64_t o = 0; o < conv.weight[1]; ++o)
        scatter(form, conv, codes.values<int32_t>(), sums, n, c, o);
    }
  }
  return result;
}

}  // namespace

Tensor code_sums(const SumForm& form, const Node& node, const Tensor& codes) {
  if (node.op == "linear") return linear_sums(form, codes);
  const Operand inputs[] = {Operand{codes.shape(), Value()}};
  const Shape shape = find_operator(node.op).infer(node, inputs).shape;
  if (node.op == "convtranspose2d") return transposed_sums(form, node, codes, shape);
  DETENT_CHECK(node.op == "conv1d" || node.op == "conv2d", "sums of {}", node.op);
  return convolution_sums(form, node, codes, shape);
}

}  // namespace detent
