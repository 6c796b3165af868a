#include <ATen/TensorOperators.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "operator_cases_test.h"

// Layers of trained tables that are products of signs, against the sums of products.

namespace detent {
namespace {

using Inputs = std::vector<at::Tensor>;
using Lookup = OperatorCase::Lookup;

constexpr float kGamma[] = {0.75F, 0.25F};

float sign_of(int64_t output, int64_t element) { return (output * 3 + element) % 4 < 2 ? 1.0F : -1.0F; }

at::Tensor signs(int64_t outputs, int64_t window) {
  at::Tensor weights = at::zeros({outputs, window});
  for (int64_t o = 0; o < outputs; ++o)
    for (int64_t e = 0; e < window; ++e) weights[o][e] = sign_of(o, e);
  return weights;
}

at::Tensor binarized(const at::Tensor& x) {
  at::Tensor left = x;
  for (const float gamma : kGamma) left = left - at::where(left.ge(0), gamma, -gamma).to(at::kFloat);
  return x - left;
}

/// Tables of two inputs, of which the first decides.
OperatorCase products(const char* op, const Shape& input, int64_t outputs, int64_t window, Table attributes,
                      OperatorCase::Reference reference) {
  Tensor inputs(DType::kInt64, {outputs, window, 2});
  Tensor tables(DType::kFloat32, {outputs, window, 2, 4});
  size_t table = 0;
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t e = 0; e < window; ++e, ++table) {
      inputs.values<int64_t>()[table * 2] = e;
      inputs.values<int64_t>()[table * 2 + 1] = (e + 1) % window;
      for (size_t address = 0; address < 8; ++address)
        tables.values<float>()[table * 8 + address] = address % 2 == 1 ? sign_of(o, e) : -sign_of(o, e);
    }
  }
  return {
      .op = op,
      .inputs = {input},
      .attributes = std::move(attributes),
      .reference = std::move(reference),
      .gradient = CaseGradient::kNone,
      .given = {{"inputs", inputs},
                {"tables", tables},
                {"gamma", Tensor::from<float>({2}, std::vector<float>(std::begin(kGamma), std::end(kGamma)))},
                {"amplitude",
                 Tensor::from<float>({1, 2}, std::vector<float>(std::begin(kGamma), std::end(kGamma)))}}};
}

}  // namespace

std::vector<OperatorCase> lutnet_cases() {
  const auto list = [](int64_t a, int64_t b) { return List{Value(a), Value(b)}; };
  return {
      products("lutnet_linear", {3, 5}, 4, 5, {{"unit", 0.25}},
               [](const Inputs& x, const Lookup&) { return at::linear(binarized(x[0]), signs(4, 5)); }),
      products(
          "lutnet_conv1d", {3, 9}, 4, 6,
          {{"kernel_size", 2}, {"stride", 2}, {"padding", 1}, {"dilation", 3}, {"unit", 0.25}},
          [](const Inputs& x, const Lookup&) {
            return at::conv1d(binarized(x[0]), signs(4, 6).view({4, 3, 2}), {}, 2, at::IntArrayRef{1}, 3);
          }),
      products("lutnet_conv2d", {2, 6, 7}, 3, 12,
               {{"kernel_size", list(3, 2)}, {"padding", list(2, 1)}, {"dilation", list(1, 2)}},
               [](const Inputs& x, const Lookup&) {
                 return at::conv2d(binarized(x[0]), signs(3, 12).view({3, 2, 3, 2}), {}, 1,
                                   at::IntArrayRef{2, 1}, at::IntArrayRef{1, 2});
               }),
  };
}

}  // namespace detent
