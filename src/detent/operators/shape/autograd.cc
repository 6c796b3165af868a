#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/flatten.h>
#include <ATen/ops/permute.h>
#include <ATen/ops/reshape.h>
#include <ATen/ops/select.h>
#include <ATen/ops/slice.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/transpose.h>

#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

std::vector<int64_t> sizes(const Evaluation& e) {
  std::vector<int64_t> shape;
  for (size_t i = 1; i < e.inputs.size(); ++i) shape.push_back(e.integer(i));
  return shape;
}

Results evaluate_reshape(const Evaluation& e) { return at::reshape(e.tensor(0), sizes(e)); }

Results evaluate_slice(const Evaluation& e) {
  at::Tensor x = e.tensor(0);
  for (const SliceRange& range : slice_ranges(e.node, x.sizes().vec())) {
    x = at::slice(x, static_cast<int64_t>(range.dim), range.start, range.end, range.step);
  }
  return x;
}

Results evaluate_cat(const Evaluation& e) {
  std::vector<at::Tensor> joined;
  for (size_t i = 0; i < e.inputs.size(); ++i) joined.push_back(e.tensor(i));
  return at::cat(joined, integer_attribute(e.node, "dim"));
}

}  // namespace

EvaluatorList shape_evaluators() {
  return {
      {"size", [](const Evaluation& e) -> Results { return Flow(e.tensor(0).size(e.integer(1))); }},
      {"view", evaluate_reshape},
      {"reshape", evaluate_reshape},
      {"flatten",
       [](const Evaluation& e) -> Results {
         return at::flatten(e.tensor(0), integer_attribute(e.node, "start_dim"),
                            integer_attribute(e.node, "end_dim"));
       }},
      {"transpose",
       [](const Evaluation& e) -> Results {
         return at::transpose(e.tensor(0), integer_attribute(e.node, "dim0"),
                              integer_attribute(e.node, "dim1"));
       }},
      {"permute",
       [](const Evaluation& e) -> Results {
         return at::permute(e.tensor(0), integers_attribute(e.node, "dims"));
       }},
      {"expand", [](const Evaluation& e) -> Results { return e.tensor(0).expand(sizes(e)); }},
      {"slice", evaluate_slice},
      {"select",
       [](const Evaluation& e) -> Results {
         return at::select(e.tensor(0), integer_attribute(e.node, "dim"), integer_attribute(e.node, "index"));
       }},
      {"pad",
       [](const Evaluation& e) -> Results {
         return at::constant_pad_nd(e.tensor(0), integers_attribute(e.node, "pad"), 0);
       }},
      {"cat", evaluate_cat},
      {"split",
       [](const Evaluation& e) {
         return Results(at::split_with_sizes(e.tensor(0), integers_attribute(e.node, "sizes"),
                                             integer_attribute(e.node, "dim")));
       }},
  };
}

}  // namespace detent
