#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/full.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/round.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

/// The input, or 0. Numbers are no codes, whatever the dtype of the others.
at::Tensor given(const Evaluation& e, size_t index) {
  if (e.is_absent(index)) return at::zeros({}, at::kInt);
  if (const auto* whole = std::get_if<int64_t>(&e.inputs[index])) return at::scalar_tensor(*whole, at::kLong);
  if (const auto* real = std::get_if<double>(&e.inputs[index])) return at::scalar_tensor(*real, at::kDouble);
  return e.tensor(index);
}

/// The input, or 0; along the dimension `axis` where it has several elements.
at::Tensor along_axis(const Evaluation& e, size_t index) {
  const at::Tensor list = given(e, index);
  if (list.numel() == 1) return list.reshape({});
  const at::Tensor& x = e.tensor(0);
  const int64_t given = integer_attribute(e.node, "axis");
  std::vector<int64_t> shape(static_cast<size_t>(x.dim()), 1);
  shape.at(static_cast<size_t>(given < 0 ? given + x.dim() : given)) = list.numel();
  return list.reshape(shape);
}

at::Tensor saturated(const at::Tensor& x, at::ScalarType dtype) {
  const auto clamped = [&](auto limits) {
    using Limits = decltype(limits);
    return at::clamp(x, static_cast<double>(Limits::min()), static_cast<double>(Limits::max())).to(dtype);
  };
  if (dtype == at::kByte) return clamped(std::numeric_limits<uint8_t>());
  if (dtype == at::kChar) return clamped(std::numeric_limits<int8_t>());
  return clamped(std::numeric_limits<int16_t>());
}

at::Tensor codes(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& zero, at::ScalarType dtype) {
  return saturated(at::round(x / scale) + zero.to(at::kFloat), dtype);
}

Results evaluate_quantize(const Evaluation& e) {
  const at::ScalarType dtype = scalar_type(dtype_of_name(choice_attribute(e.node, "dtype")));
  return codes(e.tensor(0).to(at::kFloat), along_axis(e, 1).to(at::kFloat), along_axis(e, 2), dtype);
}

Results evaluate_dequantize(const Evaluation& e) {
  const at::Tensor x = e.tensor(0).to(at::kLong) - along_axis(e, 2).to(at::kLong);
  return x.to(at::kFloat) * along_axis(e, 1).to(at::kFloat);
}

Results evaluate_dynamic_quantize(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const at::Tensor none = at::zeros({}, x.options());
  const at::Tensor low = x.numel() == 0 ? none : at::amin(x).clamp_max(0);
  const at::Tensor high = x.numel() == 0 ? none : at::amax(x).clamp_min(0);
  constexpr double kLargest = std::numeric_limits<uint8_t>::max();
  const at::Tensor scale = at::where(high.eq(low), at::full({}, 1.0, x.options()), (high - low) / kLargest);
  const at::Tensor zero = saturated(at::round(-low / scale), at::kByte);
  return Results({codes(x, scale, zero, at::kByte), scale, zero});
}

/// Codes less their zero point, in float64, which holds sums of their products exactly.
at::Tensor centred(const Evaluation& e, size_t index, const at::Tensor& zero) {
  return e.tensor(index).to(at::kDouble) - zero.to(at::kDouble);
}

/// Beyond int32 as its sums would wrap.
at::Tensor as_int32(const at::Tensor& sums) { return sums.to(at::kLong).to(at::kInt); }

Results evaluate_integer_matmul(const Evaluation& e) {
  at::Tensor rows = given(e, 2);
  if (rows.dim() == 1) rows = rows.unsqueeze(-1);
  return as_int32(at::matmul(centred(e, 0, rows), centred(e, 1, given(e, 3))));
}

Results evaluate_integer_convolution(const Evaluation& e) {
  const auto dims = static_cast<size_t>(e.tensor(0).dim()) - 2;
  const auto integers = [&](const char* name) { return integers_attribute(e.node, name, dims); };
  const bool transposed = boolean_attribute(e.node, "transposed");
  at::Tensor channels = given(e, 3);
  if (channels.numel() > 1) {
    if (transposed)
      fail("input 3 has {} zero points for a transposed convolution, expected one", channels.numel());
    std::vector<int64_t> shape(dims + 2, 1);
    shape[0] = channels.numel();
    channels = channels.reshape(shape);
  } else {
    channels = channels.reshape({});
  }
  const auto bias = e.is_absent(4) ? c10::optional<at::Tensor>() : e.tensor(4).to(at::kDouble);
  return as_int32(at::convolution(centred(e, 0, given(e, 2).reshape({})), centred(e, 1, channels), bias,
                                  integers("stride"), integers("padding"), integers("dilation"), transposed,
                                  integers("output_padding"), integer_attribute(e.node, "groups")));
}

}  // namespace

EvaluatorList quantized_evaluators() {
  return {
      {"quantize_linear", evaluate_quantize},
      {"dequantize_linear", evaluate_dequantize},
      {"dynamic_quantize_linear", evaluate_dynamic_quantize},
      {"integer_matmul", evaluate_integer_matmul},
      {"integer_convolution", evaluate_integer_convolution},
  };
}

}  // namespace detent
