#include "detent/formats/packing/encode.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "detent/formats/every_target_test.h"
#include "detent/formats/groups/group_parameters.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// One a line: every kind of code, with and without parameters.
const char* const kSpecs[] = {
    "fixed",
    "fixed:width=1,frac_width=0",
    "fixed:width=3,frac_width=-2",
    "fixed:width=5,frac_width=7,signed=false",
    "fixed:width=16,frac_width=96",
    "fixed:width=16,frac_width=-96,signed=false",
    "fixed:width=20,frac_width=10",
    "fixed:width=32,frac_width=0",
    "fixed:width=32,frac_width=16,signed=false,rounding=floor",
    "ternary",
    "ternary:threshold=0.5",
    "ternary:scaling_factor=true",
    "ternary:scaling_factor=true,granularity=channel,axis=1",
    "binary",
    "binary:bipolar=false,scaling=per_tensor",
    "binary:scaling=per_channel",
    "binary:stochastic=true",
    "minifloat_ieee",
    "minifloat_ieee:width=2,exponent_width=1",
    "minifloat_ieee:width=6,exponent_width=5",
    "minifloat_ieee:width=8,exponent_width=3,exponent_bias=-100",
    "minifloat_ieee:width=8,exponent_width=3,exponent_bias=140",
    "minifloat_ieee:width=16,exponent_width=8,exponent_bias=128",
    "minifloat_ieee:width=31,exponent_width=8,exponent_bias=128",
    "fp8_e4m3fn",
    "fp8_e5m2",
    "fp8_e5m2:saturate=false",
    "fp8_e4m3fnuz",
    "fp8_e5m2fnuz",
    "fp6_e3m2",
    "fp6_e2m3",
    "fp4_e2m1",
    "fp16",
    "bf16:saturate=false",
    "tf32",
    "affine",
    "affine:width=5,signed=false,narrow_range=true,granularity=channel",
    "affine:width=24",
    "affine:width=4,symmetric=true,scale=0.5",
    "minifloat_denorm",
    "minifloat_denorm:width=3,exponent_width=1",
    "minifloat_denorm:width=16,exponent_width=8,exponent_bias=127",
    "minifloat_denorm:width=9,exponent_width=2,exponent_bias=140",
    "log",
    "log:width=2",
    "log:width=9,exponent_bias=149",
    "codebook:values=-1x0.5x3",
    "codebook:values=2x",
    "binary_residual",
    "binary_residual:levels=5,granularity=channel,axis=1",
    "binary_residual:levels=2,gamma=1x0.5",
    "block_fp",
    "block_fp:width=5,exponent_width=3,block_size=3",
    "block_minifloat",
    "block_minifloat:width=31,exponent_width=8,block_axis=0",
    "block_log:width=9",
    "block_log:width=3,exponent_bias_width=5,block_size=2x-1",
    "mx:element=e4m3",
    "mx:element=e5m2",
    "mx:element=e3m2",
    "mx:element=e2m3",
    "mx:element=e2m1",
    "mx:element=int8",
    "nvfp4",
};

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

Tensor random_tensor(const Shape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 3.0F);
  Tensor tensor(DType::kFloat32, shape);
  for (float& x : tensor.values<float>()) x = normal(random);
  return tensor;
}

std::string difference(const Tensor& input, const Tensor& got, const Tensor& expected) {
  for (size_t i = 0; i < static_cast<size_t>(input.numel()); ++i) {
    const float x = got.values<float>()[i];
    const float y = expected.values<float>()[i];
    if (!same(x, y))
      return fmt::format("element {}: {:a} gives {:a}, not {:a}", i, input.values<float>()[i], x, y);
  }
  return "";
}

void expect_round_trip(const char* text, const Tensor& input, Packing packing) {
  const QuantSpec spec = parse_quant_spec_text(text);
  const Encoded encoded = encode(spec, input, packing, 5);
  EXPECT_EQ(difference(input, decode(encoded), fake_quantize(spec, input, 5)), "") << text;
  const double bits = bits_per_value(spec, packing) * static_cast<double>(input.numel());
  EXPECT_EQ(static_cast<double>(encoded.codes().numel()), std::ceil(std::ceil(bits) / 8)) << text;
}

