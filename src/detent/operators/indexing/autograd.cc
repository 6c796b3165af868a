#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/scatter_add.h>
#include <ATen/ops/scatter_reduce.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "detent/autograd/float32_results.h"
#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

/// Indices into `size` elements, counted from the front.
at::Tensor wrapped(const at::Tensor& given, int64_t size) {
  const at::Tensor indices = given.to(at::kLong);
  if (indices.numel() > 0) {
    const auto low = indices.min().item<int64_t>();
    const auto high = indices.max().item<int64_t>();
    if (low < -size || high >= size) fail("got indices {} to {} of a dimension of {}", low, high, size);
  }
  return at::where(indices.lt(0), indices + size, indices);
}

int64_t dim_of(const Evaluation& e) {
  const int64_t dim = integer_attribute(e.node, "dim");
  return dim < 0 ? dim + e.tensor(0).dim() : dim;
}

Results evaluate_gather(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const int64_t dim = dim_of(e);
  const auto* number = std::get_if<int64_t>(&e.inputs[1]);
  const at::Tensor given = number != nullptr ? at::scalar_tensor(*number, at::kLong) : e.tensor(1);
  const at::Tensor indices = wrapped(given, x.size(dim));
  std::vector<int64_t> shape = x.sizes().vec();
  shape.erase(shape.begin() + dim);
  shape.insert(shape.begin() + dim, indices.sizes().begin(), indices.sizes().end());
  return at::index_select(x, dim, indices.reshape({-1})).reshape(shape);
}

Results evaluate_gather_elements(const Evaluation& e) {
  const int64_t dim = dim_of(e);
  return at::gather(e.tensor(0), dim, wrapped(e.tensor(1), e.tensor(0).size(dim)));
}

/// The row of each position in a tensor whose first dimensions, of these sizes, are joined.
at::Tensor joined_rows(const at::Tensor& indices, at::IntArrayRef sizes) {
  at::Tensor rows = at::zeros(indices.sizes().slice(0, static_cast<size_t>(indices.dim()) - 1), at::kLong);
  for (size_t d = 0; d < sizes.size(); ++d) {
    rows = rows * sizes[d] + wrapped(indices.select(-1, static_cast<int64_t>(d)), sizes[d]);
  }
  return rows;
}

int64_t product(at::IntArrayRef sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) result *= size;
  return result;
}

Results evaluate_gather_nd(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const at::Tensor& indices = e.tensor(1);
  const int64_t batch = integer_attribute(e.node, "batch_dims");
  const int64_t depth = indices.size(-1);
  const int64_t batches = product(x.sizes().slice(0, static_cast<size_t>(batch)));
  const at::IntArrayRef indexed = x.sizes().slice(static_cast<size_t>(batch), static_cast<size_t>(depth));
  const at::IntArrayRef part = x.sizes().slice(static_cast<size_t>(batch + depth));
  std::vector<int64_t> shape = indices.sizes().vec();
  shape.pop_back();
  shape.insert(shape.end(), part.begin(), part.end());
  at::Tensor rows = joined_rows(indices, indexed).reshape({batches, -1});
  rows = rows + at::arange(batches, at::kLong).unsqueeze(1) * product(indexed);
  const at::Tensor flat = x.reshape({batches * product(indexed), product(part)});
  return at::index_select(flat, 0, rows.reshape({-1})).reshape(shape);
}

at::Tensor scattered(const Evaluation& e, const at::Tensor& into, int64_t dim, const at::Tensor& indices,
                     const at::Tensor& updates) {
  const std::string& reduction = choice_attribute(e.node, "reduction");
  if (reduction == "none") return at::scatter(into, dim, indices, updates);
  if (reduction == "add") return at::scatter_add(into, dim, indices, updates);
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"mul", "prod"}, {"max", "amax"}, {"min", "amin"}};
  for (const auto& [ours, theirs] : kNames) {
    if (reduction == ours) return at::scatter_reduce(into, dim, indices, updates, theirs);
  }
  DETENT_CHECK(false, "reduction {}", reduction);
  return into;
}

Results evaluate_scatter_elements(const Evaluation& e) {
  const int64_t dim = dim_of(e);
  return scattered(e, e.tensor(0), dim, wrapped(e.tensor(1), e.tensor(0).size(dim)), e.tensor(2));
}

Results evaluate_scatter_nd(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const at::Tensor& indices = e.tensor(1);
  const auto depth = static_cast<size_t>(indices.size(-1));
  const at::IntArrayRef indexed = x.sizes().slice(0, depth);
  const int64_t part = product(x.sizes().slice(depth));
  const at::Tensor rows = joined_rows(indices, indexed).reshape({-1, 1}).expand({-1, part});
  const at::Tensor flat = x.reshape({product(indexed), part});
  return scattered(e, flat, 0, rows, e.tensor(2).reshape({-1, part})).reshape(x.sizes());
}

/// An index beyond the depth gives no position its value.
Results evaluate_one_hot(const Evaluation& e) {
  const at::Tensor indices = e.tensor(0).to(at::kLong);
  const int64_t depth = e.as_tensor(1).to(at::kLong).reshape({-1})[0].item<int64_t>();
  if (depth < 1) fail("input 1 is {}, expected at least 1", depth);
  const int64_t rank = indices.dim() + 1;
  const int64_t dim = integer_attribute(e.node, "dim");
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  const int64_t place = dim < 0 ? dim + rank : dim;
  shape[static_cast<size_t>(place)] = depth;
  const at::Tensor at_front = at::where(indices.lt(0), indices + depth, indices).unsqueeze(place);
  const at::Tensor hot = at_front.eq(at::arange(depth, at::kLong).reshape(shape));
  return at::where(hot, e.tensor(2).select(0, 1), e.tensor(2).select(0, 0));
}

Results evaluate_trilu(const Evaluation& e) {
  const int64_t diagonal = e.is_absent(1) ? 0 : e.only_integer(1);
  return boolean_attribute(e.node, "upper") ? at::triu(e.tensor(0), diagonal)
                                            : at::tril(e.tensor(0), diagonal);
}

/// Slices of the input, as the layer float32 finds them.
Results evaluate_unique(const Evaluation& e) {
  std::vector<at::Tensor> results;
  for (const Flow& result : float32_results(e)) results.push_back(std::get<at::Tensor>(result));
  return Results(results);
}

}  // namespace

EvaluatorList gather_evaluators() {
  return {
      {"gather", evaluate_gather},
      {"gather_elements", evaluate_gather_elements},
      {"gather_nd", evaluate_gather_nd},
      {"scatter_elements", evaluate_scatter_elements},
      {"scatter_nd", evaluate_scatter_nd},
      {"one_hot", evaluate_one_hot},
      {"nonzero", [](const Evaluation& e) -> Results { return at::nonzero(e.tensor(0)).t().contiguous(); }},
      {"unique", evaluate_unique},
      {"trilu", evaluate_trilu},
  };
}

}  // namespace detent
