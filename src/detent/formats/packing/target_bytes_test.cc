// Every SIMD target writes the same bytes: values, masks of the clipped gradient, codes and what they decode
// to, signs of zeros and bits of NaN included.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "detent/formats/every_target_test.h"
#include "detent/formats/format_cases_test.h"
#include "detent/formats/packing/encode.h"

namespace detent {
namespace {

/// Formats with parameters of each channel, of both layouts.
const char* const kChannelFormats[] = {
    "affine:granularity=channel",
    "affine:signed=false,granularity=channel,axis=1",
    "affine:width=3,symmetric=true,granularity=channel,axis=1",
    "ternary:scaling_factor=true,granularity=channel",
    "binary:scaling=per_channel,axis=1",
    "binary:bipolar=false,scaling=per_channel",
    "binary_residual:levels=3,granularity=channel",
};

/// Hard values, of which blocks of several sizes are made, around ordinary ones that set scales.
Tensor hard_tensor(uint32_t seed) {
  std::vector<float> values = hard_values();
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  while (values.size() % (size_t{7} * 48) != 0) values.push_back(normal(random));
  std::ranges::shuffle(values, random);
  return Tensor::from({7, static_cast<int64_t>(values.size()) / 7}, values);
}

/// The same without what not every format encodes, nor so far apart: scales follow from the largest.
Tensor moderate_tensor(uint32_t seed) {
  Tensor tensor = hard_tensor(seed);
  for (float& x : tensor.values<float>()) {
    if (!(std::fabs(x) <= 100)) x = std::signbit(x) ? -0.0F : 0.75F;
  }
  return tensor;
}

std::vector<QuantSpec> all_specs() {
  std::vector<QuantSpec> specs;
  for (const char* text : kElementFormats) specs.push_back(parse_quant_spec_text(text));
  for (const char* text : kChannelFormats) specs.push_back(parse_quant_spec_text(text));
  for (const char* text : kBlockFormats) {
    for (const char* size : {"16", "32", "4", "3", "2x8"}) {
      specs.push_back(spec_of(text, std::string("block_size=") + size));
    }
  }
  return specs;
}

/// All that a format makes of a tensor.
std::vector<Tensor> results(const QuantSpec& spec, const Tensor& hard, const Tensor& moderate) {
  std::vector<Tensor> tensors = {fake_quantize(spec, hard, 3), fake_quantize(spec, moderate, 3),
                                 clipped_ste_mask(spec, hard), clipped_ste_mask(spec, moderate)};
  const Encoded encoded = encode(spec, moderate, Packing::kBits, 3);
  for (const EncodedStream& stream : encoded.streams) tensors.push_back(stream.data);
  tensors.push_back(decode(encoded));
  return tensors;
}

TEST(TargetBytes, AreTheSameForEveryFormat) {
  const std::vector<QuantSpec> specs = all_specs();
  const Tensor hard = hard_tensor(1);
  const Tensor moderate = moderate_tensor(2);
  std::vector<std::vector<Tensor>> expected;
  for (const std::string& target : simd_targets()) {
    set_simd_target(target, "test");
    for (size_t s = 0; s < specs.size(); ++s) {
      const std::vector<Tensor> got = results(specs[s], hard, moderate);
      if (expected.size() == s) expected.push_back(got);
      ASSERT_EQ(got.size(), expected[s].size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(got[i].equals(expected[s][i])) << target << ": " << quant_spec_text(specs[s]) << " " << i;
      }
    }
  }
  set_simd_target(simd_targets().front(), "test");
}

/// Where a format has both zeros, a result of 0 has the sign of its input; where it has one, it is +0. Codes
/// say the same.
TEST(TargetBytes, SignsOfZerosAreThoseThatCodesHold) {
  const Tensor input = Tensor::from({8}, std::vector<float>{0.0F, 1, -0.0F, -1, 1e-30F, -1, -1e-30F, 1});
  const auto signs = [&](const char* text) {
    const QuantSpec spec = parse_quant_spec_text(text);
    const Tensor values = fake_quantize(spec, input);
    EXPECT_EQ(bit_difference(input, decode(encode(spec, input)), values), "") << text;
    std::string result;
    for (size_t i = 0; i < 8; i += 2) {
      const float x = values.values<float>()[i];
      EXPECT_EQ(x, 0.0F) << text;
      result += std::signbit(x) ? '-' : '+';
    }
    return result;
  };
  for (const std::string& target : simd_targets()) {
    set_simd_target(target, "test");
    for (const char* text : {"minifloat_ieee", "minifloat_denorm", "fp8_e4m3fn", "fp8_e5m2", "fp6_e3m2",
                             "fp6_e2m3", "fp4_e2m1", "fp16", "block_fp", "block_minifloat", "mx:element=e4m3",
                             "mx:element=e2m1", "mx:element=e2m1,block_size=2", "nvfp4"}) {
      EXPECT_EQ(signs(text), "+-+-") << target << ": " << text;
    }
    for (const char* text :
         {"fixed", "fixed:signed=false", "affine", "affine:symmetric=true", "affine:signed=false", "ternary",
          "ternary:scaling_factor=true", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "mx:element=int8",
          "mx:element=int8,block_size=2", "binary_residual:gamma=0x0", "codebook:values=-1x0x1"}) {
      EXPECT_EQ(signs(text), "++++") << target << ": " << text;
    }
  }
  set_simd_target(simd_targets().front(), "test");
}

/// A scale of 0 leaves one zero to formats without: no finite element is above the threshold, or all are 0.
TEST(TargetBytes, ScalesOfZeroGivePositiveZeros) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Tensor input = Tensor::from({4}, std::vector<float>{0.0F, -0.0F, -kInfinity, kInfinity});
  for (const std::string& target : simd_targets()) {
    set_simd_target(target, "test");
    for (const char* text : {"ternary:scaling_factor=true,threshold=2", "binary:scaling=per_tensor"}) {
      const QuantSpec spec = parse_quant_spec_text(text);
      const Tensor zeros(DType::kFloat32, {4});
      EXPECT_TRUE(fake_quantize(spec, input).equals(zeros)) << target << ": " << text;
      EXPECT_TRUE(decode(encode(spec, input)).equals(zeros)) << target << ": " << text;
    }
  }
  set_simd_target(simd_targets().front(), "test");
}

}  // namespace
}  // namespace detent
