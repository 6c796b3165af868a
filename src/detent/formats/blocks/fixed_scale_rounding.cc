#include "detent/formats/blocks/fixed_scale_rounding.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/formats/blocks/block_kernels.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/grouping.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

QuantSpec with_tensor_parameters(const QuantSpec& spec, const Tensor& tensor, const std::string& where) {
  DETENT_CHECK(tensor.numel() > 0, "an empty tensor");
  if (!block_size(spec.format)) fail("{}: {} is no block format", where, format_name(spec.format));
  return with_given_parameters(spec, tensor);
}

}  // namespace

BlockRounding::BlockRounding(const QuantSpec& spec, const Tensor& tensor, const std::string& where)
    : spec_(with_tensor_parameters(spec, tensor, where)),
      parameters_(derive_parameters(spec_, tensor, make_grouping(spec_, tensor.shape()), 0)),
      pair_({{2}}, std::nullopt, {2}),
      holds_its_values_(std::holds_alternative<std::vector<BlockLogParameters>>(parameters_)) {
  const Shape& shape = tensor.shape();
  Shape row = shape;
  row[0] = 1;
  const BlockLayout layout = *block_layout(spec, row);
  block_count_ = layout.block_count();
  if (block_layout(spec, shape)->block_count() != shape[0] * block_count_) {
    fail("{}: {}: a block holds elements of several rows of the weight {}, expected blocks within a row",
         where, quant_spec_text(spec), shape_text(shape));
  }
  check_keeps(largest(1), fmt::format("{}: {}", where, quant_spec_text(spec)));
  blocks_.resize(static_cast<size_t>(element_count(row)));
  BlockLayout::Unit unit;
  for (int64_t u = 0; u < layout.unit_count(); ++u) {
    layout.locate(u, unit);
    for_each_row(layout, unit, [&](int64_t offset) {
      for (int64_t column = unit.begin; column < unit.end; ++column) {
        blocks_[static_cast<size_t>(offset + column)] =
            unit.block + (column - unit.begin) / layout.block_columns();
      }
    });
  }
}

float BlockRounding::beside(float x, float other) const {
  const DefaultFloatEnvironment environment;
  std::array<float, 2> values = {x, other};
  round_blocks(parameters_, pair_, BlockOutput::kValue, values.data(), values.data(), 0, pair_.unit_count(),
               false);
  return values[0] + 0.0F;
}

float BlockRounding::largest(float max) const {
  // An infinity has no part in the scale, and becomes the largest value.
  return max > 0 ? beside(std::numeric_limits<float>::infinity(), max) : 0;
}

float BlockRounding::rounded(float x, float largest) const {
  return largest > 0 ? beside(std::clamp(x, -largest, largest), largest) : beside(0, 0);
}

bool BlockRounding::keeps(float value, float largest) const { return this->largest(value) == largest; }

void BlockRounding::check_keeps(float largest, const std::string& where) const {
  if (holds_its_values_ || keeps(largest, largest)) return;
  fail(
      "{}: a block whose largest value is {} gets another scale when it is quantized again, so its values "
      "cannot be chosen; expected more bits an element, or a format with fixed parameters, such as affine",
      where, largest);
}

float BlockRounding::kept(float x, float largest, const std::string& where) const {
  const float value = rounded(x, largest);
  if (holds_its_values_ || largest == 0 || keeps(std::fabs(value), largest)) return value;
  check_keeps(largest, where);
  // The least magnitude that is rounded to one that keeps the scale: the scale grows with the magnitude, and
  // the bits of floats are in the order of their values.
  uint32_t below = 0;
  uint32_t above = std::bit_cast<uint32_t>(largest);
  while (above - below > 1) {
    const uint32_t middle = below + (above - below) / 2;
    const bool is_kept = keeps(rounded(std::bit_cast<float>(middle), largest), largest);
    (is_kept ? above : below) = middle;
  }
  return std::copysign(rounded(std::bit_cast<float>(above), largest), x);
}

}  // namespace detent
