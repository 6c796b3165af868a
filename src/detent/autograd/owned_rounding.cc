#include "detent/autograd/owned_rounding.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <ATen/ops/exp2.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "detent/autograd/affine_rounding.h"
#include "detent/autograd/owned_fields.h"
#include "detent/autograd/rounding_gradient.h"
#include "detent/autograd/scale_observation.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/formats/verbs.h"

namespace detent {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Any format whose values are codes times a scale, which broadcasts against the input.
struct RoundCodes : torch::autograd::Function<RoundCodes> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& scale,
                            const QuantSpec& codes_of, uint64_t seed) {
    const at::Tensor scaled = input.div(scale);
    const Tensor values = from_torch(scaled);
    const at::Tensor codes = to_torch(fake_quantize(codes_of, values, seed));
    const at::Tensor mask = to_torch(clipped_ste_mask(codes_of, values));
    const bool has_signs = largest_code(codes_of) == 1 && codes_of.scale_rule == ScaleRule::kGiven &&
                           !integer_codes(codes_of.format) && !fixed_point(codes_of.format);
    // A sum of signs has no rounding error that the scale could move: its slope is the code.
    context->save_for_backward({mask, has_signs ? codes : codes.sub(scaled.mul(mask))});
    context->saved_data["scale_shape"] = scale.sizes().vec();
    return codes.mul(scale);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor of_scale =
        gradients[0].mul(saved[1]).sum_to_size(context->saved_data["scale_shape"].toIntVector());
    return {gradients[0].mul(saved[0]), of_scale, at::Tensor(), at::Tensor()};
  }
};

/// [groups] in the place of every element of its group, of a tensor of `shape`.
at::Tensor spread_over_groups(const at::Tensor& scale, const QuantSpec& spec, const Shape& shape) {
  const Grouping grouping = make_grouping(spec, shape);
  Tensor groups(DType::kInt64, {grouping.elements()});
  for (int64_t i = 0; i < grouping.elements(); ++i)
    groups.values<int64_t>()[static_cast<size_t>(i)] = grouping.group_of(i);
  return scale.index_select(0, to_torch(groups)).view(shape);
}

size_t channel_dim(const QuantSpec& spec, const at::Tensor& input) {
  return static_cast<size_t>(spec.axis < 0 ? spec.axis + input.dim() : spec.axis);
}

/// [channels] as [1, ..., channels, ..., 1]; [groups] as the shape of the input.
at::Tensor broadcastable(const at::Tensor& scale, const QuantSpec& spec, const at::Tensor& input) {
  if (spec.granularity == Granularity::kTensor) return scale;
  if (spec.granularity == Granularity::kGroup) return spread_over_groups(scale, spec, input.sizes().vec());
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[channel_dim(spec, input)] = scale.numel();
  return scale.view(shape);
}

AffineRows rows_of(const QuantSpec& spec, const at::Tensor& input, int64_t groups) {
  constexpr int64_t kLength = int64_t{1} << 15;
  if (spec.granularity == Granularity::kTensor) return {input.numel(), kLength, 1};
  int64_t length = 1;
  for (size_t dim = channel_dim(spec, input) + 1; dim < static_cast<size_t>(input.dim()); ++dim)
    length *= input.size(static_cast<int64_t>(dim));
  return {input.numel(), length, groups};
}

void check_scale(const at::Tensor& scale, const Shape& expected) {
  if (scale.sizes().vec() != expected) {
    fail("the learned scale has shape {}, expected {}", shape_text(scale.sizes().vec()),
         shape_text(expected));
  }
  const at::Tensor dense = scale.detach().contiguous();
  check_learned_scale({dense.data_ptr<float>(), static_cast<size_t>(dense.numel())});
}

/// The largest and the smallest code of affine and fixed formats that round to the nearest, as tensors that
/// know how they depend on a learned width.
struct CodeEnds {
  at::Tensor low;
  at::Tensor high;
};

at::Tensor number(double value) { return at::full({}, value, at::kFloat); }

