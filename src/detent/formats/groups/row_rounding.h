#pragma once

#include <cstdint>
#include <optional>

#include "detent/formats/format.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// fake_quantize() of formats that round each value by itself, or with its block along one dimension: some
/// values at a time, wherever they lie, on the thread that calls.
class RowRounding {
 public:
  /// nullopt where parameters follow from the whole tensor or are those of channels and groups, where blocks
  /// are boxes, and where rounding draws at random.
  static std::optional<RowRounding> of(const QuantSpec& spec);

  /// Whether values share scales in blocks, which begin anew in each row of the dimension that they run
  /// along: `axis()`, from the end where it is negative.
  bool in_blocks() const { return block_ != 0; }
  int64_t axis() const { return axis_; }

  /// `count` values: in rows of `row`, with blocks. `to` may be `from`.
  void round(const float* from, int64_t count, int64_t row, float* to) const;

 private:
  RowRounding() = default;

  GroupParameters parameters_;
  int64_t block_ = 0;  // values that share a scale; 0: none do, -1: whole rows
  int64_t axis_ = -1;
};

}  // namespace detent
