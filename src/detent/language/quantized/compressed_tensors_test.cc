#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/language/quantized/quantized_folder_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

Table compressed_json(const char* format, const Table& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"ignore", List{"lm_head", "re:.*norm$"}},
          {"config_groups", Table{{"group_0", Table{{"targets", List{"Linear"}}, {"weights", weights}}}}}};
}

Table integer_scheme(int64_t bits, int64_t group, bool is_symmetric) {
  Table scheme = {{"num_bits", bits}, {"type", "int"}, {"symmetric", is_symmetric}};
  scheme["strategy"] = group == 0 ? "channel" : "group";
  if (group > 0) scheme["group_size"] = group;
  return scheme;
}

/// pack_to_int32: integers from -2^(bits - 1) on, plus that.
Encode packed_encoder(uint32_t bits, int64_t group, bool is_symmetric, bool is_reordered = false) {
  return [=, draws = Draws()](const std::string& stem, int64_t out, int64_t in) mutable {
    Integers matrix{out, in, bits, group == 0 ? in : group};
    matrix.fill(draws, is_symmetric ? std::optional(1U << (bits - 1)) : std::nullopt);
    if (is_reordered) std::ranges::reverse(matrix.group_of);
    EncodedMatrix encoded{
        {{stem + ".weight_packed", Integers::packed_rows(matrix.codes, in, bits)},
         {stem + ".weight_shape", Tensor::from<int64_t>({2}, std::vector<int64_t>{out, in})},
         {stem + ".weight_scale", narrow(DType::kFloat16, {out, matrix.groups()}, matrix.scales)}},
        matrix.weights()};
    if (!is_symmetric)
      encoded.parts.emplace_back(stem + ".weight_zero_point",
                                 Integers::packed_columns(matrix.zeros, matrix.groups(), bits));
    if (is_reordered)
      encoded.parts.emplace_back(stem + ".weight_g_idx", Tensor::from<int32_t>({in}, matrix.group_of));
    return encoded;
  };
}

TEST_F(QuantizedFolder, HasPackedIntegersOfCompressedTensors) {
  const auto check = [&](uint32_t bits, int64_t group, bool is_symmetric, double kept) {
    SCOPED_TRACE(fmt::format("{} bits, groups of {}", bits, group));
    expect_exact(compressed_json("pack-quantized", integer_scheme(bits, group, is_symmetric)),
                 packed_encoder(bits, group, is_symmetric), kept);
  };
  check(4, 32, true, 6);
  check(4, 32, false, 7);
  check(8, 0, true, 9.1);
  check(8, 32, false, 11);
  check(3, 16, false, 9);
  check(5, 0, false, 9.5);
  expect_exact(compressed_json("pack-quantized", integer_scheme(4, 32, true)),
               packed_encoder(4, 32, true, true), 5.1);
}

TEST_F(QuantizedFolder, RefusesDamagedCompressedTensors) {
  const Table json = compressed_json("pack-quantized", integer_scheme(4, 32, false));
  const Parts stored = tensors_by(packed_encoder(4, 32, false)).second;
  const auto changed = [&](const std::string& end, const Tensor& tensor) {
    Parts parts = stored;
    for (auto& [name, part] : parts) {
      if (name.ends_with("1.mlp.up_proj." + end)) part = tensor;
    }
    return refusal(json, parts);
  };
  EXPECT_THAT(changed("weight_shape", Tensor::from<int64_t>({2}, std::vector<int64_t>{96, -1})),
              HasSubstr("1.mlp.up_proj.weight_shape has no two sizes of a matrix"));
  EXPECT_THAT(changed("weight_scale", Tensor(DType::kFloat16, {96, 4})),
              HasSubstr("1.mlp.up_proj.weight_scale has shape [96, 4], expected [96, 2]"));
  EXPECT_THAT(changed("weight_packed", Tensor(DType::kInt32, {96, 9})),
              HasSubstr("weight_packed has shape [96, 9], expected [96, 8]"));
  EXPECT_THAT(changed("weight_zero_point", Tensor(DType::kInt32, {12, 1})),
              HasSubstr("weight_zero_point has shape [12, 1], expected [12, 2]"));
  Parts lacking = stored;
  std::erase_if(lacking,
                [](const auto& part) { return part.first.ends_with("0.mlp.up_proj.weight_zero_point"); });
  EXPECT_THAT(refusal(json, lacking), HasSubstr("int4 by group of 32, with zero points: there is no tensor "
                                                "model.layers.0.mlp.up_proj.weight_zero_point"));
  const auto with = [&](const Table& scheme) {
    return refusal(compressed_json("pack-quantized", scheme), stored);
  };
  EXPECT_THAT(with(integer_scheme(4, 40, false)), HasSubstr("96 inputs are no multiple of the group_size"));
  EXPECT_THAT(with(integer_scheme(9, 32, false)), HasSubstr("\"num_bits\" is 9: expected 2 to 8"));
  EXPECT_THAT(refusal(compressed_json("marlin-24", integer_scheme(4, 32, false)), stored),
              HasSubstr("\"format\" is \"marlin-24\": expected one of dense"));
  Table sparse = json;
  sparse["sparsity_config"] = Table{{"format", "sparse-24-bitmask"}};
  EXPECT_THAT(refusal(sparse, stored), HasSubstr("expected dense: decompress the folder"));
}