CodeEnds code_ends_of(const IntegerCodes& codes, const at::Tensor& width, double factor) {
  if (!width.defined()) {
    return {number(codes.low()), number(codes.high())};
  }
  const at::Tensor bits = straight_through(with_gradient_factor(width, factor), number(codes.width));
  // 2^bits has its exact value, whatever exp2 says.
  const int bits_of_magnitude = codes.is_signed ? codes.width - 1 : codes.width;
  const at::Tensor power = straight_through(at::exp2(bits.sub(codes.is_signed ? 1 : 0)),
                                            number(std::ldexp(1.0, bits_of_magnitude)));
  const at::Tensor low = codes.is_signed ? power.neg() : power.mul(0);
  return {low.add(codes.is_narrow ? 1 : 0), power.sub(1)};
}

/// nullopt where the format does not round to the nearest of a range of integers.
std::optional<CodeEnds> code_ends(const Format& format, const at::Tensor& width, double factor) {
  constexpr int kMostWidth = 24;
  if (const std::optional<IntegerCodes> codes = integer_codes(format))
    return code_ends_of(*codes, width, factor);
  const std::optional<FixedPoint> fixed = fixed_point(format);
  if (!fixed || fixed->floors || fixed->width > kMostWidth) return std::nullopt;
  return CodeEnds{number(fixed->low), number(fixed->high)};
}

/// The scale that the parameter stands for, to the bit what inference computes.
at::Tensor scale_from(ScaleParameter kind, const at::Tensor& parameter, const at::Tensor& high,
                      double largest) {
  if (kind == ScaleParameter::kScale) return parameter;
  Tensor exact = from_torch(parameter.detach()).clone();
  for (float& value : exact.values<float>()) value = scale_of_parameter(kind, value, largest);
  const bool is_logarithm = kind == ScaleParameter::kLog2 || kind == ScaleParameter::kExponent;
  // The derivative of the power of two that is used, not of the one before it was rounded.
  if (!is_logarithm) return straight_through(parameter.div(high), to_torch(exact));
  const at::Tensor slope = to_torch(exact.clone()).mul(std::log(2.0));
  return straight_through(parameter.mul(slope), to_torch(exact));
}

at::Tensor round_codes(const at::Tensor& input, const QuantSpec& spec, const at::Tensor& scale,
                       const at::Tensor& threshold, double factor, uint64_t seed) {
  const at::Tensor spread = broadcastable(scale, spec, input);
  const at::Tensor rounded = RoundCodes::apply(input, spread, code_spec(spec), seed);
  if (!threshold.defined()) return rounded;
  const at::Tensor v = input.detach().div(spread.detach());
  const at::Tensor moves = v.abs().sub(threshold.detach()).abs().lt(0.5);
  const at::Tensor slope = at::where(moves, v.sign().mul(spread.detach()).neg(), at::zeros_like(v));
  const at::Tensor learned = with_gradient_factor(threshold, factor);
  return rounded.add(slope.mul(learned.sub(learned.detach())));
}

/// binary_residual: the sum of gamma_l sign(r_l).
at::Tensor round_residual(const at::Tensor& input, const at::Tensor& gamma) {
  check_scale(gamma, {gamma.numel()});
  at::Tensor left = input.detach();
  at::Tensor sum;
  for (int64_t level = 0; level < gamma.numel(); ++level) {
    const at::Tensor sign = at::where(left.ge(0), at::ones_like(left), at::full_like(left, -1));
    const at::Tensor term = sign.mul(gamma[level]);
    sum = sum.defined() ? sum.add(term) : term;
    left = left.sub(term.detach());
  }
  const at::Tensor inside = input.detach().abs().le(gamma.detach().sum());
  return sum.add(input.sub(input.detach()).mul(inside));
}

/// Codes minus zero points, of a zero point that is learned.
void move_by(CodeEnds& ends, const at::Tensor& zero_point, double factor) {
  const float low = ends.low.item<float>();
  const float high = ends.high.item<float>();
  const at::Tensor learned = with_gradient_factor(zero_point, factor);
  const at::Tensor zero = straight_through(learned, zero_point.detach().round().clamp(low, high));
  ends.low = ends.low.sub(zero);
  ends.high = ends.high.sub(zero);
}

