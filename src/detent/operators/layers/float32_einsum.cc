#include "detent/graph/operator_arguments.h"

#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/broadcast_lines.h"
#include "detent/kernels/product.h"
#include "detent/kernels/row_reductions.h"
#include "detent/kernels/sums.h"
#include "detent/kernels/tensor_layout.h"

// Tensors are multiplied in their order, two at a time: each product is one of matrices, whose sums have the
// order of the dimensions of the left tensor. Dimensions that only one of both has, and neither the result
// nor a later tensor, are summed before, as the operator `sum` does.

namespace detent {
namespace {

using Labels = EinsumLabels;

/// A tensor, and what its dimensions are called, each by another label.
struct Factor {
  Tensor values;
  Labels labels;
};

bool has(const Labels& labels, int label) { return std::ranges::find(labels, label) != labels.end(); }

Labels joined(Labels labels, const Labels& others) {
  labels.insert(labels.end(), others.begin(), others.end());
  return labels;
}

Tensor viewed(const Tensor& tensor, const StridedView& view) {
  const bool is_whole = element_count(view.shape) == tensor.numel() && view.is_contiguous();
  return is_whole ? tensor.reshaped(view.shape) : gathered(tensor, view);
}

/// Dimensions of one label become one: their diagonal. Those that repeat (of size 1, where the label has
/// another) are left out, for the product with what has them repeats.
Factor factor_of(const Tensor& tensor, const Labels& labels, const std::map<int, int64_t>& sizes) {
  const StridedView all = StridedView::of(tensor.shape());
  StridedView view;
  Labels kept;
  for (size_t d = 0; d < labels.size(); ++d) {
    if (all.shape[d] != sizes.at(labels[d])) continue;
    const auto known = std::ranges::find(kept, labels[d]);
    if (known != kept.end()) {
      view.strides[static_cast<size_t>(known - kept.begin())] += all.strides[d];
      continue;
    }
    kept.push_back(labels[d]);
    view.shape.push_back(all.shape[d]);
    view.strides.push_back(all.strides[d]);
  }
  return {viewed(tensor, view), kept};
}

/// The tensor with its dimensions in this order.
Tensor ordered(const Factor& factor, const Labels& labels) {
  const StridedView all = StridedView::of(factor.values.shape());
  StridedView view;
  for (const int label : labels) {
    const auto d = static_cast<size_t>(std::ranges::find(factor.labels, label) - factor.labels.begin());
    view.shape.push_back(all.shape[d]);
    view.strides.push_back(all.strides[d]);
  }
  return viewed(factor.values, view);
}

/// Sums over the labels that are not `wanted`, in row-major order.
template <class Wanted>
Factor summed(const Factor& factor, Wanted wanted) {
  Labels kept;
  Labels lost;
  for (const int label : factor.labels) (wanted(label) ? kept : lost).push_back(label);
  if (lost.empty()) return factor;
  const Tensor rows = ordered(factor, joined(kept, lost));
  const auto first_lost = rows.shape().begin() + std::ssize(kept);
  const auto length = static_cast<size_t>(element_count({first_lost, rows.shape().end()}));
  Tensor sums = result_tensor({rows.shape().begin(), first_lost});
  const auto from = rows.values<float>();
  const auto to = sums.values<float>();
  constexpr size_t kGrain = 8192;
  parallel_for(sums.numel(), static_cast<int64_t>(kGrain / std::clamp<size_t>(length, 1, kGrain)),
               [&](int64_t begin, int64_t end) {
                 for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
                   to[i] = static_cast<float>(row_sum(from.subspan(i * length, length)));
               });
  return {sums, kept};
}

Tensor elementwise_product(const Tensor& a, const Tensor& b) {
  Tensor product = result_tensor(a.shape());
  const auto left = a.values<float>();
  const auto right = b.values<float>();
  const auto to = product.values<float>();
  constexpr int64_t kGrain = 16384;
  parallel_for(product.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) to[i] = left[i] * right[i];
  });
  return product;
}

struct Dims {
  Labels labels;
  Shape shape;

  void add(int label, const std::map<int, int64_t>& sizes) {
    labels.push_back(label);
    shape.push_back(sizes.at(label));
  }
  int64_t count() const { return element_count(shape); }
};

/// The factor with these labels, those that it lacks of size 1.
Tensor spread_labels(const Factor& factor, const Labels& labels) {
  Labels own;
  for (const int label : labels) {
    if (has(factor.labels, label)) own.push_back(label);
  }
  const Tensor values = ordered(factor, own);
  Shape shape;
  for (const int label : labels) {
    const auto at = static_cast<size_t>(std::ranges::find(own, label) - own.begin());
    shape.push_back(at < own.size() ? values.shape()[at] : 1);
  }
  return values.reshaped(shape);
}

