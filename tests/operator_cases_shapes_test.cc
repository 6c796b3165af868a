#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_max_pool1d.h>
#include <ATen/ops/adaptive_max_pool2d.h>
#include <ATen/ops/adaptive_max_pool3d.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv_transpose1d.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/full.h>
#include <ATen/ops/max_pool1d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool3d.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/reflection_pad1d.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>

#include "operator_cases_test.h"

// Results whose shape an operand gives, parts of a tensor, and windows.

namespace detent {
namespace {

using Inputs = std::vector<at::Tensor>;
using Lookup = OperatorCase::Lookup;

NodeInput list(const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); }
NodeInput whole(int64_t value) { return NodeInput::of_constant(Value(value)); }

/// Takes 2 x 3 windows of 6 x 7 positions, dilated by 2 x 1, in steps of 2, between a row of zeros above and
/// two columns of them after that.
at::Tensor sums_of_windows(const at::Tensor& x) {
  const at::Tensor padded = at::constant_pad_nd(x, {0, 2, 1, 0});
  const at::Tensor planes = padded.reshape({-1, 1, 7, 9});
  const at::Tensor sums = at::conv2d(planes, at::ones({1, 1, 2, 3}), {}, 2, at::IntArrayRef({0, 0}), {2, 1});
  return sums.reshape({x.size(0), x.size(1), sums.size(2), sums.size(3)});
}

/// With constants that say what shape the result has.
OperatorCase shaped(const char* op, std::vector<NodeInput> constants, OperatorCase::Reference reference,
                    Table attributes = {}, size_t result = 0) {
  return {.op = op,
          .inputs = {{4, 6}},
          .attributes = std::move(attributes),
          .reference = std::move(reference),
          .constants = std::move(constants),
          .result = result};
}

std::vector<OperatorCase> view_cases() {
  return {
      shaped("view", {whole(-1), whole(3), whole(8)},
             [](const Inputs& x, const Lookup&) {
               return x[0].reshape({-1, 3, 8});
             }),
      shaped("reshape", {whole(-1), whole(8)},
             [](const Inputs& x, const Lookup&) {
               return x[0].reshape({-1, 8});
             }),
      shaped("flatten", {}, [](const Inputs& x, const Lookup&) { return x[0].flatten(1, 2); },
             {{"start_dim", -2}}),
      {.op = "expand",
       .inputs = {{1, 3}},
       .reference =
           [](const Inputs& x, const Lookup&) {
             return x[0].expand({-1, 4, 3});
           },
       .constants = {whole(-1), whole(4), whole(-1)}},
      shaped("dynamic_reshape", {list({0, -1, 3})},
             [](const Inputs& x, const Lookup&) {
               return x[0].reshape({x[0].size(0), 8, 3});
             }),
      shaped("unsqueeze", {list({-1, 1})},
             [](const Inputs& x, const Lookup&) { return x[0].unsqueeze(1).unsqueeze(-1); }),
      {.op = "squeeze",
       .inputs = {{1, 3, 1}},
       .reference = [](const Inputs& x, const Lookup&) { return x[0].squeeze(3); },
       .constants = {list({-1})}},
  };
}

std::vector<OperatorCase> part_cases() {
  const Table sizes = {{"sizes", List{Value(1), Value(3), Value(2)}}, {"dim", 2}};
  return {
      shaped(
          "split", {}, [](const Inputs& x, const Lookup&) { return x[0].narrow(2, 1, 3); }, sizes, 1),
      shaped(
          "dynamic_split", {list({4, 0, 2})},
          [](const Inputs& x, const Lookup&) { return x[0].narrow(2, 4, 2); }, {{"count", 3}, {"dim", -1}},
          2),
      shaped("dynamic_slice", {list({-1, 1}), list({-100, 5}), list({1, 2}), list({-2, 2})},
             [](const Inputs& x, const Lookup&) {
               return x[0].index_select(1, at::tensor({3, 1})).index_select(2, at::tensor({1, 3}));
             }),
      shaped("dynamic_expand", {list({3, 1, 1, 6})},
             [](const Inputs& x, const Lookup&) {
               return x[0].unsqueeze(0).expand({3, -1, -1, -1});
             }),
      shaped("tile", {list({1, 2, 1})},
             [](const Inputs& x, const Lookup&) {
               return at::cat({x[0], x[0]}, 1);
             }),
      shaped("dynamic_pad", {list({0, -1, 2, 0, 1, 0}), NodeInput::of_constant(0.5)},
             [](const Inputs& x, const Lookup&) {
               const at::Tensor rows = x[0].narrow(1, 1, 3);
               const int64_t n = x[0].size(0);
               return at::cat({at::full({n, 4, 2}, 0.5), at::cat({rows, at::full({n, 1, 6}, 0.5)}, 1)}, 2);
             }),
      shaped("dynamic_pad", {list({2, 1}), NodeInput::absent(), list({-1})},
             [](const Inputs& x, const Lookup&) {
               return at::reflection_pad1d(x[0], {2, 1});
             },
             {{"mode", "reflect"}}),
  };
}

OperatorCase counted(const char* op, std::vector<CaseInput> inputs, std::vector<NodeInput> constants,
                     Table attributes, OperatorCase::Reference reference) {
  return {.op = op,
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .reference = std::move(reference),
          .constants = std::move(constants),
          .gradient = CaseGradient::kNone};
}

std::vector<OperatorCase> size_cases() {
  return {
      counted("shape_of", {{4, 6}}, {}, {{"start", -2}},
              [](const Inputs&, const Lookup&) {
                return at::tensor({4, 6}, at::kLong);
              }),
      counted("numel", {{4, 6}}, {}, {},
              [](const Inputs& x, const Lookup&) { return at::scalar_tensor(x[0].numel(), at::kLong); }),
      counted("full", {CaseInput({2}).without_batch().of(DType::kInt64, 2, 4)}, {}, {{"value", 1.5}},
              [](const Inputs& x, const Lookup&) {
                return at::full({x[0][0].item<int64_t>(), x[0][1].item<int64_t>()}, 1.5);
              }),
      counted(
          "range", {CaseInput(Shape()).without_batch().of(DType::kInt64, 5, 9)}, {whole(0), whole(-2)}, {},
          [](const Inputs& x, const Lookup&) { return at::arange(x[0].item<int64_t>(), 0, -2, at::kLong); }),
  };
}

std::vector<OperatorCase> window_cases() {
  const auto integers = [](std::initializer_list<int64_t> values) {
    return List(values.begin(), values.end());
  };
  return {
      {"max_pool1d",
       {{3, 9}},
       {},
       {{"kernel_size", 3}, {"stride", 2}, {"ceil_mode", true}},
       [](const Inputs& x, const Lookup&) { return at::max_pool1d(x[0], 3, 2, 0, 1, true); }},
      {"max_pool2d",
       {{2, 6, 7}},
       {},
       {{"kernel_size", integers({2, 3})}, {"padding", 1}},
       [](const Inputs& x, const Lookup&) {
         return at::max_pool2d(x[0], {2, 3}, {2, 3}, 1);
       }},
      {"max_pool3d",
       {{2, 4, 5, 6}},
       {},
       {{"kernel_size", 2}, {"stride", integers({1, 2, 3})}, {"dilation", integers({1, 2, 1})}},
       [](const Inputs& x, const Lookup&) {
         return at::max_pool3d(x[0], 2, {1, 2, 3}, 0, {1, 2, 1});
       }},
      {"max_pool_with_places",
       {{2, 6, 7}},
       {},
       {{"kernel_size", integers({2, 3})},
        {"padding", integers({1, 1, 1, 1})},
        {"dilation", integers({2, 1})}},
       [](const Inputs& x, const Lookup&) {
         return at::max_pool2d(x[0], {2, 3}, {2, 3}, 1, {2, 1});
       }},
      {.op = "max_pool_with_places",
       .inputs = {{2, 6, 7}},
       .attributes = {{"kernel_size", 2}, {"padding", integers({0, 1, 1, 0})}},
       .reference =
           [](const Inputs& x, const Lookup&) {
             const at::Tensor low = at::full({x[0].size(0), 2, 7, 8}, -100.0F);
             low.narrow(2, 0, 6).narrow(3, 1, 7).copy_(x[0]);
             const at::Tensor places = std::get<1>(at::max_pool2d_with_indices(low, 2, 2));
             const at::Tensor channel = at::arange(x[0].size(0) * 2, at::kLong).view({-1, 2, 1, 1});
             return places.div(8, "floor") * 7 + places.remainder(8) - 1 + channel * 42;
           },
       .gradient = CaseGradient::kNone,
       .result = 1},
      {"avg_pool_with_border",
       {{2, 6, 7}},
       {},
       {{"kernel_size", integers({2, 3})},
        {"stride", 2},
        {"padding", integers({1, 0, 0, 2})},
        {"dilation", integers({2, 1})},
        {"ceil_mode", true},
        {"count_include_pad", false}},
       [](const Inputs& x, const Lookup&) {
         return sums_of_windows(x[0]) / sums_of_windows(at::ones_like(x[0]));
       }},
      {"lp_pool",
       {{2, 6, 7}},
       {},
       {{"kernel_size", integers({2, 3})},
        {"stride", 2},
        {"padding", integers({1, 0, 0, 2})},
        {"dilation", integers({2, 1})},
        {"ceil_mode", true},
        {"p", 3}},
       [](const Inputs& x, const Lookup&) { return sums_of_windows(x[0].abs().pow(3)).pow(1.0 / 3); },
       {},
       CaseGradient::kSmooth,
       0,
       /*is_total=*/false},  // the derivative is infinite where a window holds nothing but zeros
      {"adaptive_max_pool1d",
       {{2, 7}},
       {},
       {{"output_size", 3}},
       [](const Inputs& x, const Lookup&) { return std::get<0>(at::adaptive_max_pool1d(x[0], 3)); }},
      {"adaptive_max_pool2d",
       {{2, 7, 5}},
       {},
       {{"output_size", integers({3, 2})}},
       [](const Inputs& x, const Lookup&) {
         return std::get<0>(at::adaptive_max_pool2d(x[0], {3, 2}));
       }},
      {"adaptive_max_pool3d",
       {{2, 4, 5, 3}},
       {},
       {{"output_size", integers({2, 3, 3})}},
       [](const Inputs& x, const Lookup&) {
         return std::get<0>(at::adaptive_max_pool3d(x[0], {2, 3, 3}));
       }},
      {"convolution",
       {{4, 9}, CaseInput({6, 2, 3}).without_batch(), CaseInput({6}).without_batch()},
       {},
       {{"stride", 2}, {"groups", 2}},
       [](const Inputs& x, const Lookup&) {
         return at::conv1d(x[0], x[1], x[2], 2, at::IntArrayRef{0}, 1, 2);
       }},
      {"convolution",
       {{4, 9}, CaseInput({4, 3, 3}).without_batch()},
       {},
       {{"stride", 2}, {"transposed", true}, {"output_padding", 1}},
       [](const Inputs& x, const Lookup&) { return at::conv_transpose1d(x[0], x[1], {}, 2, 0, 1); }},
  };
}

}  // namespace

std::vector<OperatorCase> dynamic_shape_cases() {
  std::vector<OperatorCase> all = view_cases();
  for (const auto& more : {part_cases(), size_cases(), window_cases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace detent
