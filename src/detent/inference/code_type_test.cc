#include "detent/inference/code_type.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/formats/packing/encode.h"

namespace detent {
namespace {

/// The code type of an operand with this quantizer.
std::optional<CodeType> code_type(const Quantizer& quantizer) {
  Node node;
  node.quantization["weight"] = quantizer;
  return operand_code_type(node, "weight");
}
std::optional<CodeType> code_type(const char* format) { return code_type(parse_quant_spec_text(format)); }

TEST(CodeType, IsOfAffineFormatsWithOneGivenScale) {
  EXPECT_FALSE(code_type("affine"));
  EXPECT_FALSE(code_type("fixed:width=8"));
  EXPECT_FALSE(code_type("affine:width=20,scale=0.5"));
  EXPECT_FALSE(code_type("affine:scale=0.5x0.25,granularity=channel"));
  EXPECT_FALSE(code_type("affine:scale=3e38"));
  const auto type = code_type("affine:signed=false,width=4,scale=0.5,zero_point=3");
  ASSERT_TRUE(type);
  EXPECT_EQ(*type, (CodeType{0.5F, 3, 0, 15}));
  EXPECT_EQ(type->size(), 16);
  EXPECT_EQ(type->value(0), -1.5F);
}

TEST(CodeType, IsOfTheScaleThatTheNetworkOwns) {
  const auto owning = [](const char* format, float scale) {
    Quantizer quantizer = parse_quant_spec_text(format);
    quantizer.parameters.emplace_back("scale", Parameter{Tensor::from<float>({}, std::vector<float>{scale})});
    return quantizer;
  };
  EXPECT_EQ(*code_type(owning("affine:width=4,scale=0.5,zero_point=3,scale_rule=learned", 0.25F)),
            (CodeType{0.25F, 3, -8, 7}));
  EXPECT_EQ(*code_type(owning("fixed:width=8,signed=false,scale_rule=learned", 0.75F)),
            (CodeType{0.75F, 0, 0, 255}));
  EXPECT_FALSE(code_type(owning("fixed:width=8,rounding=floor,scale_rule=learned", 0.75F)));
  EXPECT_THROW(code_type(owning("affine:scale_rule=learned", -1)), Error);
}

TEST(CodeType, OfSignsIsWhatBinaryRoundsTo) {
  EXPECT_TRUE(code_types(parse_quant_spec_text("binary")).empty());
  EXPECT_TRUE(executed_types(parse_quant_spec_text("binary:bipolar=false")).empty());
  EXPECT_TRUE(executed_types(parse_quant_spec_text("binary:stochastic=true")).empty());
  EXPECT_TRUE(executed_types(parse_quant_spec_text("binary:scaling=per_tensor")).empty());
  const QuantSpec spec = parse_quant_spec_text("binary");
  const CodeType type = executed_types(spec).at(0);
  const std::vector<float> inputs = {0,
                                     -0.0F,
                                     3,
                                     -3,
                                     std::numeric_limits<float>::denorm_min(),
                                     1e-9F,
                                     HUGE_VALF,
                                     -HUGE_VALF,
                                     -std::numeric_limits<float>::denorm_min()};
  const Tensor rounded =
      fake_quantize(spec, Tensor::from<float>({static_cast<int64_t>(inputs.size())}, inputs));
  for (size_t i = 0; i < inputs.size(); ++i)
    EXPECT_EQ(type.value(type.code(inputs[i])), rounded.values<float>()[i]) << inputs[i];
  EXPECT_EQ(type.at(int64_t{0}), 1);
  EXPECT_EQ(type.at(int64_t{-1}), -1);
  EXPECT_EQ(type.with_zero().code(0), 0);
}

/// The same as decode(encode(x)) of the format, at and beside every tie and beyond the ends.
TEST(CodeType, FindsTheCodesOfTheFormat) {
  for (const char* text :
       {"affine:scale=0.1", "affine:signed=false,scale=0.037,zero_point=131", "affine:width=2,scale=3",
        "affine:width=5,scale=1e-30,zero_point=-7", "affine:narrow_range=true,width=4,scale=1e30"}) {
    const QuantSpec spec = parse_quant_spec_text(text);
    const CodeType type = code_type(spec).value();
    std::vector<float> inputs = {0, -0.0F, HUGE_VALF, -HUGE_VALF, std::numeric_limits<float>::denorm_min()};
    for (int half = 2 * (type.low - type.zero_point) - 5; half <= 2 * (type.high - type.zero_point) + 5;
         ++half) {
      const float tie = static_cast<float>(half) * 0.5F * type.scale;
      for (const float x : {std::nextafter(tie, -HUGE_VALF), tie, std::nextafter(tie, HUGE_VALF)}) {
        inputs.push_back(x);
      }
    }
    const Tensor tensor = Tensor::from({static_cast<int64_t>(inputs.size())}, inputs);
    const Tensor simulated = decode(encode(spec, tensor));
    for (size_t i = 0; i < inputs.size(); ++i) {
      const int32_t code = type.code(inputs[i]);
      EXPECT_GE(code, type.low);
      EXPECT_LE(code, type.high);
      EXPECT_EQ(type.value(code), simulated.values<float>()[i]) << text << " of " << inputs[i];
    }
  }
}

TEST(CodeType, EveryCodeIsTheCodeOfItsValue) {
  const CodeType type = code_type("affine:width=16,scale=0.0123,zero_point=-100").value();
  for (int32_t code = type.low; code <= type.high; ++code) ASSERT_EQ(type.code(type.value(code)), code);
}

}  // namespace
}  // namespace detent
