#include <ATen/TensorOperators.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "operator_cases_test.h"

// Layers of truth tables, against weighted sums of the same values that the tables are made of.

namespace detent {
namespace {

using Inputs = std::vector<at::Tensor>;
using Lookup = OperatorCase::Lookup;

constexpr int64_t kLevels = 4;  // input values -1, 0, 1, 2
constexpr int32_t kLeastValue = -1;

/// Weights of `outputs` sums over a window of `size` elements; of each row all but three are 0.
at::Tensor weights_of(int64_t outputs, int64_t size) {
  at::Tensor weights = at::zeros({outputs, size});
  for (int64_t o = 0; o < outputs; ++o) {
    for (const int64_t k : {0, 1, 2}) weights[o][(3 * o + 2 * k) % size] = o - 2 * k + 1;
  }
  return weights;
}

struct Tables {
  Tensor inputs;
  Tensor tables;
};

/// Two terms for each output: of two inputs, and of the third, which the second table has twice.
Tables tables_of(int64_t outputs, int64_t size) {
  const at::Tensor weights = weights_of(outputs, size);
  Tables made{Tensor(DType::kInt64, {outputs, 2, 2}), Tensor(DType::kInt32, {outputs, 2, kLevels * kLevels})};
  const auto inputs = made.inputs.values<int64_t>();
  const auto tables = made.tables.values<int32_t>();
  for (int64_t o = 0; o < outputs; ++o) {
    const auto weight = [&](int64_t index) { return weights[o][index].item<float>(); };
    const int64_t first = 3 * o % size;
    const int64_t second = (3 * o + 2) % size;
    const int64_t third = (3 * o + 4) % size;
    const auto at = static_cast<size_t>(o);
    for (const auto& [place, index] :
         {std::pair(0, first), std::pair(1, second), std::pair(2, third), std::pair(3, third)})
      inputs[at * 4 + static_cast<size_t>(place)] = index;
    for (int64_t address = 0; address < kLevels * kLevels; ++address) {
      const auto low = static_cast<float>(address % kLevels + kLeastValue);
      const auto high = static_cast<float>(address / kLevels + kLeastValue);
      const auto entry = at * 32 + static_cast<size_t>(address);
      tables[entry] = static_cast<int32_t>(weight(first) * low + weight(second) * high);
      tables[entry + 16] = static_cast<int32_t>(weight(third) * low);
    }
  }
  return made;
}

OperatorCase of_tables(const char* op, const Shape& input, int64_t outputs, int64_t window, Table attributes,
                       OperatorCase::Reference reference) {
  const Tables made = tables_of(outputs, window);
  return {.op = op,
          .inputs = {CaseInput(input).of(DType::kFloat32, kLeastValue, kLeastValue + kLevels - 1)},
          .attributes = std::move(attributes),
          .reference = std::move(reference),
          .gradient = CaseGradient::kNone,
          .given = {{"inputs", made.inputs},
                    {"tables", made.tables},
                    {"input_values", Tensor::from<float>({kLevels}, std::vector<float>{-1, 0, 1, 2})}}};
}

/// The number of thresholds -3, 2 that a sum reaches, as one of three values.
at::Tensor stepped(const at::Tensor& sums) {
  return at::tensor({-0.5F, 0.25F, 3.0F}).index({(sums.ge(-3).to(at::kLong) + sums.ge(2).to(at::kLong))});
}

OperatorCase with_thresholds() {
  constexpr int64_t kOutputs = 5;
  OperatorCase stepping = of_tables("lut", {3, 7}, kOutputs, 7, {}, [](const Inputs& x, const Lookup&) {
    return stepped(at::linear(x[0], weights_of(kOutputs, 7)));
  });
  Tensor thresholds(DType::kInt32, {kOutputs, 2});
  for (size_t i = 0; i < thresholds.values<int32_t>().size(); ++i)
    thresholds.values<int32_t>()[i] = i % 2 == 0 ? -3 : 2;
  stepping.given.emplace_back("thresholds", thresholds);
  stepping.given.emplace_back("output_values", Tensor::from<float>({3}, std::vector<float>{-0.5, 0.25, 3}));
  return stepping;
}

}  // namespace

std::vector<OperatorCase> table_cases() {
  const auto list = [](int64_t a, int64_t b) { return List{Value(a), Value(b)}; };
  return {
      of_tables("lut", {3, 7}, 5, 7, {{"scale", 0.5}},
                [](const Inputs& x, const Lookup&) { return at::linear(x[0], weights_of(5, 7)) * 0.5; }),
      with_thresholds(),
      of_tables("lut_conv1d", {3, 9}, 4, 6,
                {{"kernel_size", 2}, {"stride", 2}, {"padding", 1}, {"dilation", 3}},
                [](const Inputs& x, const Lookup&) {
                  return at::conv1d(x[0], weights_of(4, 6).view({4, 3, 2}), {}, 2, at::IntArrayRef{1}, 3);
                }),
      of_tables("lut_conv2d", {2, 6, 7}, 3, 12,
                {{"kernel_size", list(3, 2)}, {"padding", list(2, 1)}, {"dilation", list(1, 2)}},
                [](const Inputs& x, const Lookup&) {
                  return at::conv2d(x[0], weights_of(3, 12).view({3, 2, 3, 2}), {}, 1, at::IntArrayRef{2, 1},
                                    at::IntArrayRef{1, 2});
                }),
  };
}

}  // namespace detent
