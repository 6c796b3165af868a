#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// The dtype of a value of a graph that dtype_name calls so: all but the 8-bit floats, in which tensors are
/// only stored. Throws Error naming the nearest known name.
DType dtype_of_name(std::string_view name);

/// The size of one dimension: a number, or the name of one that is known when the network runs ("N",
/// "sequence").
struct Dimension {
  /// Its number; a named one has this size where nothing gives another: windows of the network fit into it.
  int64_t size = 1;
  std::string symbol;  // "" for a number

  Dimension(int64_t number) : size(number) {}
  Dimension(std::string name, int64_t usual_size = 1) : size(usual_size), symbol(std::move(name)) {}
  Dimension(const char* name) : symbol(name) {}
  bool is_named() const { return !symbol.empty(); }
  bool operator==(const Dimension&) const = default;
};

/// The dimension of the samples that run together.
inline constexpr const char* kBatchName = "N";

/// Sizes of named dimensions in a run.
using NamedSizes = std::map<std::string, int64_t, std::less<>>;

/// Shapes of inputs, by name, as users give them.
using InputShapes = std::map<std::string, Shape, std::less<>>;

/// Declared type of an input tensor.
struct TensorType {
  DType dtype = DType::kFloat32;
  std::vector<Dimension> shape;

  /// The shape where the named dimensions have these sizes; those that are not listed have their usual one.
  Shape concrete(const NamedSizes& sizes = {}) const;
  /// Whether the shape is this for some sizes, which agree with `sizes` and are added to it.
  bool matches(const Shape& concrete_shape, NamedSizes& sizes) const;
  bool operator==(const TensorType&) const = default;
};

/// "float32 [N, 3, 32, 32]"
std::string tensor_type_text(const TensorType& type);

}  // namespace detent
