#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/grid_sampler.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/unique_dim.h>
#include <ATen/ops/where.h>

#include "operator_cases_test.h"

// Reductions of dimensions, and elements taken by their indices.

namespace detent {
namespace {

using Inputs = std::vector<at::Tensor>;
using Lookup = OperatorCase::Lookup;

NodeInput list_input(const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); }

OperatorCase reduction(const char* op, OperatorCase::Reference reference, bool keepdim = false) {
  return {.op = op,
          .inputs = {{3, 4, 5}},
          .attributes = {{"keepdim", keepdim}},
          .reference = std::move(reference),
          .constants = {list_input({-1, 2})}};
}

OperatorCase position(const char* op, Table attributes, OperatorCase::Reference reference) {
  return {.op = op,
          .inputs = {CaseInput({4, 3}).of(DType::kFloat32, 0, 2)},
          .attributes = std::move(attributes),
          .reference = std::move(reference),
          .gradient = CaseGradient::kNone};
}

}  // namespace

std::vector<OperatorCase> reduction_cases() {
  const Shape shape = {3, 4, 5};
  return {
      reduction("sum",
                [](const Inputs& x, const Lookup&) {
                  return at::sum(x[0], {2, 3});
                }),
      reduction(
          "mean",
          [](const Inputs& x, const Lookup&) {
            return at::mean(x[0], {2, 3}, true);
          },
          true),
      reduction("prod", [](const Inputs& x, const Lookup&) { return at::prod(x[0].flatten(2), 2); }),
      reduction(
          "amax",
          [](const Inputs& x, const Lookup&) {
            return at::amax(x[0], {2, 3}, true);
          },
          true),
      reduction("amin",
                [](const Inputs& x, const Lookup&) {
                  return at::amin(x[0], {2, 3});
                }),
      reduction("logsumexp",
                [](const Inputs& x, const Lookup&) {
                  return at::sum(at::exp(x[0]), {2, 3}).log();
                }),
      {"sum", {shape}, {}, {}, [](const Inputs& x, const Lookup&) { return at::sum(x[0]); }},
      position("argmax", {{"dim", 1}},
               [](const Inputs& x, const Lookup&) { return at::argmax(x[0], 1, true); }),
      position("argmin", {{"dim", -1}, {"keepdim", false}},
               [](const Inputs& x, const Lookup&) { return at::argmin(x[0], 2); }),
      position(
          "argmax", {{"dim", 1}, {"keepdim", false}, {"select_last_index", true}},
          [](const Inputs& x, const Lookup&) {
            return (x[0].eq(at::amax(x[0], {1}, true)) * at::arange(4, at::kLong).view({1, 4, 1})).amax(1);
          }),
      {.op = "cumsum",
       .inputs = {shape},
       .attributes = {{"reverse", true}, {"exclusive", true}},
       .reference = [](const Inputs& x,
                       const Lookup&) { return at::flip(at::cumsum(at::flip(x[0], {2}), 2), {2}) - x[0]; },
       .constants = {NodeInput::of_constant(2)}},
      {.op = "topk",
       .inputs = {shape},
       .attributes = {{"dim", 2}, {"largest", false}},
       .reference = [](const Inputs& x, const Lookup&) { return std::get<0>(at::topk(x[0], 2, 2, false)); },
       .constants = {list_input({2})}},
      {.op = "topk",
       .inputs = {shape},
       .attributes = {{"dim", 2}},
       .reference = [](const Inputs& x, const Lookup&) { return std::get<1>(at::topk(x[0], 2, 2)); },
       .constants = {list_input({2})},
       .gradient = CaseGradient::kNone,
       .result = 1},
  };
}

