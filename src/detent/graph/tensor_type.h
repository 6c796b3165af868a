#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// The dtype named by dtype_name: all but the 8-bit floats, which are for storage only. Throws Error naming
/// the nearest known name.
DType dtype_of_name(std::string_view name);

/// A dimension: a number, or a name of a size known at run time ("N", "sequence").
struct Dimension {
  /// Its number; for a named one the default size, which fits the network's windows.
  int64_t size = 1;
  std::string symbol;  // "" for a number

  Dimension(int64_t number) : size(number) {}
  Dimension(std::string name, int64_t usual_size = 1) : size(usual_size), symbol(std::move(name)) {}
  Dimension(const char* name) : symbol(name) {}
  bool is_named() const { return !symbol.empty(); }
  bool operator==(const Dimension&) const = default;
};

/// The batch dimension.
inline constexpr const char* kBatchName = "N";

/// Sizes of named dimensions in a run.
using NamedSizes = std::map<std::string, int64_t, std::less<>>;

/// User-given input shapes by name.
using InputShapes = std::map<std::string, Shape, std::less<>>;

/// Declared type of an input tensor.
struct TensorType {
  DType dtype = DType::kFloat32;
  std::vector<Dimension> shape;

  /// The shape for these named sizes; others take their usual ones.
  Shape concrete(const NamedSizes& sizes = {}) const;
  /// Whether the shape is this for some sizes, which agree with `sizes` and are added to it.
  bool matches(const Shape& concrete_shape, NamedSizes& sizes) const;
  bool operator==(const TensorType&) const = default;
};

/// "float32 [N, 3, 32, 32]"
std::string tensor_type_text(const TensorType& type);

}  // namespace detent
