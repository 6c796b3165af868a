#include "detent/files/json.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error.h"

namespace detent {
namespace {

/// The sizes of nested lists by their first elements; empty for what is no list.
Shape shape_of_first(const Value& value) {
  Shape shape;
  for (const List* list = value.get_if<List>(); list != nullptr;) {
    shape.push_back(static_cast<int64_t>(list->size()));
    list = list->empty() ? nullptr : list->front().get_if<List>();
  }
  return shape;
}

/// Calls `visit` for each number; false where lists differ in shape or hold other values than `T`.
template <class T, class Visit>
bool visit_numbers(const Value& value, const Shape& shape, size_t dim, Visit& visit) {
  if (dim == shape.size()) {
    const T* number = value.get_if<T>();
    if (number != nullptr) visit(*number);
    return number != nullptr;
  }
  const List* list = value.get_if<List>();
  if (list == nullptr || static_cast<int64_t>(list->size()) != shape[dim]) return false;
  for (const Value& element : *list) {
    if (!visit_numbers<T>(element, shape, dim + 1, visit)) return false;
  }
  return true;
}

template <class T>
bool holds_only(const Value& value, const Shape& shape) {
  const auto nothing = [](T) {};
  return visit_numbers<T>(value, shape, 0, nothing);
}

bool is_float32(double x) {
  if (!std::isfinite(x)) return true;
  constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
  return std::abs(x) <= kLargest && static_cast<double>(static_cast<float>(x)) == x;
}

bool fits_float32(const Value& value, const Shape& shape) {
  bool fits = true;
  const auto look = [&](double x) { fits = fits && is_float32(x); };
  visit_numbers<double>(value, shape, 0, look);
  return fits;
}

template <class From, class To>
Tensor filled(const Value& value, const Shape& shape) {
  Tensor tensor(DTypeOf<To>::value, shape);
  auto next = tensor.values<To>().begin();
  const auto store = [&](From x) { *next++ = static_cast<To>(x); };
  visit_numbers<From>(value, shape, 0, store);
  return tensor;
}

template <class From, class To>
Value nested(std::span<const From> numbers, const Shape& shape, size_t dim) {
  if (dim == shape.size()) return static_cast<To>(numbers.front());
  List list;
  list.reserve(static_cast<size_t>(shape[dim]));
  const size_t step = numbers.size() / std::max<size_t>(static_cast<size_t>(shape[dim]), 1);
  for (size_t i = 0; i < static_cast<size_t>(shape[dim]); ++i) {
    list.push_back(nested<From, To>(numbers.subspan(i * step, step), shape, dim + 1));
  }
  return list;
}

}  // namespace

std::optional<Tensor> tensor_of_list(const Value& list, size_t least) {
  const Shape shape = shape_of_first(list);
  if (shape.empty() || static_cast<size_t>(element_count(shape)) < std::max<size_t>(least, 1))
    return std::nullopt;
  if (holds_only<int64_t>(list, shape)) return filled<int64_t, int64_t>(list, shape);
  if (!holds_only<double>(list, shape)) return std::nullopt;
  return fits_float32(list, shape) ? filled<double, float>(list, shape) : filled<double, double>(list, shape);
}

Value list_of_tensor(const Tensor& tensor) {
  if (tensor.rank() == 0) fail("a tensor without dimensions is no list");
  switch (tensor.dtype()) {
    case DType::kInt32:
      return nested<int32_t, int64_t>(tensor.values<int32_t>(), tensor.shape(), 0);
    case DType::kInt64:
      return nested<int64_t, int64_t>(tensor.values<int64_t>(), tensor.shape(), 0);
    case DType::kFloat32:
      return nested<float, double>(tensor.values<float>(), tensor.shape(), 0);
    case DType::kFloat64:
      return nested<double, double>(tensor.values<double>(), tensor.shape(), 0);
    default:
      fail("a tensor of {} is no list of numbers", dtype_name(tensor.dtype()));
  }
}

}  // namespace detent