/// Signed bytes with a scale, and a zero point, of each output.
Encode byte_encoder(bool is_symmetric) {
  return [=, draws = Draws()](const std::string& stem, int64_t out, int64_t in) mutable {
    Tensor codes(DType::kInt8, {out, in});
    Tensor zeros(DType::kInt8, {out, 1});
    Tensor weights(DType::kFloat32, {out, in});
    std::vector<float> scales;
    for (int64_t i = 0; i < out; ++i) scales.push_back(draws.scale());
    if (!is_symmetric) {
      for (int8_t& zero : zeros.values<int8_t>()) zero = static_cast<int8_t>(draws.below(256));
    }
    for (size_t i = 0; i < static_cast<size_t>(out * in); ++i) {
      const auto code = static_cast<int8_t>(draws.below(256));
      const size_t row = i / static_cast<size_t>(in);
      codes.values<int8_t>()[i] = code;
      weights.values<float>()[i] = static_cast<float>(code - zeros.values<int8_t>()[row]) * scales[row];
    }
    EncodedMatrix encoded{
        {{stem + ".weight", codes}, {stem + ".weight_scale", narrow(DType::kFloat16, {out, 1}, scales)}},
        weights};
    if (!is_symmetric) encoded.parts.emplace_back(stem + ".weight_zero_point", zeros);
    return encoded;
  };
}

TEST_F(QuantizedFolder, HasBytesOfCompressedTensors) {
  for (const bool is_symmetric : {true, false}) {
    Table json = compressed_json("int-quantized", integer_scheme(8, 0, is_symmetric));
    Table& inputs = json.table("config_groups").table("group_0").table("input_activations");
    inputs = {{"num_bits", 8}, {"dynamic", true}, {"strategy", "token"}};
    const double bits = is_symmetric ? 9.1 : 10;
    expect_exact(json, byte_encoder(is_symmetric), bits);
    EXPECT_THAT(describe_quantization(folder_), HasSubstr("activations are not rounded (int8 by token)"));
  }
}

TEST_F(QuantizedFolder, HasScalesOfInputsOfCompressedTensors) {
  Table json = compressed_json("int-quantized", integer_scheme(8, 0, true));
  Table& inputs = json.table("config_groups").table("group_0").table("input_activations");
  inputs = {{"num_bits", 8}, {"strategy", "tensor"}, {"dynamic", false}};
  const Encode encode = byte_encoder(true);
  expect_exact(json, with_numbers(encode, {{".input_scale", one_number(0.0625F)}}), 9.1,
               [](int64_t /*inputs*/) { return "affine:scale=0.0625"; });
  EXPECT_THAT(describe_quantization(folder_), HasSubstr("; inputs int8 by tensor, by scales of the file"));
  EXPECT_THAT(refusal(json, tensors_by(encode).second), HasSubstr("there is no tensor"));
  inputs["symmetric"] = false;
  Tensor zero(DType::kInt8, {1});
  zero.values<int8_t>()[0] = -7;
  expect_exact(json,
               with_numbers(encode, {{".input_scale", one_number(0.0625F)}, {".input_zero_point", zero}}),
               9.1, [](int64_t /*inputs*/) { return "affine:scale=0.0625,zero_point=-7"; });
  inputs = {{"num_bits", 8}, {"type", "float"}, {"dynamic", true}, {"strategy", "group"}, {"group_size", 32}};
  expect_exact(json, encode, 9.1, float8_of_groups(32));
  inputs["strategy"] = "token";
  expect_exact(json, encode, 9.1, float8_of_groups(96));
  inputs["dynamic"] = "local";
  inputs["num_bits"] = 4;
  expect_exact(json, encode, 9.1);
}

TEST_F(QuantizedFolder, HasFloatsOfFourBitsOfCompressedTensors) {
  Table scheme = {{"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}};
  expect_exact(compressed_json("nvfp4-pack-quantized", scheme), nibble_encoder(16, NibbleScales::kDivided),
               6.1);
  Table json = compressed_json("nvfp4-pack-quantized", scheme);
  Table& inputs = json.table("config_groups").table("group_0").table("input_activations");
  inputs = scheme;
  inputs["dynamic"] = "local";
  const Encode encode = nibble_encoder(16, NibbleScales::kDivided);
  expect_exact(json, with_numbers(encode, {{".input_global_scale", one_number(128)}}), 6.1,
               [](int64_t /*inputs*/) { return "nvfp4:tensor_scale=0.0078125"; });
  EXPECT_THAT(describe_quantization(folder_), HasSubstr("; inputs nvfp4, by a scale of the file"));
  EXPECT_THAT(refusal(json, tensors_by(encode).second), HasSubstr("input_global_scale"));
  const Parts lacking = tensors_by(nibble_encoder(16, NibbleScales::kExponents)).second;
  EXPECT_THAT(refusal(compressed_json("nvfp4-pack-quantized", scheme), lacking),
              HasSubstr("there is no tensor model.layers.0.mlp.down_proj.weight_global_scale"));
  scheme["strategy"] = "group";
  scheme["group_size"] = 32;
  expect_exact(compressed_json("mxfp4-pack-quantized", scheme), nibble_encoder(32, NibbleScales::kExponents),
               5.1);
}

}  // namespace
}  // namespace detent
