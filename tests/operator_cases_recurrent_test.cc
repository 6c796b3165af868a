#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/einsum.h>
#include <ATen/ops/gru.h>
#include <ATen/ops/lstm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rnn_tanh.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_bicubic2d.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/upsample_linear1d.h>
#include <ATen/ops/upsample_nearest2d.h>
#include <ATen/ops/upsample_trilinear3d.h>

#include "operator_cases_test.h"

// Interpolation, recurrent layers and Einstein sums.

namespace detent {
namespace {

using Inputs = std::vector<at::Tensor>;
using Lookup = OperatorCase::Lookup;

NodeInput list_of_sizes(const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); }

OperatorCase resized(Shape shape, const std::vector<int64_t>& sizes, Table attributes,
                     OperatorCase::Reference reference) {
  List dims;
  for (size_t i = 0; i < sizes.size(); ++i) dims.push_back(static_cast<int64_t>(i) - std::ssize(sizes));
  attributes["dims"] = std::move(dims);
  return {.op = "resize",
          .inputs = {std::move(shape)},
          .attributes = std::move(attributes),
          .reference = std::move(reference),
          .constants = {NodeInput::absent(), NodeInput::absent(), list_of_sizes(sizes)}};
}

constexpr int64_t kHidden = 3;

/// Rows of hidden_size, per gate and of both directions, in another order.
at::Tensor reordered(const at::Tensor& weights, const std::vector<int64_t>& gates) {
  std::vector<at::Tensor> rows;
  for (const int64_t gate : gates) rows.push_back(weights.narrow(0, gate * kHidden, kHidden));
  return at::cat(rows);
}

/// Inputs 1, 2 and 3 as PyTorch's layers have them.
std::vector<at::Tensor> torch_weights(const Inputs& x, const std::vector<int64_t>& gates) {
  std::vector<at::Tensor> weights;
  const auto rows = static_cast<int64_t>(gates.size()) * kHidden;
  for (int64_t direction = 0; direction < x[1].size(0); ++direction) {
    weights.push_back(reordered(x[1][direction], gates));
    weights.push_back(reordered(x[2][direction], gates));
    weights.push_back(reordered(x[3][direction].narrow(0, 0, rows), gates));
    weights.push_back(reordered(x[3][direction].narrow(0, rows, rows), gates));
  }
  return weights;
}

/// [steps, samples, directions x hidden] as [steps, directions, samples, hidden].
at::Tensor by_direction(const at::Tensor& all, int64_t directions) {
  return all.view({all.size(0), all.size(1), directions, kHidden}).transpose(1, 2);
}

/// Six steps, the number of which is no batch size, and two samples of four numbers.
std::vector<CaseInput> recurrent_inputs(int64_t directions, int64_t gates, size_t states) {
  std::vector<CaseInput> inputs = {CaseInput({6, 2, 4}),
                                   {directions, gates * kHidden, 4},
                                   {directions, gates * kHidden, kHidden},
                                   {directions, 2 * gates * kHidden},
                                   CaseInput({2}).of(DType::kInt32, 6, 6)};
  for (size_t i = 0; i < states; ++i) inputs.push_back({directions, 2, kHidden});
  for (CaseInput& input : inputs) input.has_batch = false;
  return inputs;
}

std::vector<OperatorCase> layers() {
  const Value hidden = kHidden;
  const std::vector<int64_t> of_lstm = {0, 2, 3, 1};
  const auto lstm = [of_lstm](const Inputs& x) {
    return at::lstm(x[0], {x[5], x[6]}, torch_weights(x, of_lstm), true, 1, 0, false, true, false);
  };
  const Table both_ways = {{"hidden_size", hidden},
                           {"direction", "bidirectional"},
                           {"activations", "sigmoid tanh tanh sigmoid tanh tanh"}};
  return {
      {"lstm",
       recurrent_inputs(2, 4, 2),
       {},
       both_ways,
       [lstm](const Inputs& x, const Lookup&) { return by_direction(std::get<0>(lstm(x)), 2); }},
      {.op = "lstm",
       .inputs = recurrent_inputs(2, 4, 2),
       .attributes = both_ways,
       .reference = [lstm](const Inputs& x, const Lookup&) { return std::get<2>(lstm(x)); },
       .result = 2},
      {"gru",
       recurrent_inputs(1, 3, 1),
       {},
       {{"hidden_size", hidden}, {"linear_before_reset", true}},
       [](const Inputs& x, const Lookup&) {
         return std::get<0>(at::gru(x[0], x[5], torch_weights(x, {1, 0, 2}), true, 1, 0, false, false, false))
             .unsqueeze(1);
       }},
      {.op = "rnn",
       .inputs = recurrent_inputs(1, 1, 1),
       .attributes = {{"hidden_size", hidden}, {"direction", "reverse"}},
       .reference =
           [](const Inputs& x, const Lookup&) {
             return std::get<1>(
                 at::rnn_tanh(x[0].flip({0}), x[5], torch_weights(x, {0}), true, 1, 0, false, false, false));
           },
       .result = 1},
  };
}

}  // namespace

std::vector<OperatorCase> resize_cases() {
  return {
      resized({2, 3, 5}, {7, 4}, {{"coordinates", "asymmetric"}, {"nearest", "floor"}},
              [](const Inputs& x, const Lookup&) {
                return at::upsample_nearest2d(x[0], {7, 4});
              }),
      resized({2, 5}, {8}, {{"mode", "linear"}},
              [](const Inputs& x, const Lookup&) { return at::upsample_linear1d(x[0], {8}, false); }),
      resized({2, 3, 5}, {7, 4}, {{"mode", "linear"}, {"coordinates", "align_corners"}},
              [](const Inputs& x, const Lookup&) {
                return at::upsample_bilinear2d(x[0], {7, 4}, true);
              }),
      resized({2, 3, 5, 2}, {7, 4, 3}, {{"mode", "linear"}, {"coordinates", "pytorch_half_pixel"}},
              [](const Inputs& x, const Lookup&) {
                return at::upsample_trilinear3d(x[0], {7, 4, 3}, false);
              }),
      resized({2, 4, 5}, {7, 3}, {{"mode", "cubic"}},
              [](const Inputs& x, const Lookup&) {
                return at::upsample_bicubic2d(x[0], {7, 3}, false);
              }),
      {.op = "resize",
       .inputs = {{2, 6}},
       .attributes =
           {{"mode", "linear"}, {"dims", List{Value(2)}}, {"antialias", true}, {"exclude_outside", true}},
       // The kernel has 5 elements for each three, 1/9 2/9 3/9 2/9 1/9, of which the border cuts off one.
       .reference =
           [](const Inputs& x, const Lookup&) {
             const at::Tensor first = x[0].narrow(2, 0, 4).matmul(at::tensor({2.0F, 3.0F, 2.0F, 1.0F})) / 8;
             const at::Tensor second = x[0].narrow(2, 2, 4).matmul(at::tensor({1.0F, 2.0F, 3.0F, 2.0F})) / 8;
             return at::stack({first, second}, 2);
           },
       .constants = {NodeInput::absent(), NodeInput::of_constant(List{Value(1.0 / 3)})}},
  };
}

std::vector<OperatorCase> recurrent_cases() {
  std::vector<OperatorCase> all = layers();
  all.push_back(
      {"einsum", {{3, 4}, {3, 5}}, {}, {{"equation", "bij, bik -> bjk"}}, [](const Inputs& x, const Lookup&) {
         return at::matmul(x[0].transpose(1, 2), x[1]);
       }});
  return all;
}

}  // namespace detent