class EveryTargetCodes : public EveryTargetTest {};

TEST_P(EveryTargetCodes, DecodeToWhatSimulateGives) {
  for (const char* text : kSpecs) {
    for (const Shape& shape : {Shape{2, 3}, Shape{3, 5, 7}, Shape{40, 77}, Shape{3, 30011}}) {
      expect_round_trip(text, random_tensor(shape, 11), Packing::kBits);
    }
  }
  expect_round_trip("ternary:scaling_factor=true", random_tensor({3, 30011}, 12), Packing::kBase3);
}

DETENT_ON_EVERY_TARGET(EveryTargetCodes);

TEST(Encode, HoldsExtremesAndInfinities) {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> values = {0.0F,          -0.0F,          Limits::denorm_min(), -Limits::min(),
                                     Limits::max(), -Limits::max(), Limits::infinity(),   -Limits::infinity(),
                                     1.0F,          -0.5F};
  for (const char* text : kSpecs) {
    expect_round_trip(text, Tensor::from({5, 2}, values), Packing::kBits);
  }
}

/// The three verbs on elements of one group.
template <class F>
class OneGroup {
  using P = typename F::Parameters;

 public:
  OneGroup(const F& format, const P& parameters) : parameters_({parameters}), stored_(parameters_) {
    if constexpr (!FormatWithoutData<F>) {
      double numbers[64] = {};
      format.store(parameters, numbers);
      stored_ = {format.stored_parameters(numbers)};
    }
  }

  std::vector<float> rounded(const std::vector<float>& values) const {
    std::vector<float> result(values.size());
    const Grouping grouping{.inner = size(values)};
    P::kernels().round({parameters_, grouping}, values.data(), result.data(), 0, size(values), false);
    return result;
  }
  std::vector<uint32_t> encoded(const std::vector<float>& values) const {
    std::vector<uint32_t> result(values.size());
    const Grouping grouping{.inner = size(values)};
    P::kernels().encode({parameters_, grouping}, values.data(), result.data(), 0, size(values));
    return result;
  }
  std::vector<float> decoded(const std::vector<uint32_t>& codes) const {
    std::vector<float> result(codes.size());
    const Grouping grouping{.inner = size(codes)};
    P::kernels().decode({stored_, grouping}, codes.data(), result.data(), 0, size(codes));
    return result;
  }

 private:
  static int64_t size(const auto& elements) { return static_cast<int64_t>(elements.size()); }

  std::vector<P> parameters_, stored_;
};

/// Check 1 of the formats' definition: every code of at most 16 bits decodes, and what it decodes to encodes
/// to a code of the value that it is rounded to. That is itself, except for infinities that saturate, the
/// code that a narrow range leaves out, and where rounding does not keep the format's values.
void check_all_codes(const QuantSpec& spec, const GroupParameters& parameters) {
  std::visit(
      [&]<class F>(const F& format) {
        if constexpr (BlockFormat<F>) {
          const QuantSpec elements{
              .format = std::visit([](const auto& element) { return Format(element); }, format.elements())};
          const Tensor input(DType::kFloat32, {1});
          check_all_codes(elements, derive_parameters(elements, input, {1, 1, 1}, 0));
        } else {
          constexpr bool kKeepsValues =
              !std::is_same_v<F, Binary> && !std::is_same_v<F, BinaryResidual> && !std::is_same_v<F, Ternary>;
          int moved = 0;
          const auto& group = std::get<std::vector<typename F::Parameters>>(parameters).front();
          const OneGroup<F> one(format, group);
          std::vector<uint32_t> codes(size_t{1} << static_cast<int>(format.bits()));
          std::iota(codes.begin(), codes.end(), 0U);
          const std::vector<float> values = one.decoded(codes);
          const std::vector<float> rounded = one.rounded(values);
          const std::vector<uint32_t> canonical = one.encoded(values);
          const std::vector<float> again = one.decoded(canonical);
          const std::vector<uint32_t> stable = one.encoded(again);
          for (const uint32_t code : codes) {
            ASSERT_TRUE(F::kHasNan || !std::isnan(values[code])) << code;
            ASSERT_LT(canonical[code], codes.size()) << code;
            ASSERT_TRUE(same(again[code], rounded[code])) << code;
            if (!same(rounded[code], values[code])) {
              ++moved;
              continue;
            }
            ASSERT_EQ(stable[code], canonical[code]) << code;
          }
          ASSERT_LE(moved, kKeepsValues ? 2 : 8);
        }
      },
      spec.format);
}

