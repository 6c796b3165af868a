#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/im2col.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/round.h>
#include <ATen/ops/tensor.h>

#include "detent/autograd/affine_rounding.h"
#include "detent/autograd/table_sums.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/inference/table_layer.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

/// [2^K, 3^K]: how much each entry of a table counts in the value of its polynomial where some of the signs
/// are 0, in the middle of -1 and 1: those that these leave open count alike.
at::Tensor entries_with_zeros(int64_t fan_in) {
  int64_t columns = 1;
  for (int64_t k = 0; k < fan_in; ++k) columns *= 3;
  const int64_t rows = int64_t{1} << fan_in;
  std::vector<float> shares(static_cast<size_t>(rows * columns));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      float share = 1;
      int64_t digits = column;
      for (int64_t k = 0; k < fan_in; ++k, digits /= 3)
        share *= digits % 3 == 1 ? 0.5F : static_cast<float>(digits % 3 == 2 * (row >> k & 1));
      shares[static_cast<size_t>(row * columns + column)] = share;
    }
  }
  return at::tensor(shares).view({rows, columns});
}

at::Tensor rounded_to(double unit, const at::Tensor& value) {
  if (unit == 0) return value;
  return straight_through(value, at::round(value.detach().div(unit)).mul(unit));
}

/// [outputs, columns] of signs [levels, elements, columns].
at::Tensor weighed_sums(const Evaluation& e, const at::Tensor& signs, bool has_zeros) {
  const TrainedTables tables = *trained_tables(e.node);
  at::Tensor values = e.parameter("tables");
  if (tables.binarized) values = table_signs(values);
  if (has_zeros) values = at::matmul(values, entries_with_zeros(tables.fan_in));
  const at::Tensor sums = table_sums(signs, e.parameter("inputs"), values, has_zeros ? 3 : 2);
  const at::Tensor amplitude = rounded_to(tables.unit, e.parameter("amplitude"));
  const at::Tensor result = sums.mul(amplitude.t().unsqueeze(2)).sum(0);
  const at::Tensor bias = e.parameter("bias");
  return bias.defined() ? result.add(rounded_to(tables.unit, bias).unsqueeze(1)) : result;
}

Results evaluate_lutnet_linear(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const at::Tensor rows = x.dim() == 1 ? x.unsqueeze(0) : x.flatten(0, -2);
  const at::Tensor signs = residual_signs(rows, e.parameter("gamma"));
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = e.parameter("inputs").size(0);
  return weighed_sums(e, signs.transpose(1, 2), false).t().reshape(shape);
}

template <size_t kDims>
Results evaluate_lutnet_convolution(const Evaluation& e) {
  const auto sizes = [&](const char* name, int64_t of_missing) {
    std::vector<int64_t> list = integers_attribute(e.node, name, kDims);
    if (kDims == 1) list.insert(list.begin(), of_missing);
    return list;
  };
  const std::vector<int64_t> padding = sizes("padding", 0);
  at::Tensor signs = residual_signs(e.tensor(0), e.parameter("gamma"));
  if (kDims == 1) signs = signs.unsqueeze(3);
  const int64_t levels = signs.size(0);
  const int64_t samples = signs.size(1);
  const at::Tensor windows = at::im2col(signs.flatten(0, 1), sizes("kernel_size", 1), sizes("dilation", 1),
                                        padding, sizes("stride", 1));
  const int64_t positions = windows.size(2);
  const at::Tensor columns =
      windows.view({levels, samples, windows.size(1), positions}).transpose(1, 2).flatten(2);
  const bool has_zeros = padding[0] > 0 || padding[1] > 0;
  const at::Tensor result = weighed_sums(e, columns, has_zeros);
  std::vector<int64_t> shape = {samples, result.size(0)};
  const std::vector<int64_t> stride = sizes("stride", 1);
  const std::vector<int64_t> kernel = sizes("kernel_size", 1);
  const std::vector<int64_t> dilation = sizes("dilation", 1);
  for (size_t i = 2 - kDims; i < 2; ++i) {
    const int64_t size = signs.size(static_cast<int64_t>(i) + 3);
    shape.push_back((size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1);
  }
  return result.view({result.size(0), samples, positions}).transpose(0, 1).reshape(shape);
}

/// A step function, whose gradient nothing asks for: tables are made of layers that are trained.
Results evaluate_tables(const Evaluation& e) {
  return to_torch(table_layer_result(e.node, from_torch(e.tensor(0).detach().contiguous())));
}

}  // namespace

EvaluatorList table_evaluators() {
  return {{"lut", evaluate_tables},
          {"lut_conv1d", evaluate_tables},
          {"lut_conv2d", evaluate_tables},
          {"lutnet_linear", evaluate_lutnet_linear},
          {"lutnet_conv1d", evaluate_lutnet_convolution<1>},
          {"lutnet_conv2d", evaluate_lutnet_convolution<2>}};
}

}  // namespace detent