/// Zero points of the format, one or one a group.
void move_by(CodeEnds& ends, const std::vector<int>& zero_points) {
  if (zero_points.empty()) return;
  const at::Tensor zero = at::tensor(std::vector<float>(zero_points.begin(), zero_points.end()));
  ends.low = ends.low.sub(zero);
  ends.high = ends.high.sub(zero);
}

QuantSpec with_learned_width(const QuantSpec& spec, const at::Tensor& width) {
  QuantSpec result = spec;
  const bool is_known = width.defined() && !std::isnan(width.item<float>());  // or still to be observed
  if (is_known) result.format = with_width(spec.format, rounded_width(width.item<float>()));
  return result;
}

/// A value for all elements, or one a group.
at::Tensor broadcastable_ends(const at::Tensor& ends, const QuantSpec& spec, const at::Tensor& input) {
  return ends.numel() == 1 ? ends : broadcastable(ends, spec, input);
}

QuantSpec with_learned_threshold(const QuantSpec& spec, const at::Tensor& threshold) {
  QuantSpec result = spec;
  if (threshold.defined()) result.format = with_threshold(spec.format, threshold.item<float>());
  return result;
}

}  // namespace

at::Tensor round_with_owned(const at::Tensor& input, const TrainedQuantizer& quantizer, int64_t samples,
                            uint64_t seed, const GatherSamples& gather) {
  const OwnedTensors& owned = quantizer.owned;
  DETENT_CHECK(input.scalar_type() == at::kFloat, "{} tensor", at::toString(input.scalar_type()));
  if (const at::Tensor codebook = find_owned(owned, kCodebook); codebook.defined())
    return round_to_codebook(input, codebook);
  if (const at::Tensor bias = find_owned(owned, kExponentBias); bias.defined())
    return round_with_exponent_bias(input, quantizer.spec, bias, samples);
  const ScaleParameter kind = scale_kind(owned);
  const at::Tensor parameter = find_owned(owned, scale_parameter_name(kind));
  const double elements =
      static_cast<double>(input.numel()) / static_cast<double>(samples * parameter.numel());
  if (kind == ScaleParameter::kGamma)
    return round_residual(input, with_gradient_factor(parameter, 1 / std::sqrt(elements)));

  const at::Tensor width = find_owned(owned, "width");
  const at::Tensor threshold = find_owned(owned, "threshold");
  const at::Tensor zero_point = find_owned(owned, "zero_point");
  const QuantSpec spec = with_learned_threshold(with_learned_width(quantizer.spec, width), threshold);
  const double largest = largest_code_of(spec);
  const double factor = 1 / std::sqrt(elements * largest_code(spec));
  const std::optional<ObservedStep> step = observe_step(input, spec, quantizer, gather);
  std::optional<CodeEnds> ends = code_ends(spec.format, width, factor);
  const bool is_clipping = kind == ScaleParameter::kClip;
  const at::Tensor trained = is_clipping ? parameter : with_gradient_factor(parameter, factor);
  const at::Tensor scale =
      step ? step->scale : scale_from(kind, trained, ends ? ends->high : at::Tensor(), largest);
  check_scale(scale, scale_shape(spec, input.sizes().vec()));
  const bool is_nearest = quantizer.rounding == Rounding::kNearest;
  if (!ends || (is_nearest && spec.granularity == Granularity::kGroup))
    return round_codes(input, spec, scale, threshold, factor, seed);
  if (integer_codes(spec.format)) move_by(*ends, given_scales(spec.format).zero_points);
  if (zero_point.defined()) move_by(*ends, step ? step->zero_point : zero_point, factor);
  const auto gradient = is_clipping ? AffineGradient::kClipping : AffineGradient::kLearnedStep;
  if (is_nearest)
    return round_affine(input, scale, ends->low, ends->high, rows_of(spec, input, scale.numel()), gradient);
  return round_affine(input, broadcastable(scale, spec, input), broadcastable_ends(ends->low, spec, input),
                      broadcastable_ends(ends->high, spec, input),
                      {quantizer.rounding, find_owned(owned, kRoundUp), seed}, gradient);
}

void observe_scale(const at::Tensor& input, const TrainedQuantizer& quantizer, const GatherSamples& gather) {
  observe_step(input, with_learned_width(quantizer.spec, find_owned(quantizer.owned, "width")), quantizer,
               gather);
}

}  // namespace detent