TEST(Encode, EveryCodeOfAtMost16BitsRoundTrips) {
  const Tensor input = random_tensor({4, 64}, 3);
  for (const char* text : kSpecs) {
    const QuantSpec spec = parse_quant_spec_text(text);
    if (bits_per_value(spec.format) > 16) continue;
    SCOPED_TRACE(text);
    check_all_codes(spec, derive_parameters(spec, input, make_grouping(spec, input.shape()), 0));
  }
}

TEST(Encode, CodesAreAsDocumented) {
  const Tensor input = Tensor::from({5}, std::vector<float>{-0.5F, 0.25F, 0.0F, 3.0F, -9.0F});
  const auto bytes = [&](const char* text, Packing packing) {
    const Encoded encoded = encode(parse_quant_spec_text(text), input, packing);
    const auto values = encoded.codes().values<uint8_t>();
    return std::vector<int>(values.begin(), values.end());
  };
  EXPECT_THAT(bytes("fixed:width=4,frac_width=2", Packing::kBits), ElementsAre(0x1E, 0x70, 0x08));
  EXPECT_THAT(bytes("ternary:threshold=0.3", Packing::kBits), ElementsAre(0b01000011, 0b11));
  EXPECT_THAT(bytes("ternary:threshold=0.3", Packing::kBase3), ElementsAre(2 + 27 + 2 * 81));
  EXPECT_THAT(bytes("binary", Packing::kBits), ElementsAre(0b01110));
}

TEST(Encode, MinifloatsAreAsTheirStandardsSay) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const Tensor input = Tensor::from({6}, std::vector<float>{1.0F, -1.75F, 0x1p-9F, kInfinity, kNan, -0.0F});
  const auto bytes = [&](const char* text) {
    const Encoded encoded = encode(parse_quant_spec_text(text), input);
    const auto values = encoded.codes().values<uint8_t>();
    return std::vector<int>(values.begin(), values.end());
  };
  EXPECT_THAT(bytes("fp8_e4m3fn"), ElementsAre(0x38, 0xBE, 0x01, 0x7E, 0x7F, 0x80));
  EXPECT_THAT(bytes("fp8_e5m2:saturate=false"), ElementsAre(0x3C, 0xBF, 0x18, 0x7C, 0x7F, 0x80));
  EXPECT_THAT(bytes("fp8_e4m3fnuz"), ElementsAre(0x40, 0xC6, 0x02, 0x7F, 0x80, 0x00));
}

/// storage_bits counts the bits that are stored, but for the last byte of each stream.
TEST(Encode, StreamsTakeTheBitsThatStorageBitsCounts) {
  for (const char* text : kSpecs) {
    const QuantSpec spec = parse_quant_spec_text(text);
    for (const Shape& shape : {Shape{3, 50}, Shape{2, 5, 7}, Shape{64, 64}, Shape{0, 3}}) {
      int64_t bits = 0;
      int64_t streams = 0;
      for (const StreamLayout& stream : encoded_layout(spec, shape, Packing::kBits)) {
        bits += 8 * element_count(stream.shape) * static_cast<int64_t>(dtype_size(stream.dtype));
        ++streams;
      }
      EXPECT_LE(storage_bits(spec, shape), bits) << text << " " << shape_text(shape);
      EXPECT_GT(storage_bits(spec, shape), bits - 8 * streams) << text << " " << shape_text(shape);
    }
  }
}

TEST(Encode, EmptyTensorsHaveEmptyStreams) {
  for (const char* text : kSpecs) {
    const Encoded encoded = encode(parse_quant_spec_text(text), Tensor(DType::kFloat32, {3, 0}));
    for (const EncodedStream& stream : encoded.streams) EXPECT_EQ(stream.data.numel(), 0) << text;
    EXPECT_EQ(decode(encoded).shape(), Shape({3, 0}));
  }
}

