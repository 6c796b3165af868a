#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/formats/format.h"

namespace detent {

/// Granularity of data-dependent parameters (scale, threshold): the tensor, one index of the channel
/// dimension, or `group_size` consecutive elements of a channel in row-major order. A one-dimensional tensor
/// is one channel to groups.
enum class Granularity { kTensor, kChannel, kGroup };
constexpr std::array<const char*, 3> enum_names(Granularity) { return {"tensor", "channel", "group"}; }

/// Origin of the scale: the format's fields, the data, or a parameter of the network
/// (formats/groups/learned_scale.h).
enum class ScaleRule { kGiven, kLearned };
constexpr std::array<const char*, 2> enum_names(ScaleRule) { return {"given", "learned"}; }

/// How the gradient passes the quantizer (straight-through estimators; Bengio et al. 2013, arXiv:1308.3432):
/// everywhere, or only where the input did not saturate.
enum class Gradient { kIdentity, kClipped };
constexpr std::array<const char*, 2> enum_names(Gradient) { return {"identity", "clipped"}; }

/// How one operand is quantized: format x granularity x gradient x scale rule. In configuration files the
/// keys of the format and of this struct stand side by side ("weight_width", "weight_granularity").
struct QuantSpec {
  Format format;
  Granularity granularity = Granularity::kTensor;
  int64_t axis = 0;  // the channel dimension; not for granularity tensor; negative counts from the end
  Gradient gradient = Gradient::kIdentity;
  ScaleRule scale_rule = ScaleRule::kGiven;
  std::optional<int64_t> block_axis = std::nullopt;  // along which a single block_size runs; NA: the last
  std::optional<int64_t> group_size = std::nullopt;  // with granularity group, and only then

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("granularity", self.granularity, "what shares one scale or threshold");
    visit("axis", self.axis, "channel dimension, for granularity = \"channel\" and \"group\"");
    visit("group_size", self.group_size,
          "for granularity = \"group\": so many elements of a channel, in row-major order, share a scale",
          Between{1});
    visit("block_axis", self.block_axis,
          "dimension along which a single block_size runs; NA: the last, or what the operator sums over");
    visit("gradient", self.gradient,
          "straight-through gradient: everywhere, or not where the input saturates");
    visit("scale_rule", self.scale_rule, "as the format says, or trained; the gradient then is clipped");
  }

  bool operator==(const QuantSpec&) const = default;
};

/// Reads a spec from the format's name (one of formats/named_formats.h too) and the keys of format and spec
/// together, without operand prefix.
/// Throws Error (beginning with `where`) on unknown keys, wrong types, values out of range and illegal
/// combinations.
QuantSpec parse_quant_spec(std::string_view format_name, const Table& keys, const std::string& where);
/// The inverse: the keys that differ from the defaults.
Table quant_spec_keys(const QuantSpec& spec);
/// "ternary:scaling_factor=true,granularity=channel": name, then keys that differ from the defaults.
std::string quant_spec_text(const QuantSpec& spec);
QuantSpec parse_quant_spec_text(std::string_view text);

/// The one place that rejects specs: fields out of range and invalid combinations, with the reason. Throws
/// Error that begins with `where`.
void validate(const QuantSpec& spec, const std::string& where);
/// The same before computing values: rejects a learned scale too, which only a network has.
void validate_with_scale(const QuantSpec& spec, const std::string& where);

/// Rounds every element of `input` (float32, float16 or bfloat16, any rank) to the nearest value that the
/// format holds, after computing what the format derives from the data per group (thresholds, scales).
/// `output` (float32) may be `input`. NaN passes through. `seed` matters to stochastic formats only; the draw
/// for element i depends on (seed, i). The result depends neither on threads nor on the caller's rounding
/// mode or flushing of subnormals. Throws Error on another dtype, on a spec with a learned scale, and where
/// the format cannot hold the data (a ternary threshold not above 0).
void fake_quantize(const QuantSpec& spec, const Tensor& input, Tensor& output, uint64_t seed = 0);
Tensor fake_quantize(const QuantSpec& spec, const Tensor& input, uint64_t seed = 0);

/// float32: 1 where the element did not saturate, else 0: the mask of the clipped gradient. An element
/// saturates when a larger code would be nearer (fixed) or when it lies beyond the outermost values (binary,
/// ternary). NaN does not saturate. In block formats, a code larger than the block's scale allows.
Tensor clipped_ste_mask(const QuantSpec& spec, const Tensor& input);
/// The same into `mask`, float32 of the input's shape, not aliasing it.
void clipped_ste_mask(const QuantSpec& spec, const Tensor& input, Tensor& mask);

/// Bits that storing a tensor of `shape` takes: of its codes, of what the format stores for each group, and
/// of what its blocks share. The streams of encode (formats/packing/encode.h) are that, each rounded up to
/// whole bytes.
int64_t storage_bits(const QuantSpec& spec, const Shape& shape);

}  // namespace detent
