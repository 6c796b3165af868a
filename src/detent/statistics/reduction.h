#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent {

/// Which dimensions of a batch a statistic reduces. Dimension 0, the samples, always is. As a field: "all"
/// (default), "none" or NA (each position within a sample has its own statistic), a list of dimensions of the
/// batch that are reduced while the others are kept, or {keep = [...]} for the opposite. {group_size = n,
/// axis = d}: at each index of dimension d, every n elements of a sample that are consecutive in row-major
/// order have a statistic, as QuantSpec's granularity "group" cuts them. Negative dimensions are counted from
/// the end.
struct Dims {
  enum class Kind { kAll, kReduce, kKeep, kGroups };
  Kind kind = Kind::kAll;
  std::vector<int64_t> listed;  // unless kAll; of kGroups the axis
  int64_t group_size = 0;       // of kGroups

  static Dims keeping(std::vector<int64_t> dims) { return {Kind::kKeep, std::move(dims), 0}; }
  static Dims groups(int64_t size, int64_t axis) { return {Kind::kGroups, {axis}, size}; }

  static std::string field_type() {
    return "\"all\", \"none\", a list of dimensions, {keep = a list of dimensions}, or {group_size = a "
           "number, "
           "axis = a dimension}";
  }
  Value to_value() const;
  static Dims from_value(const Value& value, const std::string& where);

  bool operator==(const Dims&) const = default;
};

/// Maps elements of batches to slots, one per kept position. The first batch determines the sample shape;
/// unless all dimensions are reduced, the others must match.
class Reduction {
 public:
  explicit Reduction(Dims dims) : dims_(std::move(dims)) {}

  /// Sets or checks the sample shape (a batch without its first dimension). Throws Error if it differs or a
  /// dimension is out of range.
  void accept(const Shape& sample_shape);
  /// Merges the shape of another one. Throws Error if it differs.
  void accept(const Reduction& other);

  const Dims& dims() const { return dims_; }
  /// 1 when all dimensions are reduced; 0 before the shape is known.
  size_t slots() const;
  /// Sample shape, if relevant and known.
  const std::optional<Shape>& sample_shape() const { return sample_shape_; }
  /// For each dimension of a sample of this shape, which was accepted and arranged, whether it is kept.
  std::vector<bool> kept(const Shape& sample_shape) const;
  /// The batch as one whose kept positions lie in dimensions of their own: of groups [samples, indices of
  /// the axis, groups, elements], else as it is.
  Tensor arranged(const Tensor& batch) const;
  /// One value per slot as nested lists of the kept shape; the bare value if nothing is kept.
  Value shaped(const std::function<Value(size_t slot)>& value_of) const;

 private:
  Dims dims_;
  /// For groups: how many elements of a sample lie [before the axis, along it, after it].
  std::array<int64_t, 3> around_axis(const Shape& sample_shape) const;

  std::optional<Shape> sample_shape_;
  Shape kept_shape_;
};

/// min, max, range (float32 max - min; NA when both are the same infinity) for each slot, then count, and of
/// groups their group_size.
Table range_table(const Reduction& reduction, const std::vector<float>& min, const std::vector<float>& max,
                  int64_t count);

}  // namespace detent
