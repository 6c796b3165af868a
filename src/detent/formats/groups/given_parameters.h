#pragma once

#include <cstdint>
#include <optional>

#include "detent/formats/format.h"
#include "detent/formats/groups/grouping.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/quant_spec.h"

namespace detent {

// A format that derives parameters from data derives others from rounded values. To keep rounded values, give
// the parameters they were rounded with.

/// `spec` with the keys that give `parameters`, those of the groups of a tensor, as far as its format has
/// such keys; else as it is.
QuantSpec with_given_parameters(const QuantSpec& spec, const Grouping& grouping,
                                const GroupParameters& parameters);
/// The same with the parameters that `spec` derives from `tensor` (float32, not empty).
QuantSpec with_given_parameters(const QuantSpec& spec, const Tensor& tensor);

/// The spec that gives the scale that `spec` learns: the same values. nullopt where no format
/// has them. Throws Error on a scale that is not above 0.
std::optional<QuantSpec> with_learned_scale(const QuantSpec& spec, const Tensor& scale);

/// As `encode`, but the returned spec omits what the streams hold: a scale is stored once.
Encoded encode_without_given(const QuantSpec& spec, const Tensor& input);

/// Whether rounding draws at random.
bool is_stochastic(const Format& format);

/// The dtype with the same bits as the format's codes.
std::optional<DType> element_dtype(const Format& format);

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
