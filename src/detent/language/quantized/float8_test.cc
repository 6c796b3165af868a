#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/language/quantized/quantized_folder_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// The obvious decoding of float8_e4m3fn.
float value_of_e4m3(uint32_t code) {
  const auto exponent = static_cast<int>(code >> 3U & 15U);
  const auto mantissa = static_cast<float>(code & 7U);
  const float size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
  return (code & 128U) != 0 ? -size : size;
}

Encode float8_encoder(int64_t rows, int64_t columns, const std::string& end, DType of_scales) {
  return [=, draws = Draws()](const std::string& stem, int64_t out, int64_t in) mutable {
    const Shape grid = {(out + rows - 1) / rows, (in + columns - 1) / columns};
    std::vector<float> scales;
    for (int64_t i = 0; i < grid[0] * grid[1]; ++i)
      scales.push_back(bfloat16_to_float(float_to_bfloat16(draws.scale() / 64)));
    Tensor codes(DType::kFloat8E4M3, {out, in});
    Tensor weights(DType::kFloat32, {out, in});
    for (int64_t i = 0; i < out * in; ++i) {
      uint32_t code = draws.below(256);
      if ((code & 127U) == 127U) code -= 1;  // NaN
      codes.bytes()[static_cast<size_t>(i)] = static_cast<std::byte>(code);
      const int64_t block = i / in / rows * grid[1] + i % in / columns;
      weights.values<float>()[static_cast<size_t>(i)] =
          value_of_e4m3(code) * scales[static_cast<size_t>(block)];
    }
    return EncodedMatrix{{{stem + ".weight", codes}, {stem + end, narrow(of_scales, grid, scales)}}, weights};
  };
}

TEST_F(QuantizedFolder, HasFloat8InBlocksOfAnySize) {
  const Table json = {{"quant_method", "fp8"}, {"weight_block_size", List{48, 32}}};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
    expect_exact(json, float8_encoder(48, 32, ".weight_scale_inv", dtype), 9.5, float8_of_groups(32));
  const Table uneven = {{"quant_method", "fp8"}, {"weight_block_size", List{40, 64}}};
  const Parts stored = tensors_by(float8_encoder(40, 64, ".weight_scale_inv", DType::kFloat32)).second;
  EXPECT_THAT(
      refusal(uneven, stored),
      HasSubstr("down_proj.weight has 96 inputs, no multiple of the 64 that are rounded by one scale"));
  const Table whole = {{"quant_method", "fp8"}};
  expect_exact(whole, float8_encoder(96, 96, ".weight_scale_inv", DType::kFloat32), 9, float8_of_groups(96));
  expect_exact(whole, float8_encoder(96, 96, ".weight_scale", DType::kFloat32), 9, float8_of_groups(96));
  const Table rows = {{"quant_method", "fbgemm_fp8"}};
  expect_exact(rows, float8_encoder(1, 96, ".weight_scale", DType::kFloat32), 9);
  EXPECT_THAT(describe_quantization(folder_), HasSubstr("activations are not rounded"));
}

TEST_F(QuantizedFolder, HasScalesOfInputsInFloat8) {
  const Table json = {{"quant_method", "fp8"}, {"activation_scheme", "static"}};
  const auto rounding = [](int64_t /*inputs*/) { return "scaled:element=fp8_e4m3fn,scale=0.0625"; };
  const Encode encode = float8_encoder(96, 96, ".weight_scale_inv", DType::kFloat32);
  Table blocks = json;
  blocks["weight_block_size"] = List{48, 40};
  expect_exact(blocks,
               with_numbers(float8_encoder(48, 40, ".weight_scale_inv", DType::kBFloat16),
                            {{".input_scale", one_number(0.0625F)}}),
               9.5, rounding);
  for (const char* const name : {".activation_scale", ".input_scale"})
    expect_exact(json, with_numbers(encode, {{name, one_number(0.0625F)}}), 9, rounding);
  EXPECT_THAT(describe_quantization(folder_), HasSubstr("inputs of these matrices likewise, by a scale"));
  EXPECT_THAT(refusal(json, tensors_by(encode).second),
              HasSubstr("there is no tensor model.layers.0.mlp.down_proj.activation_scale"));
  const Parts broken = tensors_by(with_numbers(encode, {{".input_scale", one_number(-1)}})).second;
  EXPECT_THAT(refusal(json, broken), HasSubstr("input_scale is -1, expected a number above 0"));
}

