#include <array>
#include <limits>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/broadcast_to.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/split_with_sizes.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include "detent/autograd/float32_results.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

at::Tensor list_of(const std::vector<int64_t>& values) { return at::tensor(values, at::kLong); }

Results evaluate_shape_of(const Evaluation& e) {
  const at::Tensor sizes = list_of(e.tensor(0).sizes().vec());
  const Value* end = e.node.attributes.find("end");
  return sizes.slice(0, integer_attribute(e.node, "start"),
                     end->is_na() ? sizes.numel() : integer_attribute(e.node, "end"));
}

Results evaluate_dynamic_reshape(const Evaluation& e) {
  std::vector<int64_t> shape = e.integers(1);
  const at::Tensor& x = e.tensor(0);
  for (size_t d = 0; d < shape.size() && !boolean_attribute(e.node, "allow_zero"); ++d) {
    if (shape[d] != 0) continue;
    if (static_cast<int64_t>(d) >= x.dim()) fail("input 1 keeps dimension {} of {}", d, x.dim());
    shape[d] = x.size(static_cast<int64_t>(d));
  }
  return x.reshape(shape);
}

Results evaluate_expand(const Evaluation& e) {
  return at::broadcast_to(e.tensor(0), broadcast_shapes(e.tensor(0).sizes().vec(), e.integers(1)));
}

/// Every dimension of x that `dims` lists, in steps that may be negative.
Results evaluate_dynamic_slice(const Evaluation& e) {
  at::Tensor x = e.tensor(0);
  const std::vector<int64_t> starts = e.integers(1);
  const std::vector<int64_t> ends = e.integers(2);
  std::vector<int64_t> dims(starts.size());
  std::iota(dims.begin(), dims.end(), 0);
  if (!e.is_absent(3)) dims = e.integers(3);
  std::vector<int64_t> steps(starts.size(), 1);
  if (!e.is_absent(4)) steps = e.integers(4);
  if (ends.size() != starts.size() || dims.size() != starts.size() || steps.size() != starts.size())
    fail("got lists of different lengths, expected {} of each", starts.size());
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 4;
  const auto bounded = [&](int64_t position) { return std::clamp(position, -kMost, kMost); };
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t size = x.size(dims[i]);
    const PositionRange range{bounded(starts[i]), bounded(ends[i]), bounded(steps[i])};
    const int64_t count = slice_count(range, size);
    const int64_t first = first_position(range, size);
    if (count <= 1) {
      x = x.narrow(dims[i], count > 0 ? first : 0, count);  // no step, which may be beyond what strides hold
    } else if (range.step > 0) {
      x = x.slice(dims[i], first, first + (count - 1) * range.step + 1, range.step);
    } else {
      x = at::index_select(x, dims[i], at::arange(count, at::kLong) * range.step + first);
    }
  }
  return x;
}

Results evaluate_pad(const Evaluation& e) {
  at::Tensor x = e.tensor(0);
  const std::vector<int64_t> borders = e.integers(1);
  const size_t count = borders.size() / 2;
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), 0);
  if (!e.is_absent(3)) dims = e.integers(3);
  if (dims.size() != count) fail("got {} dimensions and borders for {}", dims.size(), count);
  const at::Tensor value = e.is_absent(2) ? at::zeros({}, x.options()) : e.as_tensor(2).reshape({});
  const std::string& mode = choice_attribute(e.node, "mode");
  for (size_t i = 0; i < count; ++i) {
    const int64_t size = x.size(dims[i]);
    std::vector<int64_t> sources;
    for (int64_t p = -borders[i]; p < size + borders[i + count]; ++p)
      sources.push_back(border_source(p, size, mode));
    const at::Tensor from = list_of(sources);
    const auto dim = static_cast<size_t>(dims[i] < 0 ? dims[i] + x.dim() : dims[i]);
    if (x.numel() == 0) {
      std::vector<int64_t> shape = x.sizes().vec();
      shape[dim] = from.numel();
      x = value.to(x.scalar_type()).expand(shape).contiguous();
      continue;
    }
    at::Tensor filled = at::index_select(x, dims[i], from.clamp_min(0));
    if (mode == "constant") {
      std::vector<int64_t> along(static_cast<size_t>(x.dim()), 1);
      along[dim] = from.numel();
      filled = at::where(from.lt(0).reshape(along), value, filled);
    }
    x = filled;
  }
  return x;
}

Results evaluate_squeeze(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  if (e.is_absent(1)) return x.squeeze();
  std::vector<int64_t> shape = x.sizes().vec();
  for (const int64_t given : e.integers(1)) {
    const int64_t dim = given < 0 ? given + x.dim() : given;
    if (dim < 0 || dim >= x.dim() || x.size(dim) != 1) fail("dimension {} has no size of 1", given);
    shape[static_cast<size_t>(dim)] = -1;
  }
  std::erase(shape, -1);
  return x.reshape(shape);
}

Results evaluate_unsqueeze(const Evaluation& e) {
  at::Tensor x = e.tensor(0);
  std::vector<int64_t> dims = e.integers(1);
  const int64_t rank = x.dim() + static_cast<int64_t>(dims.size());
  for (int64_t& dim : dims) dim = dim < 0 ? dim + rank : dim;
  std::ranges::sort(dims);
  for (const int64_t dim : dims) x = x.unsqueeze(dim);
  return x;
}

Results evaluate_range(const Evaluation& e) { return float32_results(e).front(); }

Results evaluate_full(const Evaluation& e) {
  return to_torch(full_value(e.node)).expand(e.integers(0)).contiguous();
}

}  // namespace

EvaluatorList dynamic_shape_evaluators() {
  return {
      {"shape_of", evaluate_shape_of},
      {"numel",
       [](const Evaluation& e) -> Results { return at::scalar_tensor(e.tensor(0).numel(), at::kLong); }},
      {"dynamic_reshape", evaluate_dynamic_reshape},
      {"dynamic_expand", evaluate_expand},
      {"tile", [](const Evaluation& e) -> Results { return e.tensor(0).repeat(e.integers(1)); }},
      {"dynamic_slice", evaluate_dynamic_slice},
      {"dynamic_pad", evaluate_pad},
      {"dynamic_split",
       [](const Evaluation& e) {
         return Results(at::split_with_sizes(e.tensor(0), e.integers(1), integer_attribute(e.node, "dim")));
       }},
      {"squeeze", evaluate_squeeze},
      {"unsqueeze", evaluate_unsqueeze},
      {"full", evaluate_full},
      {"range", evaluate_range},
  };
}

}  // namespace detent