std::vector<OperatorCase> gather_cases() {
  const Shape shape = {4, 5};
  const CaseInput indices = CaseInput({3}).without_batch().of(DType::kInt64, -4, 3);
  const CaseInput places = CaseInput({2, 5}).of(DType::kInt64, -4, 3);
  const CaseInput rows = CaseInput({3, 1}).of(DType::kInt64, 0, 3);
  const auto wrapped = [](const at::Tensor& i, int64_t size) { return at::where(i.lt(0), i + size, i); };
  return {
      {"gather",
       {shape, indices},
       {},
       {{"dim", 1}},
       [wrapped](const Inputs& x, const Lookup&) { return at::index_select(x[0], 1, wrapped(x[1], 4)); }},
      {"gather_elements",
       {shape, places},
       {},
       {{"dim", 1}},
       [wrapped](const Inputs& x, const Lookup&) { return at::gather(x[0], 1, wrapped(x[1], 4)); }},
      {"gather_nd",
       {shape, rows},
       {},
       {{"batch_dims", 1}},
       [](const Inputs& x, const Lookup&) {
         return at::gather(x[0], 1, x[1].expand({-1, 3, 5}));
       }},
      {"scatter_elements",
       {shape, CaseInput({1, 5}).of(DType::kInt64, 0, 3), {1, 5}},
       {},
       {{"dim", 1}},
       [](const Inputs& x, const Lookup&) { return at::scatter(x[0], 1, x[1], x[2]); }},
      {"scatter_elements",
       {shape, places, {2, 5}},
       {},
       {{"dim", 1}, {"reduction", "add"}},
       [wrapped](const Inputs& x, const Lookup&) {
         return at::scatter_add(x[0], 1, wrapped(x[1], 4), x[2]);
       }},
      {"scatter_nd",
       {CaseInput({3}).without_batch(), CaseInput({1}).of(DType::kInt64, 0, 2), CaseInput(Shape())},
       {},
       {{"reduction", "add"}},
       [](const Inputs& x, const Lookup&) { return at::scatter_add(x[0], 0, x[1].squeeze(1), x[2]); }},
      {.op = "grid_sample",
       .inputs = {{3, 5, 6}, CaseInput({2, 4, 2}).between(-1.4, 1.4)},
       .attributes = {{"mode", "cubic"}, {"padding_mode", "reflection"}},
       .reference = [](const Inputs& x, const Lookup&) { return at::grid_sampler(x[0], x[1], 2, 2, false); }},
      {.op = "grid_sample",
       .inputs = {{2, 4, 3, 5}, CaseInput({2, 1, 3, 3}).between(-1.4, 1.4)},
       .attributes = {{"padding_mode", "border"}, {"align_corners", true}},
       .reference = [](const Inputs& x, const Lookup&) { return at::grid_sampler(x[0], x[1], 0, 1, true); }},
      {.op = "one_hot",
       .inputs = {CaseInput({3}).of(DType::kInt64, 0, 4)},
       .attributes = {{"dim", 1}},
       .reference =
           [](const Inputs& x, const Lookup&) {
             return at::one_hot(x[0], 5).transpose(1, 2).to(at::kFloat) * 1.5 - 1;
           },
       .constants = {NodeInput::of_constant(5), NodeInput::of_constant(List{Value(-1.0), Value(0.5)})},
       .gradient = CaseGradient::kNone},
      {.op = "nonzero",
       .inputs = {CaseInput({3, 2}).of(DType::kInt32, -1, 1)},
       .reference = [](const Inputs& x, const Lookup&) { return at::nonzero(x[0]).t(); },
       .gradient = CaseGradient::kNone},
      {.op = "unique",
       .inputs = {CaseInput({3}).of(DType::kInt32, 0, 2)},
       .attributes = {{"dim", 1}},
       .reference = [](const Inputs& x, const Lookup&) { return std::get<0>(at::unique_dim(x[0], 1, true)); },
       .gradient = CaseGradient::kNone},
      {.op = "unique",
       .inputs = {CaseInput({3}).between(0, 1)},
       .attributes = {{"dim", -1}},
       .reference = [](const Inputs& x,
                       const Lookup&) { return std::get<1>(at::unique_dim(x[0], 1, true, true)); },
       .gradient = CaseGradient::kNone,
       .result = 2},
      {.op = "trilu",
       .inputs = {shape},
       .reference = [](const Inputs& x, const Lookup&) { return at::triu(x[0], -1); },
       .constants = {NodeInput::of_constant(-1)}},
  };
}

}  // namespace detent
