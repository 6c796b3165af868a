#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent {

/// Which dimensions of a batch a statistic reduces. Dimension 0, the samples, always is. As a field: "all"
/// (default), "none" or NA (each position within a sample has its own statistic), or a list of dimensions of
/// the batch, negative ones counted from the end; the others are kept.
struct Dims {
  bool all = true;
  std::vector<int64_t> reduced;  // unless all

  static std::string field_type() { return "\"all\", \"none\" or a list of dimensions"; }
  Value to_value() const;
  static Dims from_value(const Value& value, const std::string& where);

  bool operator==(const Dims&) const = default;
};

/// Maps the elements of batches to slots, one for each kept position. The shape of a sample is learnt from
/// the first batch, and unless all dimensions are reduced the others must have it too.
class Reduction {
 public:
  explicit Reduction(Dims dims) : dims_(std::move(dims)) {}

  /// Learns or checks the shape. Throws Error when it differs or a dimension is out of range.
  void accept(const Tensor& batch);
  /// Learns or checks what the other one has learnt. Throws Error when it differs.
  void accept(const Reduction& other);

  const Dims& dims() const { return dims_; }
  /// 1 when all dimensions are reduced; 0 before the shape is known.
  size_t slots() const;
  /// The slot of the element at `position` in a sample.
  size_t slot(int64_t position) const { return dims_.all ? 0 : slot_of_[static_cast<size_t>(position)]; }
  /// Elements of a sample; only when some dimension is kept.
  int64_t sample_size() const { return static_cast<int64_t>(slot_of_.size()); }
  /// One value a slot as nested lists of the kept shape; the bare value when nothing is kept.
  Value shaped(const std::function<Value(size_t slot)>& value_of) const;

 private:
  void learn(const Shape& sample);

  Dims dims_;
  std::optional<Shape> sample_shape_;
  Shape kept_shape_;
  std::vector<size_t> slot_of_;
};

/// Extra facts that every collector reports.
struct SpecialCounts {
  int64_t nan = 0;
  int64_t infinity = 0;

  void merge(const SpecialCounts& other) {
    nan += other.nan;
    infinity += other.infinity;
  }
  /// Adds the keys whose count is not 0.
  void write(Table& table) const;
};

/// Throws Error unless the batch holds float32.
void check_sample_dtype(const Tensor& batch, std::string_view collector);

/// min, max, range (float32 max - min; NA when both are the same infinity) for each slot, then count.
Table range_table(const Reduction& reduction, const std::vector<float>& min, const std::vector<float>& max,
                  int64_t count);

}  // namespace detent
