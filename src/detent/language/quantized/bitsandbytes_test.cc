#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "detent/language/quantized/quantized_folder_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

constexpr float kOffset = 0.03F;

/// Indices in 16 values, the first of a byte in its high half. Scales of blocks may be indices themselves.
Encode four_bit_encoder(int64_t block, bool is_nested) {
  return [=, draws = Draws()](const std::string& stem, int64_t out, int64_t in) mutable {
    const std::string name = stem + ".weight";
    std::vector<float> values;
    for (int i = 0; i < 16; ++i) values.push_back(static_cast<float>(i * i) / 300 - 0.4F);
    std::vector<float> values_of_scales;
    for (int i = 0; i < 256; ++i) values_of_scales.push_back(static_cast<float>(i) / 255);
    const int64_t blocks = (out * in + block - 1) / block;
    Tensor maxima(is_nested ? DType::kUInt8 : DType::kFloat32, {blocks});
    Tensor nested(DType::kFloat32, {(blocks + 15) / 16});
    for (float& scale : nested.values<float>()) scale = draws.scale();
    std::vector<float> scales;
    for (size_t i = 0; i < static_cast<size_t>(blocks); ++i) {
      if (is_nested) {
        const uint32_t code = draws.below(256);
        maxima.values<uint8_t>()[i] = static_cast<uint8_t>(code);
        volatile float product = values_of_scales[code] * nested.values<float>()[i / 16];
        scales.push_back(product + kOffset);
      } else {
        scales.push_back(maxima.values<float>()[i] = draws.scale() * 1.1F);
      }
    }
    Tensor bytes(DType::kUInt8, {out * in / 2, 1});
    Tensor weights(DType::kFloat32, {out, in});
    for (int64_t i = 0; i < out * in; ++i) {
      const uint32_t code = draws.below(16);
      auto& byte = bytes.values<uint8_t>()[static_cast<size_t>(i / 2)];
      byte = static_cast<uint8_t>(byte | code << (i % 2 == 0 ? 4U : 0U));
      weights.values<float>()[static_cast<size_t>(i)] = values[code] * scales[static_cast<size_t>(i / block)];
    }
    const std::string state =
        fmt::format(R"({{"quant_type": "nf4", "blocksize": {}, "shape": [{}, {}], "nested_blocksize": 16, )"
                    R"("nested_offset": {}}})",
                    block, out, in, kOffset);
    const std::vector<uint8_t> text(state.begin(), state.end());
    EncodedMatrix encoded{
        {{name, bytes},
         {name + ".absmax", maxima},
         {name + ".quant_map", Tensor::from<float>({16}, values)},
         {name + ".quant_state.bitsandbytes__nf4", Tensor::from<uint8_t>({std::ssize(text)}, text)}},
        weights};
    if (is_nested) {
      encoded.parts.emplace_back(name + ".nested_absmax", nested);
      encoded.parts.emplace_back(name + ".nested_quant_map", Tensor::from<float>({256}, values_of_scales));
    }
    return encoded;
  };
}

TEST_F(QuantizedFolder, HasFourBitsOfBitsandbytes) {
  Table json = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  expect_exact(json, four_bit_encoder(32, false), 5.1);
  json["bnb_4bit_use_double_quant"] = true;
  expect_exact(json, four_bit_encoder(32, true), 5.1);
  expect_exact(json, four_bit_encoder(48, true), 32);  // blocks cross rows
}

TEST_F(QuantizedFolder, RefusesDamagedFourBits) {
  const Table json = {
      {"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  const Parts stored = tensors_by(four_bit_encoder(48, true)).second;
  const auto changed = [&](const std::string& end, const std::optional<Tensor>& tensor) {
    Parts parts;
    for (const auto& part : stored) {
      const bool is_it = part.first.ends_with("1.mlp.up_proj.weight" + end);
      if (!is_it) parts.push_back(part);
      if (is_it && tensor) parts.emplace_back(part.first, *tensor);
    }
    return refusal(json, parts);
  };
  EXPECT_THAT(changed(".absmax", {}),
              HasSubstr("there is no tensor model.layers.1.mlp.up_proj.weight.absmax"));
  EXPECT_THAT(changed(".absmax", Tensor(DType::kUInt8, {12})),
              HasSubstr(".absmax has shape [12], expected [128]"));
  EXPECT_THAT(changed(".nested_absmax", Tensor(DType::kFloat32, {3})),
              HasSubstr(".nested_absmax has shape [3], expected [8]"));
  EXPECT_THAT(changed(".quant_map", Tensor(DType::kFloat32, {15})), HasSubstr("expected [16]"));
  EXPECT_THAT(changed("", Tensor(DType::kUInt8, {77, 1})), HasSubstr("has 77 bytes, expected 3072"));
  EXPECT_THAT(changed(".quant_state.bitsandbytes__nf4", {}), HasSubstr("and nothing scales it"));
  const std::string state = R"({"shape": [3]})";
  EXPECT_THAT(
      changed(".quant_state.bitsandbytes__nf4",
              Tensor::from<uint8_t>({std::ssize(state)}, std::vector<uint8_t>(state.begin(), state.end()))),
      HasSubstr("\"shape\" is [3]: expected two sizes of a matrix"));
}

TEST_F(QuantizedFolder, HasEightBitsOfBitsandbytes) {
  const Encode encode = [draws = Draws()](const std::string& stem, int64_t out, int64_t in) mutable {
    Tensor codes(DType::kInt8, {out, in});
    Tensor maxima(DType::kFloat32, {out});
    Tensor weights(DType::kFloat32, {out, in});
    for (float& scale : maxima.values<float>()) scale = draws.scale() * 127;
    for (size_t i = 0; i < static_cast<size_t>(out * in); ++i) {
      const auto code = static_cast<int8_t>(draws.below(255) - 127);
      codes.values<int8_t>()[i] = code;
      const float scale = maxima.values<float>()[i / static_cast<size_t>(in)] * 7.874015718698502e-3F;
      weights.values<float>()[i] = static_cast<float>(code) * scale;
    }
    return EncodedMatrix{{{stem + ".weight", codes},
                          {stem + ".SCB", maxima},
                          {stem + ".weight_format", Tensor(DType::kUInt8, {1})}},
                         weights};
  };
  expect_exact({{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}}, encode, 9.1);
}

}  // namespace
}  // namespace detent
