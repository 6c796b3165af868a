#include "detent/passes/transform/qat_presets.h"

#include <vector>

#include <fmt/format.h>

#include "detent/core/error.h"

namespace detent {
namespace {

std::string learned_weights(int width) {
  return fmt::format("int{}:narrow_range=true,granularity=channel,scale_rule=learned", width);
}

/// LSQ: Esser et al. 2019, arXiv:1902.08153.
QatPreset lsq(std::string name, int weights, int activations, const std::string& help) {
  return {std::move(name), help + "; scales learned (LSQ): of weights a channel, of activations a tensor",
          learned_weights(weights), fmt::format("int{}:scale_rule=learned", activations),
          fmt::format("affine:width={},signed=false,scale_rule=learned", activations)};
}

QatPreset of_one_format(std::string name, const std::string& format, std::string help) {
  return {std::move(name), std::move(help), format, format, format};
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