TEST(Encode, NamesTheFirstNan) {
  Tensor input(DType::kFloat32, {500000});
  for (const size_t i : {499999U, 123456U}) {
    input.values<float>()[i] = std::numeric_limits<float>::quiet_NaN();
  }
  EXPECT_THAT([&] { encode(parse_quant_spec_text("fixed"), input); },
              ThrowsMessage<Error>(HasSubstr("element 123456 is NaN, for which fixed has no code")));
}

TEST(Encode, SaysWhatIsWrong) {
  const auto encode_with = [](const Tensor& input, Packing packing) {
    return [=] { encode(parse_quant_spec_text("fixed"), input, packing); };
  };
  EXPECT_THAT(encode_with(Tensor(DType::kInt8, {2}), Packing::kBits),
              ThrowsMessage<Error>(HasSubstr("got a tensor of int8, expected float32")));
  EXPECT_THAT(encode_with(Tensor(DType::kFloat32, {2}), Packing::kBase3),
              ThrowsMessage<Error>(HasSubstr("fixed is not ternary")));
}

TEST(Encode, NeedsAKnownScaleAsSimulateDoes) {
  const QuantSpec learned = parse_quant_spec_text("affine:scale_rule=learned");
  for (const Shape& shape : {Shape{4}, Shape{0}}) {
    const Tensor input(DType::kFloat32, shape);
    EXPECT_THAT([&] { encode(learned, input); },
                ThrowsMessage<Error>(HasSubstr("encode: scale_rule = \"learned\"")));
    EXPECT_THAT([&] { fake_quantize(learned, input); },
                ThrowsMessage<Error>(HasSubstr("scale_rule = \"learned\"")));
    EXPECT_THAT([&] { clipped_ste_mask(learned, input); },
                ThrowsMessage<Error>(HasSubstr("scale_rule = \"learned\"")));
  }
}

TEST(Decode, RefusesScalesAndZeroPointsThatAreNone) {
  const auto expect_error = [](const Encoded& encoded, const char* message) {
    EXPECT_THAT([&] { decode(encoded); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  const Encoded good =
      encode(parse_quant_spec_text("affine:narrow_range=true,granularity=channel"), random_tensor({3, 5}, 1));
  for (const int32_t zero_point :
       {-128, 128, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}) {
    Encoded bad = good;
    bad.streams[2].data = Tensor::from({3}, std::vector<int32_t>{-127, 127, zero_point});
    expect_error(
        bad, fmt::format("stream \"zero_points\" has {} at index 2, expected at least -127 and at most 127",
                         zero_point)
                 .c_str());
  }
  for (const float scale : {0.0F, -0.5F}) {
    Encoded bad = good;
    bad.streams[1].data = Tensor::from({3}, std::vector<float>{1e-45F, scale, 1});
    expect_error(bad, "expected at least 1e-45");
  }
  Encoded extreme = good;
  extreme.streams[1].data = Tensor::from({3}, std::vector<float>{1e-45F, 3e38F, 1});
  extreme.streams[2].data = Tensor::from({3}, std::vector<int32_t>{-127, 127, 0});
  EXPECT_NO_THROW(decode(extreme));
}

TEST(Decode, RefusesStreamsThatDoNotFit) {
  const QuantSpec spec = parse_quant_spec_text("ternary:scaling_factor=true");
  const Encoded good = encode(spec, random_tensor({12}, 1), Packing::kBase3);
  const auto expect_error = [](const Encoded& encoded, const char* message) {
    EXPECT_THAT([&] { decode(encoded); }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  Encoded bad = good;
  bad.shape = {16};
  expect_error(bad, "stream \"codes\" is uint8 of shape [3], expected \"codes\", uint8 of shape [4]");
  bad = good;
  bad.streams.pop_back();
  expect_error(bad, "1 streams");
  bad = good;
  bad.streams[1].data = Tensor::from({1}, std::vector<float>{std::numeric_limits<float>::quiet_NaN()});
  expect_error(bad, "\"scales\" has nan at index 0");
  bad = good;
  bad.streams[0].data = Tensor::from({3}, std::vector<uint8_t>{0, 250, 0});
  expect_error(bad, "element 5");
}

}  // namespace
}  // namespace detent
