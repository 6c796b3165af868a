#include "detent/formats/groups/given_parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "detent/core/convert.h"
#include "detent/formats/format_cases_test.h"
#include "detent/formats/normal_tensor_for_test.h"

namespace detent {
namespace {

Tensor scaled_normal(const Shape& shape, float scale, uint32_t seed) {
  Tensor tensor = normal_tensor(shape, seed);
  for (float& x : tensor.values<float>()) x *= scale;
  return tensor;
}

/// Every format, and where it has parameters for them, channels and groups.
std::vector<QuantSpec> all_specs() {
  std::vector<QuantSpec> specs;
  for (const char* text : kBlockFormats) specs.push_back(parse_quant_spec_text(text));
  for (const std::string text : kElementFormats) {
    const std::string separator = text.find(':') == std::string::npos ? ":" : ",";
    for (const char* more : {"", "granularity=channel", "granularity=channel,axis=1",
                             "granularity=group,group_size=8", "granularity=group,group_size=7,axis=-1"}) {
      try {
        specs.push_back(parse_quant_spec_text(*more == 0 ? text : text + separator + more));
      } catch (const Error&) {  // one scale for all
      }
    }
  }
  return specs;
}

/// Values rounded to 0 would be rounded to 1 next time; scales of groups have no key, and signs are chosen
/// one after another; a block of block_fp whose largest element is rounded to a power of two gets a lower
/// exponent.
bool may_move(const std::string& text) {
  return text.starts_with("binary:bipolar=false") || text.starts_with("block_fp") ||
         (text.starts_with("binary_residual") && !text.ends_with("gamma=1x0.5x0.25"));
}

TEST(GivenParameters, KeepWhatWasRoundedWithThem) {
  for (const QuantSpec& spec : all_specs()) {
    if (is_stochastic(spec.format)) continue;
    const std::string text = quant_spec_text(spec);
    for (const float scale : {0.05F, 3.0F, 1e-38F, 1e36F}) {
      const Tensor input = scaled_normal({6, 40}, scale, 3);
      const Tensor rounded = fake_quantize(spec, input);
      const QuantSpec given = with_given_parameters(spec, input);
      const std::string again = difference(rounded, fake_quantize(given, rounded), rounded);
      EXPECT_TRUE(again.empty() || may_move(text)) << text << " " << scale << ": " << again;
      if (!again.empty()) continue;
      EXPECT_EQ(difference(rounded, decode(encode_without_given(given, rounded)), rounded), "") << text;
    }
  }
}

/// Other programs read in such a tensor what the codes stand for.
TEST(ElementDtype, HasTheCodesOfTheFormat) {
  for (const char* format : {"fp8_e4m3fn", "fp8_e5m2", "fp16", "bf16"}) {
    const QuantSpec spec = parse_quant_spec_text(format);
    const DType dtype = *element_dtype(spec.format);
    const int64_t count = int64_t{1} << (8 * dtype_size(dtype));
    const auto bytes = static_cast<int64_t>(dtype_size(dtype)) * count;
    Encoded codes{spec, {count}, Packing::kBits, {{"codes", Tensor(DType::kUInt8, {bytes})}}};
    Tensor elements(dtype, {count});
    for (int64_t code = 0; code < count; ++code) {
      for (size_t byte = 0; byte < dtype_size(dtype); ++byte) {
        const auto value = static_cast<std::byte>((code >> (8 * byte)) & 0xFF);
        const size_t at = static_cast<size_t>(code) * dtype_size(dtype) + byte;
        codes.streams.front().data.bytes()[at] = elements.bytes()[at] = value;
      }
    }
    const Tensor values = decode(codes);
    EXPECT_EQ(difference(values, values, to_float32(elements)), "") << format;
  }
  EXPECT_EQ(element_dtype(parse_quant_spec_text("fp8_e4m3fnuz").format), std::nullopt);
  EXPECT_EQ(element_dtype(parse_quant_spec_text("minifloat_ieee").format), std::nullopt);
}

}  // namespace
}  // namespace detent