/// Each element by each, with the labels in the order of `first` as far as that has them: what a matrix
/// product of depth 1 gives.
Factor outer_product(const Factor& a, const Factor& b, const Labels& first,
                     const std::map<int, int64_t>& sizes) {
  Dims dims;
  for (const Labels& labels : {first, a.labels, b.labels}) {
    for (const int label : labels) {
      if (!has(dims.labels, label) && (has(a.labels, label) || has(b.labels, label))) dims.add(label, sizes);
    }
  }
  const Tensor left = spread_labels(a, dims.labels);
  const Tensor right = spread_labels(b, dims.labels);
  Tensor products = result_tensor(dims.shape);
  const BroadcastLines<2> lines(dims.shape, {left.shape(), right.shape()});
  float* const to = products.values<float>().data();
  constexpr int64_t kGrain = 16384;
  parallel_for(products.numel(), kGrain, [&](int64_t begin, int64_t end) {
    lines.run(begin, end, [&](int64_t at, const BroadcastLines<2>::Places& places, int64_t count) {
      multiply_lines(left.values<float>().data() + places[0], lines.steps()[0],
                     right.values<float>().data() + places[1], lines.steps()[1], count, to + at);
    });
  });
  return {products, dims.labels};
}

/// The sum over the labels of both that are not `wanted` after it.
template <class Wanted>
Factor factor_product(const Factor& left, const Factor& right, const Labels& result,
                      const std::map<int, int64_t>& sizes, Wanted wanted) {
  Factor a = summed(left, [&](int label) { return has(right.labels, label) || wanted(label); });
  Factor b = summed(right, [&](int label) { return has(left.labels, label) || wanted(label); });
  Dims batch;
  Dims rows;
  Dims columns;
  Dims sum;
  for (const int label : a.labels)
    (!has(b.labels, label) ? rows : wanted(label) ? batch : sum).add(label, sizes);
  for (const int label : b.labels) {
    if (!has(a.labels, label)) columns.add(label, sizes);
  }
  if (rows.labels.empty() && columns.labels.empty() && sum.labels.empty())
    return {elementwise_product(a.values, ordered(b, a.labels)), a.labels};
  if (sum.labels.empty()) return outer_product(a, b, result, sizes);
  // Columns are filled up for vectors: few of them become rows.
  if (columns.count() < FloatProduct::kPadding && rows.count() > columns.count()) {
    std::swap(a, b);
    std::swap(rows, columns);
  }
  const Tensor matrices = matrix_product(ordered(a, joined(batch.labels, joined(rows.labels, sum.labels)))
                                             .reshaped({batch.count(), rows.count(), sum.count()}),
                                         ordered(b, joined(batch.labels, joined(sum.labels, columns.labels)))
                                             .reshaped({batch.count(), sum.count(), columns.count()}));
  Shape shape = batch.shape;
  shape.insert(shape.end(), rows.shape.begin(), rows.shape.end());
  shape.insert(shape.end(), columns.shape.begin(), columns.shape.end());
  return {matrices.reshaped(shape), joined(batch.labels, joined(rows.labels, columns.labels))};
}

Tensor einsum(const FloatNode& n) {
  static_cast<void>(n.inferred());  // throws where the inputs do not fit
  std::vector<Shape> shapes;
  for (size_t i = 0; i < n.inputs.size(); ++i) shapes.push_back(n.tensor(i).shape());
  const EinsumDims dims = einsum_dims(text_attribute(n.node, "equation"), shapes);
  std::vector<Factor> factors;
  for (size_t i = 0; i < shapes.size(); ++i)
    factors.push_back(factor_of(n.tensor(i), dims.inputs[i], dims.sizes));
  Factor result = factors.front();
  for (size_t i = 1; i < factors.size(); ++i) {
    const auto is_later = [&](int label) {
      return std::any_of(factors.begin() + static_cast<int64_t>(i) + 1, factors.end(),
                         [&](const Factor& factor) { return has(factor.labels, label); });
    };
    result = factor_product(result, factors[i], dims.result, dims.sizes,
                            [&](int label) { return has(dims.result, label) || is_later(label); });
  }
  return ordered(summed(result, [&](int label) { return has(dims.result, label); }), dims.result);
}

}  // namespace

FloatOperators float_einsum_operators() { return {{"einsum", einsum}}; }

}  // namespace detent
