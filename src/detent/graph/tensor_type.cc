#include "detent/graph/tensor_type.h"

#include <fmt/ranges.h>

#include "detent/core/error.h"

namespace detent {

DType dtype_of_name(std::string_view name) {
  std::vector<std::string> known;
  for (int i = 0; i <= static_cast<int>(DType::kFloat64); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (dtype_name(dtype) == name) return dtype;
    known.emplace_back(dtype_name(dtype));
  }
  throw Error(unknown_name_message("dtype", name, known));
}

Shape TensorType::concrete(const NamedSizes& sizes) const {
  Shape result;
  for (const Dimension& dimension : shape) {
    const auto given = dimension.is_named() ? sizes.find(dimension.symbol) : sizes.end();
    result.push_back(given == sizes.end() ? dimension.size : given->second);
  }
  return result;
}

bool TensorType::matches(const Shape& concrete_shape, NamedSizes& sizes) const {
  if (concrete_shape.size() != shape.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (!shape[i].is_named()) {
      if (shape[i].size != concrete_shape[i]) return false;
    } else if (sizes.emplace(shape[i].symbol, concrete_shape[i]).first->second != concrete_shape[i]) {
      return false;
    }
  }
  return true;
}

std::string tensor_type_text(const TensorType& type) {
  std::vector<std::string> dimensions;
  for (const Dimension& dimension : type.shape) {
    dimensions.push_back(dimension.is_named() ? dimension.symbol : fmt::format("{}", dimension.size));
  }
  return fmt::format("{} [{}]", dtype_name(type.dtype), fmt::join(dimensions, ", "));
}

}  // namespace detent
