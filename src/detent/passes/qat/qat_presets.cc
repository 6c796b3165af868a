#include "detent/passes/qat/qat_presets.h"

#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"

namespace detent {
namespace {

std::string learned_weights(int width, const char* granularity = "channel") {
  return fmt::format("int{}:narrow_range=true,granularity={},scale_rule=learned", width, granularity);
}

std::string learned_signed(int width) { return fmt::format("int{}:scale_rule=learned", width); }
std::string learned_unsigned(int width) {
  return fmt::format("affine:width={},signed=false,scale_rule=learned", width);
}

/// Scales of weights and activations that are learned, the weights' one a channel.
QatPreset learned(std::string name, int weights, int activations, std::string help) {
  return {.name = std::move(name),
          .help = std::move(help),
          .weights = learned_weights(weights),
          .activations = learned_signed(activations),
          .activations_not_below_0 = learned_unsigned(activations)};
}

/// LSQ: Esser et al. 2019, arXiv:1902.08153.
QatPreset lsq(std::string name, int weights, int activations, const std::string& help) {
  return learned(std::move(name), weights, activations,
                 help + "; scales learned (LSQ): of weights a channel, of activations a tensor");
}

/// Weights of a format of their own, with activations of 8 bits.
QatPreset few_signs(std::string name, std::string weights, std::string help) {
  QatPreset preset = learned(std::move(name), 8, 8, std::move(help));
  preset.weights = std::move(weights);
  return preset;
}

QatPreset of_one_format(std::string name, const std::string& format, std::string help) {
  return {.name = std::move(name),
          .help = std::move(help),
          .weights = format,
          .activations = format,
          .activations_not_below_0 = format};
}

/// Weights from their largest magnitude at each step, as Int8WeightPerTensorFloat of Brevitas and the like.
QatPreset ranged(std::string name, const char* granularity, std::string help) {
  QatPreset preset = learned(std::move(name), 8, 8, std::move(help));
  preset.weights = fmt::format("int8:narrow_range=true,granularity={}", granularity);
  return preset;
}

QatPreset powers_of_two(int width) {
  QatPreset preset = learned(fmt::format("int{}_pot", width), width, width,
                             fmt::format("{} bits, all scales powers of two, learned by their logarithms: "
                                         "integer hardware applies them by shifting (TQT)",
                                         width));
  preset.weight_scale = preset.activation_scale = ScaleParameter::kExponent;
  return preset;
}

QatPreset lsq_plus(int width) {
  QatPreset preset =
      learned(fmt::format("int{}_lsq_plus", width), width, width,
              fmt::format("{} bits; scales and the zero points of activations learned (LSQ+)", width));
  preset.activations = learned_unsigned(width);
  preset.learns_zero_points = true;
  return preset;
}

/// PACT: Choi et al. 2018, arXiv:1805.06085.
QatPreset pact(int width) {
  QatPreset preset = learned(fmt::format("int{}_pact", width), width, width,
                             fmt::format("{} bits; ranges of activations learned by what they clip (PACT), "
                                         "weights by their largest magnitude",
                                         width));
  preset.weights = fmt::format("int{}:narrow_range=true,granularity=channel", width);
  preset.activation_scale = ScaleParameter::kClip;
  return preset;
}

/// ReBNet: Ghasemzadeh et al. 2017, arXiv:1711.01243.
QatPreset residual_binary(int levels) {
  const std::string activations = fmt::format("binary_residual:levels={},scale_rule=learned", levels);
  return {
      .name = fmt::format("residual_binary{}", levels),
      .help = fmt::format("weights of -1 and 1, activations of {} sign{} with learned gammas; see the pass "
                          "lutnet",
                          levels, levels == 1 ? "" : "s"),
      .weights = "binary:scale_rule=learned",
      .activations = activations,
      .activations_not_below_0 = activations};
}

QatPreset learned_widths() {
  QatPreset preset =
      learned("mixed_lsq", 4, 8,
              "weights of 4 bits in the beginning, widths and ranges learned, 8-bit activations; "
              "see `detent train --width-budget`");
  preset.weight_scale = ScaleParameter::kRange;
  preset.learns_widths = true;
  return preset;
}

QatPreset learned_ternary() {
  QatPreset preset = few_signs("ternary_a8", "ternary:granularity=channel,scale_rule=learned",
                               "weights of -1, 0 and 1, scales and thresholds learned, 8-bit activations");
  preset.learns_threshold = true;
  return preset;
}

/// Whatever the step of the optimizer, such scales stay above 0, and each moves relative to its size.
QatPreset log_scales(int width) {
  QatPreset preset = learned(fmt::format("int{}_log", width), width, width,
                             fmt::format("{} bits, scales learned by their logarithms", width));
  preset.weight_scale = preset.activation_scale = ScaleParameter::kLog2;
  return preset;
}

QatPreset shifted() {
  QatPreset preset = lsq_plus(8);
  preset.name = "uint8_shifted";
  preset.help = "8 bits with zero points: of weights from their range a channel, of activations learned";
  preset.weights = "affine:width=8,signed=false,granularity=channel";
  return preset;
}

QatPreset stochastic_weights() {
  QatPreset preset = learned("int4_stochastic", 4, 4,
                             "4 bits, scales learned; weights are rounded at random while they are trained");
  preset.weight_rounding = Rounding::kStochastic;
  return preset;
}

/// AdaRound (Nagel et al. 2020, arXiv:2004.10568) with the loss of the network.
QatPreset learned_rounding(int width) {
  QatPreset preset =
      learned(fmt::format("w{}a8_learned_rounding", width), width, 8,
              fmt::format("{}-bit weights that stay, and learn whether they are rounded up or down; 8-bit "
                          "activations",
                          width));
  preset.weight_rounding = Rounding::kLearned;
  return preset;
}

/// DoReFa-Net (Zhou et al. 2016, arXiv:1606.06160) for weights of 2 bits and more.
QatPreset dorefa(int width) {
  QatPreset preset = learned(fmt::format("int{}_dorefa", width), width, width,
                             fmt::format("{} bits; weights bounded by tanh, of odd codes, activations "
                                         "between 0 and 1 (DoReFa)",
                                         width));
  preset.weights = learned_weights(width, "tensor");
  preset.weight_rounding = Rounding::kDorefa;
  preset.range_is_one = true;
  return preset;
}

/// The values of weights, which are learned, begin as those that fit the weights best.
QatPreset codebook_weights(int bits) {
  std::string values;
  for (int i = 0; i < 1 << bits; ++i) values += fmt::format("{}{}", i == 0 ? "" : "x", i);
  QatPreset preset = few_signs(fmt::format("codebook{}_a8", 1 << bits), "codebook:values=" + values,
                               fmt::format("weights of {} learned values a layer (differentiable k-means), "
                                           "8-bit activations",
                                           1 << bits));
  preset.learns_field = true;
  return preset;
}

QatPreset learned_exponent_biases(int width, int exponent_width) {
  QatPreset preset =
      of_one_format(fmt::format("fp{}_learned_bias", width),
                    fmt::format("minifloat_ieee:width={},exponent_width={}", width, exponent_width),
                    fmt::format("{}-bit floats, {} exponent bits, whose exponent biases are learned", width,
                                exponent_width));
  preset.learns_field = true;
  return preset;
}

}  // namespace

std::span<const QatPreset> all_qat_presets() {
  static const std::vector<QatPreset> presets = {
      lsq("int8_lsq", 8, 8, "8-bit weights and activations"),
      lsq("int4_lsq", 4, 4, "4-bit weights and activations"),
      lsq("int3_lsq", 3, 3, "3-bit weights and activations"),
      lsq("int2_lsq", 2, 2, "2-bit weights and activations"),
      lsq("w4a8_lsq", 4, 8, "4-bit weights, 8-bit activations"),
      lsq("w3a8_lsq", 3, 8, "3-bit weights, 8-bit activations"),
      lsq("ternary_a8_lsq", 2, 8, "weights of -1, 0 and 1, 8-bit activations"),
      learned_ternary(),
      few_signs("binary_a8", "binary:granularity=channel,scale_rule=learned",
                "weights of -1 and 1 times a learned scale per channel, 8-bit activations"),
      few_signs("binary_residual_a8", "binary_residual:levels=2,scale_rule=learned",
                "weights of two signs with learned gammas, 8-bit activations"),
      residual_binary(1),
      residual_binary(2),
      residual_binary(3),
      residual_binary(4),
      learned_widths(),
      ranged("int8_tensor", "tensor", "8 bits; weights by their largest magnitude, a tensor"),
      ranged("int8_channel", "channel", "8 bits; weights by their largest magnitude, a channel"),
      shifted(),
      log_scales(8),
      log_scales(4),
      log_scales(3),
      log_scales(2),
      powers_of_two(8),
      powers_of_two(4),
      lsq_plus(4),
      lsq_plus(2),
      pact(8),
      pact(4),
      pact(2),
      stochastic_weights(),
      learned_rounding(4),
      learned_rounding(3),
      dorefa(4),
      dorefa(2),
      codebook_weights(4),
      codebook_weights(2),
      learned_exponent_biases(8, 4),
      learned_exponent_biases(6, 3),
      learned_exponent_biases(4, 2),
      of_one_format("fp8_e4m3", "fp8_e4m3fn", "8-bit floats, 3 mantissa bits"),
      of_one_format("fp8_e5m2", "fp8_e5m2", "8-bit floats, 2 mantissa bits"),
      of_one_format("mxfp8", "mx:element=e4m3", "OCP microscaling: 8-bit floats in blocks of 32"),
      of_one_format("mxfp4", "mx:element=e2m1", "OCP microscaling: 4-bit floats in blocks of 32"),
  };
  return presets;
}

const QatPreset& find_qat_preset(std::string_view name, const std::string& where) {
  std::vector<std::string> known;
  for (const QatPreset& preset : all_qat_presets()) {
    if (preset.name == name) return preset;
    known.push_back(preset.name);
  }
  fail("{}: {}", where, unknown_name_message("quantizer", std::string(name), known));
}

}  // namespace detent
