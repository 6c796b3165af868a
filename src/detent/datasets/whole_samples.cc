#include "detent/datasets/whole_samples.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "detent/core/convert.h"
#include "detent/core/error.h"

namespace detent {
namespace {

template <class Integer>
void widen(const Tensor& from, std::span<int64_t> to) {
  std::ranges::copy(from.values<Integer>(), to.begin());
}

/// The first size that all inputs have; nothing where they differ, or one is open or has no dimensions.
std::optional<int64_t> common_first_size(const std::vector<Shape>& shapes) {
  const auto first = [](const Shape& shape) { return shape.empty() ? -1 : shape.front(); };
  const int64_t size = shapes.empty() ? -1 : first(shapes.front());
  const bool all = std::ranges::all_of(shapes, [&](const Shape& shape) { return first(shape) == size; });
  return all && size >= 0 ? std::optional(size) : std::nullopt;
}

/// An array of samples, those of one after the other in its first dimension; how many there are.
struct Rows {
  Tensor array;
  int64_t rows = 1;
  int64_t count = 1;
};

/// `array` holds [n, ...] of inputs of that shape, a row for each sample or each row of it; or one number.
Rows rows_of(const Tensor& array, const Shape& shape, const std::string& what) {
  if (shape.empty() && array.shape().size() < 2) return {array, 0, array.shape().empty() ? 0 : array.dim(0)};
  if (array.shape().size() == shape.size() + 1 && !shape.empty()) {
    Shape joined(array.shape().begin() + 1, array.shape().end());
    const int64_t rows = joined.front();
    joined.front() *= array.dim(0);
    return {array.reshaped(joined), rows, array.dim(0)};
  }
  const int64_t rows = shape.empty() || shape.front() < 0 ? 1 : shape.front();
  if (shape.empty() || array.shape().size() != shape.size() || rows == 0 || array.dim(0) % rows != 0) {
    fail("{}: got {}, expected [n, ...] of the network's shape {}", what, shape_text(array.shape()),
         shape_text(shape));
  }
  return {array, rows, array.dim(0) / rows};
}

/// [count] of a single number.
Tensor repeated(const Tensor& number, int64_t count) {
  Tensor result(number.dtype(), {count});
  auto target = result.bytes().begin();
  for (int64_t i = 0; i < count; ++i) target = std::ranges::copy(number.bytes(), target).out;
  return result;
}

}  // namespace

Tensor as_input(const Tensor& tensor, DType wanted, const std::string& where) {
  if (wanted == DType::kFloat32) return to_float32(tensor);
  if (wanted == tensor.dtype()) return tensor;
  Tensor wide(DType::kInt64, tensor.shape());
  const std::span<int64_t> values = wide.values<int64_t>();
  switch (wanted == DType::kInt64 ? tensor.dtype() : DType::kFloat32) {
    case DType::kUInt8:
      widen<uint8_t>(tensor, values);
      break;
    case DType::kInt8:
      widen<int8_t>(tensor, values);
      break;
    case DType::kInt16:
      widen<int16_t>(tensor, values);
      break;
    case DType::kInt32:
      widen<int32_t>(tensor, values);
      break;
    default:
      fail("{}: got {}, the network takes {}", where, dtype_name(tensor.dtype()), dtype_name(wanted));
  }
  return wide;
}

namespace {

/// Inputs with no size in common, as nodes and edges of a graph, an array of one of which is there once: the
/// arrays are one sample, and those whose first size is open have as many rows as there are.
void make_one_sample(std::vector<Rows>& arrays, const std::vector<Shape>& shapes) {
  const auto is_whole = [&](size_t i) {
    return !shapes[i].empty() && shapes[i].front() > 1 && arrays[i].count == 1;
  };
  bool any = false;
  for (size_t i = 0; i < arrays.size(); ++i) {
    any = any || is_whole(i);
    if (!is_whole(i) && (shapes[i].empty() || shapes[i].front() >= 0 || arrays[i].rows != 1)) return;
  }
  if (!any) return;
  for (Rows& array : arrays) array.rows *= std::exchange(array.count, 1);
}

/// Whether open first sizes that need not be the same differ: such as images and texts, which are one sample.
bool have_own_rows(const NamedTensors& inputs, const std::vector<Shape>& shapes) {
  std::set<int64_t> sizes;
  bool may_differ = false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = inputs[i].second.shape();
    const bool is_open = !shapes[i].empty() && shapes[i].front() < 0 && shape.size() == shapes[i].size();
    if (!is_open) return false;
    may_differ = may_differ || shapes[i].front() == kOwnFirstSize;
    sizes.insert(shape.front());
  }
  return may_differ && sizes.size() > 1;
}

}  // namespace

std::optional<Samples> whole_samples(const NamedTensors& inputs, std::span<const SampleInput> wanted,
                                     const std::string& where) {
  std::vector<Shape> shapes;
  for (const SampleInput& input : wanted) shapes.push_back(input.shape);
  const bool are_known = std::ranges::any_of(shapes, [](const Shape& shape) { return !shape.empty(); });
  if (shapes.size() != inputs.size() || !are_known) return std::nullopt;
  const auto is_row = [&](size_t i) {
    return shapes[i].empty() || shapes[i].front() < 0 ? 1 : shapes[i].front();
  };
  const bool is_one = have_own_rows(inputs, shapes);
  bool any = is_one;
  for (size_t i = 0; i < inputs.size(); ++i)
    any =
        any || is_row(i) != 1 || shapes[i].empty() || inputs[i].second.shape().size() == shapes[i].size() + 1;
  const std::optional<int64_t> batch = common_first_size(shapes);
  if (!any || (batch && inputs.front().second.shape().size() == shapes.front().size())) return std::nullopt;
  Samples samples;
  std::vector<Rows> arrays;
  int64_t count = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string what = fmt::format("{}: {}", where, inputs[i].first);
    arrays.push_back(rows_of(as_input(inputs[i].second, wanted[i].dtype, what), shapes[i], what));
    // A network of a fixed batch takes that many rows at once.
    if (is_one) arrays.back().rows *= std::exchange(arrays.back().count, 1);
    if (batch && arrays.back().rows == *batch) arrays.back().count *= std::exchange(arrays.back().rows, 1);
  }
  make_one_sample(arrays, shapes);
  for (const Rows& array : arrays) count = std::max(count, array.count);
  for (size_t i = 0; i < inputs.size(); ++i) {
    Rows& array = arrays[i];
    if (array.count == 0) array = {repeated(array.array, count), 0, count};
    if (array.count != count || array.array.numel() == 0)
      fail("{}: {} has {} samples, others {}", where, inputs[i].first, array.count, count);
    samples.types.push_back(
        {wanted[i].name, wanted[i].dtype, Shape(array.array.shape().begin() + 1, array.array.shape().end())});
    samples.rows.push_back(array.rows);
    samples.inputs.push_back(std::move(array.array));
  }
  samples.labels.assign(static_cast<size_t>(count), -1);
  return samples;
}

}  // namespace detent
