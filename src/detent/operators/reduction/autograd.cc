#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

/// Counted from the front, in falling order; none given stands for all.
std::vector<int64_t> reduced_dims(const Evaluation& e) {
  const int64_t rank = e.tensor(0).dim();
  std::vector<int64_t> dims;
  if (!e.is_absent(1)) dims = e.integers(1);
  for (int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  if (dims.empty()) {
    dims.resize(static_cast<size_t>(rank));
    std::iota(dims.begin(), dims.end(), 0);
  }
  std::ranges::sort(dims, std::greater<>());
  return dims;
}

template <class Reduce>
Results reduce(const Evaluation& e, Reduce function) {
  const at::Tensor& x = e.tensor(0);
  const std::vector<int64_t> dims = reduced_dims(e);
  if (dims.empty()) return function(x.reshape({1}), std::vector<int64_t>{0}, false).to(x.scalar_type());
  return function(x, dims, boolean_attribute(e.node, "keepdim")).to(x.scalar_type());
}

Results evaluate_sum(const Evaluation& e) {
  return reduce(e,
                [](const at::Tensor& x, at::IntArrayRef dims, bool keep) { return at::sum(x, dims, keep); });
}

/// The mean of integers is the quotient without fraction.
Results evaluate_mean(const Evaluation& e) {
  return reduce(e, [](const at::Tensor& x, at::IntArrayRef dims, bool keep) {
    if (x.is_floating_point()) return at::mean(x, dims, keep);
    return at::mean(x.to(at::kDouble), dims, keep).trunc();
  });
}

Results evaluate_product(const Evaluation& e) {
  return reduce(e, [](at::Tensor x, at::IntArrayRef dims, bool keep) {
    for (const int64_t dim : dims) x = at::prod(x, dim, keep);
    return x;
  });
}

Results evaluate_largest(const Evaluation& e) {
  return reduce(e,
                [](const at::Tensor& x, at::IntArrayRef dims, bool keep) { return at::amax(x, dims, keep); });
}

Results evaluate_smallest(const Evaluation& e) {
  return reduce(e,
                [](const at::Tensor& x, at::IntArrayRef dims, bool keep) { return at::amin(x, dims, keep); });
}

Results evaluate_logsumexp(const Evaluation& e) {
  return reduce(e, [](const at::Tensor& x, at::IntArrayRef dims, bool keep) {
    return at::logsumexp(x.is_floating_point() ? x : x.to(at::kDouble), dims, keep);
  });
}

template <at::Tensor (*Position)(const at::Tensor&, c10::optional<int64_t>, bool)>
Results evaluate_position(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const int64_t dim = integer_attribute(e.node, "dim");
  const bool keep = boolean_attribute(e.node, "keepdim");
  if (!boolean_attribute(e.node, "select_last_index")) return Position(x, dim, keep);
  return x.size(dim) - 1 - Position(at::flip(x, {dim}), dim, keep);
}

Results evaluate_cumsum(const Evaluation& e) {
  const int64_t dim = e.only_integer(1);
  at::Tensor x = e.tensor(0);
  const bool reverse = boolean_attribute(e.node, "reverse");
  if (reverse) x = at::flip(x, {dim});
  if (boolean_attribute(e.node, "exclusive") && x.size(dim) > 0) {
    const at::Tensor zeros = at::zeros_like(x.narrow(dim, 0, 1));
    x = at::cat({zeros, x.narrow(dim, 0, x.size(dim) - 1)}, dim);
  }
  const at::Tensor sums = at::cumsum(x, dim).to(x.scalar_type());
  return reverse ? at::flip(sums, {dim}) : sums;
}

Results evaluate_topk(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const int64_t dim = integer_attribute(e.node, "dim");
  const int64_t k = e.only_integer(1);
  if (k < 0 || k > x.size(dim)) fail("input 1 is {}, expected 0 to {}", k, x.size(dim));
  // Where elements are equal the first ones win, as in a stable sort.
  const auto [values, places] =
      at::sort(x, /*stable=*/true, dim, /*descending=*/boolean_attribute(e.node, "largest"));
  return Results({values.narrow(dim, 0, k), places.narrow(dim, 0, k)});
}

}  // namespace

EvaluatorList reduction_evaluators() {
  return {
      {"sum", evaluate_sum},
      {"mean", evaluate_mean},
      {"prod", evaluate_product},
      {"amax", evaluate_largest},
      {"amin", evaluate_smallest},
      {"logsumexp", evaluate_logsumexp},
      {"argmax", evaluate_position<at::argmax>},
      {"argmin", evaluate_position<at::argmin>},
      {"cumsum", evaluate_cumsum},
      {"topk", evaluate_topk},
  };
}

}  // namespace detent
