#include <algorithm>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/quantized/quantization.h"

namespace detent {
namespace {

// 8-bit floats times float32 scales: in blocks (DeepSeek V3, Qwen 3), or of each output (FBGEMM).

/// Rows and columns of a block.
Shape block_of_json(const ConfigReader& json) {
  constexpr int64_t kUsualBlock = 128;
  if (!json.has("weight_block_size")) return {kUsualBlock, kUsualBlock};
  const std::vector<int64_t> block = json.integers("weight_block_size");
  if (block.size() != 2 || block[0] < 1 || block[1] < 1 || block[0] > kWholeSide || block[1] > kWholeSide)
    json.refuse("weight_block_size", "expected two numbers from 1 on");
  return block;
}

bool has_static_inputs(const ConfigReader& json) {
  const std::string scheme = json.text("activation_scheme", "dynamic");
  if (scheme != "dynamic" && scheme != "static")
    json.refuse("activation_scheme", "expected dynamic or static");
  return scheme == "static";
}

std::string describe_fp8(const ConfigReader& json) {
  for (const char* key : {"fmt", "format"}) {
    if (json.has(key) && json.text(key, "") != "e4m3" && json.text(key, "") != "float8_e4m3fn")
      json.refuse(key, "expected e4m3");
  }
  const bool is_static = has_static_inputs(json);
  if (json.text("expert_dtype", "fp8") != "fp8") json.refuse("expert_dtype", "expected fp8");
  const Shape block = block_of_json(json);
  const std::string blocks = json.has("weight_block_size")
                                 ? fmt::format("of each {} x {} weights", block[0], block[1])
                                 : "of each block or matrix";
  const std::string inputs = is_static                       ? "a scale of the file"
                             : json.has("weight_block_size") ? fmt::format("{} of a token", block[1])
                                                             : "block or token";
  return fmt::format(
      "fp8: float8_e4m3fn times a scale {}, in float32; inputs of these matrices likewise, by {}", blocks,
      inputs);
}

/// Rounding of the inputs of a matrix whose weights share scales in blocks of that size.
QuantSpec float8_inputs(const ConfigReader& json, FolderParts& parts, const std::string& weight,
                        const Shape& shape, int64_t block) {
  if (!has_static_inputs(json)) return float8_of_tokens(parts, weight, shape[1], std::min(block, shape[1]));
  constexpr std::string_view kEnd = ".weight";
  const bool is_layer = weight.ends_with(kEnd);
  const std::string stem = is_layer ? weight.substr(0, weight.size() - kEnd.size()) + "." : weight + "_";
  const std::string older = stem + "input_scale";
  return float8_by_scale(parts, parts.has(older) ? older : stem + "activation_scale");
}

StoredMatrices take_fp8(const ConfigReader& json, FolderParts& parts) {
  const Shape block = block_of_json(json);
  StoredMatrices matrices;
  const auto add = [&](const std::string& weight, const std::string& scale, const Shape& of_scale) {
    StoredMatrix matrix = scaled_bytes(parts, weight, scale, of_scale);
    matrix.inputs = float8_inputs(json, parts, weight, matrix.shape, of_scale[1]);
    matrices.emplace(weight, std::move(matrix));
  };
  for (const std::string& weight : parts.stems("_scale_inv")) {
    const std::string scale = weight + "_scale_inv";
    const bool is_one = parts.get(scale).numel() == 1;
    add(weight, scale, is_one ? Shape{kWholeSide, kWholeSide} : block);
  }
  // AutoFP8's name, of one scale a matrix.
  for (const std::string& stem : parts.stems(".weight_scale")) {
    add(stem + ".weight", stem + ".weight_scale", {kWholeSide, kWholeSide});
  }
  parts.drop({".activation_scale", ".input_scale", "_activation_scale", ".k_scale", ".v_scale"});
  parts.expect_none_left({DType::kFloat8E4M3, DType::kFloat8E5M2}, "the same name and _scale_inv");
  return matrices;
}

std::string describe_fbgemm(const ConfigReader& /*json*/) {
  return "fbgemm_fp8: float8_e4m3fn times a scale of each output, in float32; activations are not rounded "
         "(dynamic)";
}

StoredMatrices take_fbgemm(const ConfigReader& /*json*/, FolderParts& parts) {
  StoredMatrices matrices;
  for (const std::string& stem : parts.stems(".weight_scale")) {
    const std::string weight = stem + ".weight";
    matrices.emplace(weight, scaled_bytes(parts, weight, weight + "_scale", {1, kWholeSide}));
  }
  parts.drop({".input_scale_ub"});
  parts.expect_none_left({DType::kFloat8E4M3, DType::kFloat8E5M2}, "the same name and _scale");
  return matrices;
}

constexpr int64_t kGroupOfNvfp4 = 16;

std::string describe_modelopt(const ConfigReader& json) {
  const std::string algorithm = json.text("quant_algo", "");
  if (algorithm == "FP8")
    return "modelopt: float8_e4m3fn times a scale of each matrix, in float32; inputs of these matrices "
           "likewise, where the file has their scale";
  if (algorithm != "NVFP4")
    fail("{}: the quant_algo is \"{}\", expected FP8 or NVFP4", json.where(), algorithm);
  return "modelopt: NVFP4, times a scale of each 16 weights and one of the matrix, in float32; inputs of "
         "these matrices likewise, where the file has their scale";
}

/// The scale of a block times that of the matrix.
StoredMatrix modelopt_nibbles(FolderParts& parts, const std::string& weight) {
  const std::string second = weight + "_scale_2";
  const Tensor factor = float32_scales(parts.take(second), parts.where() + ": " + second);
  if (factor.numel() != 1)
    fail("{}: {} has shape {}, expected one number", parts.where(), second, shape_text(factor.shape()));
  StoredMatrix matrix = scaled_nibbles(parts, weight, weight + "_scale", kGroupOfNvfp4, 1);
  matrix.grid = [grid = std::move(matrix.grid), by = factor.values<float>()[0]] {
    ScaleGrid found = grid();
    found.scales = found.scales.clone();
    for (float& scale : found.scales.values<float>()) scale *= by;
    return found;
  };
  return matrix;
}

StoredMatrices take_modelopt(const ConfigReader& json, FolderParts& parts) {
  const bool is_fp8 = json.text("quant_algo", "") == "FP8";
  StoredMatrices matrices;
  for (const std::string& stem : parts.stems(".weight_scale")) {
    const std::string weight = stem + ".weight";
    const std::string of_inputs = stem + ".input_scale";
    if (is_fp8) {
      StoredMatrix matrix = scaled_bytes(parts, weight, weight + "_scale", {kWholeSide, kWholeSide});
      if (parts.has(of_inputs)) matrix.inputs = float8_by_scale(parts, of_inputs);
      matrices.emplace(weight, std::move(matrix));
    } else {
      StoredMatrix matrix = modelopt_nibbles(parts, weight);
      if (parts.has(of_inputs)) matrix.inputs = nvfp4_by_scale(parts, of_inputs, TensorScale::kFactor);
      matrices.emplace(weight, std::move(matrix));
    }
  }
  parts.drop({".input_scale", ".k_scale", ".v_scale"});
  parts.expect_none_left({DType::kFloat8E4M3, DType::kUInt8}, "the same name and _scale");
  return matrices;
}

}  // namespace

QuantizationMethod fp8_method() { return {.name = "fp8", .describe = describe_fp8, .take = take_fp8}; }

QuantizationMethod fbgemm_fp8_method() {
  return {.name = "fbgemm_fp8", .describe = describe_fbgemm, .take = take_fbgemm};
}

QuantizationMethod modelopt_method() {
  return {.name = "modelopt", .describe = describe_modelopt, .take = take_modelopt};
}

}  // namespace detent