/// As transformers' act_quant says: of each block of a token the largest magnitude becomes 448.
TEST_F(QuantizedFolder, RoundsInputsOfEachTokenByThemselves) {
  constexpr int64_t kTokenCount = 3;
  constexpr int64_t kWidth = 8;
  constexpr int64_t kBlock = 4;
  Draws draws;
  Tensor values(DType::kFloat32, {1, kTokenCount, kWidth});
  for (float& x : values.values<float>()) x = static_cast<float>(draws.below(2001)) * 1e-2F - 10;
  const Tensor rounded = fake_quantize(parse_quant_spec_text(float8_of_groups(kBlock)(kWidth)), values);
  for (size_t i = 0; i < kTokenCount * kWidth; i += kBlock) {
    const auto block = values.values<float>().subspan(i, kBlock);
    float largest = 0;
    for (const float x : block) largest = std::max(largest, std::abs(x));
    const float scale = largest / 448;
    for (size_t k = 0; k < kBlock; ++k) {
      float nearest = value_of_e4m3(0);
      for (uint32_t code = 0; code < 255; ++code) {
        if ((code & 127U) == 127U) continue;
        const float value = value_of_e4m3(code);
        if (std::abs(block[k] / scale - value) < std::abs(block[k] / scale - nearest)) nearest = value;
      }
      EXPECT_EQ(rounded.values<float>()[i + k], nearest * scale) << block[k];
    }
  }
}

TEST_F(QuantizedFolder, HasFloatsOfModelopt) {
  const Encode whole = float8_encoder(96, 96, ".weight_scale", DType::kFloat32);
  const Table fp8 = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
  expect_exact(fp8, whole, 9);
  expect_exact(fp8, with_numbers(whole, {{".input_scale", one_number(0.03125F)}}), 9,
               [](int64_t /*inputs*/) { return "scaled:element=fp8_e4m3fn,scale=0.03125"; });
  const Table nvfp4 = {{"quant_algo", "NVFP4"}, {"kv_cache_quant_algo", "FP8"}, {"group_size", 16}};
  Table json = nvfp4;
  json["quant_method"] = "modelopt";
  const Encode encode = nibble_encoder(16, NibbleScales::kMultiplied);
  expect_exact(json, encode, 6.1);
  expect_exact(json, with_numbers(encode, {{".input_scale", one_number(0.0078125F)}}), 6.1,
               [](int64_t /*inputs*/) { return "nvfp4:tensor_scale=0.0078125"; });
  const auto [plain, stored] = tensors_by(encode);
  write({}, plain);
  const Tensor expected = executed();
  write({}, stored);
  write_json(folder_ / "hf_quant_config.json", Value(Table{{"quantization", nvfp4}}));
  EXPECT_TRUE(executed().equals(expected)) << "older folders have a file for that";
  json["quant_algo"] = "W4A8_AWQ";
  EXPECT_THAT(refusal(json, stored), HasSubstr("the quant_algo is \"W4A8_AWQ\", expected FP8 or NVFP4"));
}

TEST_F(QuantizedFolder, RefusesDamagedFloat8) {
  const Table json = {
      {"quant_method", "fp8"}, {"weight_block_size", List{48, 40}}, {"activation_scheme", "static"}};
  const Encode encode = float8_encoder(48, 40, ".weight_scale_inv", DType::kFloat32);
  const Parts stored = tensors_by(with_numbers(encode, {{".input_scale", one_number(0.0625F)}})).second;
  Parts changed = stored;
  std::erase_if(changed,
                [](const auto& part) { return part.first.ends_with("1.mlp.up_proj.weight_scale_inv"); });
  EXPECT_THAT(refusal(json, changed),
              HasSubstr("model.layers.1.mlp.up_proj.weight is float8_e4m3fn, and nothing scales it: there is "
                        "no tensor of the same name and _scale_inv"));
  changed = stored;
  std::erase_if(changed, [](const auto& part) { return part.first.ends_with("1.mlp.up_proj.weight"); });
  EXPECT_THAT(refusal(json, changed), HasSubstr("there is no tensor model.layers.1.mlp.up_proj.weight"));
  Table other = json;
  other["weight_block_size"] = List{64, 40};
  EXPECT_THAT(refusal(other, stored),
              HasSubstr("down_proj.weight_scale_inv has shape [2, 3], expected [1, 3]"));
  changed = stored;
  for (auto& [name, tensor] : changed) {
    if (name.ends_with("0.self_attn.q_proj.weight")) (tensor = tensor.clone()).bytes()[7] = std::byte{127};
  }
  EXPECT_THAT(refusal(json, changed), HasSubstr("0.self_attn.q_proj.weight has infinities or NaN"));
}

}  // namespace
}  // namespace detent
