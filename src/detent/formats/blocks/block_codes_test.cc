// Codes of block formats: every target gives back what fake_quantize gives; the streams are as documented.
#include "detent/formats/blocks/block_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "detent/core/parallel.h"
#include "detent/formats/every_target_test.h"
#include "detent/formats/format_cases_test.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/reference/reference_for_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

bool has_nan_code(const QuantSpec& spec) {
  const std::string text = quant_spec_text(spec);
  return text == "mx" || text.starts_with("mx:block") || text.find("e5m2") != std::string::npos;
}

/// random_tensor, without NaN where there is no code for it.
Tensor encodable(const QuantSpec& spec, const Shape& shape, uint32_t seed, int centre, int spread) {
  Tensor tensor = random_tensor(shape, seed, centre, spread);
  if (has_nan_code(spec)) return tensor;
  for (float& x : tensor.values<float>()) x = std::isnan(x) ? -0.0F : x;
  return tensor;
}

std::string round_trip_difference(const QuantSpec& spec, const Tensor& input) {
  return difference(input, decode(encode(spec, input)), fake_quantize(spec, input));
}

class EveryTargetBlockCodes : public EveryTargetTest {};

TEST_P(EveryTargetBlockCodes, AllMagnitudes) {
  for (const char* format : kBlockFormats) {
    const QuantSpec spec = spec_of(format);
    for (int centre = -145; centre <= 125; centre += 9) {
      for (const int spread : {3, 40, 280}) {
        const auto seed = static_cast<uint32_t>(centre + spread);
        ASSERT_EQ(round_trip_difference(spec, encodable(spec, {7, 50}, seed, centre, spread)), "")
            << format << " " << centre << " " << spread;
      }
    }
  }
}

TEST_P(EveryTargetBlockCodes, ShapesAndBlockSizes) {
  const Shape shapes[] = {{},        {1},       {67},         {0},          {3, 0, 2},       {5, 33},
                          {2, 3, 7}, {40, 3},   {4, 6, 3, 3}, {3, 5, 1, 1}, {2, 3, 4, 5, 3}, {2, 1, 1, 40},
                          {3, 1200}, {2, 70, 9}};
  const char* const sizes[] = {"1",   "3",    "16",    "17",   "-1",   "40",    "1000",   "1x16",
                               "2x3", "-1x8", "-1x-1", "2x-1", "4x40", "2x1x2", "-1x1x1", "2x2x2x2x2"};
  for (const char* format : {"block_fp:width=5,exponent_width=6", "block_log:width=5", "mx:element=e3m2"}) {
    for (const Shape& shape : shapes) {
      for (const std::string size : sizes) {
        const QuantSpec spec = spec_of(format, "block_size=" + size);
        ASSERT_EQ(round_trip_difference(spec, encodable(spec, shape, 11, 0, 24)), "")
            << format << " " << size << " " << shape_text(shape);
      }
    }
  }
}

TEST_P(EveryTargetBlockCodes, AnyAxis) {
  for (const char* format : kBlockFormats) {
    for (const char* size : {"4", "16", "-1"}) {
      for (int axis = -4; axis < 4; ++axis) {
        QuantSpec spec = spec_of(format, std::string("block_size=") + size);
        spec.block_axis = axis;
        ASSERT_EQ(round_trip_difference(spec, encodable(spec, {3, 20, 5, 7}, 5, -3, 20)), "")
            << format << " " << size << " " << axis;
      }
    }
  }
}

/// Without infinities and NaN, which end the short ways through tiles.
Tensor finite_tensor(const Shape& shape, uint32_t seed, int centre, int spread) {
  Tensor tensor = random_tensor(shape, seed, centre, spread);
  for (float& x : tensor.values<float>()) x = std::isfinite(x) ? x : -1.5F;
  return tensor;
}

TEST_P(EveryTargetBlockCodes, FiniteElements) {
  for (const char* format : kBlockFormats) {
    for (const char* size : {"1", "2", "4", "5", "8", "16", "24", "32", "-1", "4x16", "3x4", "-1x-1"}) {
      const QuantSpec spec = spec_of(format, std::string("block_size=") + size);
      for (const int centre : {-60, 0, 40}) {
        const Tensor input = finite_tensor({12, 160}, 17, centre, 12);
        ASSERT_EQ(difference(input, fake_quantize(spec, input), reference_fake_quantize(spec, input)), "")
            << format << " " << size << " " << centre;
        ASSERT_EQ(round_trip_difference(spec, input), "") << format << " " << size << " " << centre;
      }
    }
  }
}

/// A tile whose blocks are plain, but for a NaN: where that has a code, the others keep theirs.
TEST_P(EveryTargetBlockCodes, OneNanAmongFiniteElements) {
  for (const char* format : {"mx:element=e4m3", "mx:element=e5m2"}) {
    for (const char* size : {"1", "4", "16", "24", "32", "4x16", "3x4"}) {
      const QuantSpec spec = spec_of(format, std::string("block_size=") + size);
      Tensor input = finite_tensor({12, 160}, 5, 0, 12);
      for (const size_t at : {0U, 333U, 1919U}) input.values<float>()[at] = kNan;
      ASSERT_EQ(round_trip_difference(spec, input), "") << format << " " << size;
    }
  }
}

/// Each code of an element and of a scale, one by one.
template <BlockFormat F>
std::vector<float> meaning_of_codes(const F& format, uint32_t scale_code) {
  const double tensor_scale = 0.375;
  const BlockScale scale = format.scales(&tensor_scale).at(scale_code);
  std::vector<uint32_t> codes(size_t{1} << static_cast<int>(format.bits()));
  std::iota(codes.begin(), codes.end(), 0U);
  std::vector<float> values(codes.size());
  std::visit(
      [&](const auto& element) {
        decode_elements(std::vector{element.parameters()}, codes.data(), values.data(),
                        static_cast<int64_t>(codes.size()));
      },
      format.elements());
  for (float& value : values) value = scale.value_of(value);
  return values;
}

TEST_P(EveryTargetBlockCodes, EveryCodeOfElementsAndScalesDecodes) {
  for (const char* text : kBlockFormats) {
    const QuantSpec spec = spec_of(text, "block_size=-1");
    if (bits_per_value(spec.format) > 9) continue;
    std::visit(
        [&]<class F>(const F& format) {
          if constexpr (BlockFormat<F>) {
            const double tensor_scale = 0.375;
            const auto width = static_cast<int>(format.bits());
            std::vector<uint32_t> codes(size_t{1} << width);
            std::iota(codes.begin(), codes.end(), 0U);
            const auto count = static_cast<int64_t>(codes.size());
            Encoded encoded{spec, {count}, Packing::kBits, {}};
            for (const StreamLayout& stream : encoded_layout(spec, encoded.shape, Packing::kBits))
              encoded.streams.push_back({stream.name, Tensor(stream.dtype, stream.shape)});
            pack_codes(Packing::kBits, width, codes.data(), count,
                       encoded.streams.front().data.template values<uint8_t>().data());
            if (encoded.streams.size() == 3) encoded.streams[1].data.template values<float>()[0] = 0.375F;
            const size_t scales = format.scales(&tensor_scale).size();
            for (uint32_t scale = 0; scale < scales; ++scale) {
              std::ranges::fill(encoded.streams.back().data.template values<uint8_t>(),
                                static_cast<uint8_t>(scale));
              const Tensor expected = Tensor::from({count}, meaning_of_codes(format, scale));
              ASSERT_EQ(difference(expected, decode(encoded), expected), "") << text << " scale " << scale;
            }
          }
        },
        spec.format);
  }
}

DETENT_ON_EVERY_TARGET(EveryTargetBlockCodes);

/// Slabs of few and of many elements, aligned and not, and tensors that have none of a useful size.
TEST(BlockCodes, DoNotDependOnThreads) {
  const int threads = thread_count();
  struct Case {
    Shape shape;
    const char* size;
    int64_t axis;
  };
  for (const Case& c : {Case{{3000, 77}, "16", 1}, Case{{200000}, "16", 0}, Case{{5, 50001}, "17", 1},
                        Case{{40, 4000}, "16", 0}, Case{{3, 40, 41, 41}, "16", 1}, Case{{400, 600}, "-1", 0},
                        Case{{3, 33000, 5}, "4", 1}, Case{{2, 3, 30000}, "-1", 1}}) {
    for (const char* format : {"mx:element=e5m2", "block_fp:width=5,exponent_width=5"}) {
      QuantSpec spec = spec_of(format, std::string("block_size=") + c.size);
      spec.block_axis = c.axis;
      const Tensor input = encodable(spec, c.shape, 3, 0, 20);
      const Tensor expected = fake_quantize(spec, input);
      set_thread_count(1);
      const Encoded one = encode(spec, input);
      EXPECT_EQ(difference(input, decode(one), expected), "") << format << shape_text(c.shape);
      set_thread_count(3);
      const Encoded three = encode(spec, input);
      EXPECT_EQ(difference(input, decode(three), expected), "") << format << shape_text(c.shape);
      set_thread_count(threads);
      for (size_t i = 0; i < one.streams.size(); ++i) {
        EXPECT_TRUE(one.streams[i].data.equals(three.streams[i].data)) << format << shape_text(c.shape);
      }
    }
  }
}

/// Values that are written past the caches.
TEST(BlockCodes, LargeTensors) {
  const Tensor input = finite_tensor({8200, 1040}, 9, 0, 12);
  for (const char* format : {"mx:element=e2m3", "block_fp:block_size=24", "block_log:block_size=4"}) {
    EXPECT_EQ(round_trip_difference(parse_quant_spec_text(format), input), "") << format;
  }
}

TEST(BlockCodesProperty, RandomShapes) {
  EXPECT_TRUE(rc::check([] {
    const Shape shape = *rc::gen::resize(5, rc::gen::container<Shape>(rc::gen::inRange<int64_t>(0, 9)));
    RC_PRE(!shape.empty() && element_count(shape) < 40000);
    const auto rank = static_cast<int>(shape.size());
    std::string sizes = std::to_string(*rc::gen::element<int64_t>(-1, 1, 2, 3, 4, 8, 16, 20));
    const int more = *rc::gen::inRange(0, rank);
    for (int i = 0; i < more; ++i) sizes += "x" + std::to_string(*rc::gen::element<int64_t>(-1, 1, 2, 3, 16));
    const std::string format =
        *rc::gen::elementOf(std::vector<std::string>(std::begin(kBlockFormats), std::end(kBlockFormats)));
    QuantSpec spec = spec_of(format, "block_size=" + sizes);
    if (more == 0) spec.block_axis = *rc::gen::inRange(-rank, rank);
    const int centre = *rc::gen::inRange(-140, 120);
    const Tensor input = encodable(spec, shape, *rc::gen::arbitrary<uint32_t>(), centre, 30);
    RC_ASSERT(round_trip_difference(spec, input).empty());
  }));
}

/// One block of all codes, but for those whose values fake_quantize never gives.
Encoded all_codes(const QuantSpec& spec, uint32_t scale_code, const std::vector<uint32_t>& without) {
  const int width = static_cast<int>(bits_per_value(spec.format));
  std::vector<uint32_t> codes;
  for (uint32_t code = 0; code < 1U << width; ++code) {
    if (std::ranges::find(without, code) == without.end()) codes.push_back(code);
  }
  const auto count = static_cast<int64_t>(codes.size());
  Encoded encoded{spec, {count}, Packing::kBits, {}};
  for (const StreamLayout& stream : encoded_layout(spec, encoded.shape, Packing::kBits)) {
    encoded.streams.push_back({stream.name, Tensor(stream.dtype, stream.shape)});
  }
  pack_codes(Packing::kBits, width, codes.data(), count, encoded.streams[0].data.values<uint8_t>().data());
  encoded.streams[1].data.values<uint8_t>()[0] = static_cast<uint8_t>(scale_code);
  return encoded;
}

/// Decodes, then encodes twice: the values stay, and so do the codes that encode chose.
void expect_stable(const Encoded& encoded, const std::string& what) {
  const Tensor values = decode(encoded);
  const Encoded canonical = encode(encoded.spec, values);
  ASSERT_EQ(difference(values, decode(canonical), values), "") << what;
  const Encoded again = encode(encoded.spec, decode(canonical));
  for (size_t i = 0; i < again.streams.size(); ++i) {
    ASSERT_TRUE(again.streams[i].data.equals(canonical.streams[i].data)) << what;
  }
}

TEST(BlockCodes, EveryCodeOfElementsAndScalesRoundTrips) {
  struct Case {
    const char* format;
    std::vector<uint32_t> scale_codes;  // first and last whose values float32 holds
    std::vector<uint32_t> without = {};
  };
  for (const Case& c : std::vector<Case>{
           {"block_fp", {0, 254}},
           {"block_fp:width=4,exponent_width=3", {0, 7}},
           {"block_fp:width=16,exponent_width=8", {0, 254}},
           {"block_minifloat", {0, 130}},
           {"block_minifloat:width=6,exponent_width=2,exponent_bias_width=4", {0, 15}},
           {"block_minifloat:width=16,exponent_width=5", {0, 120}},
           {"block_log", {0, 149}},
           {"block_log:width=4,exponent_bias_width=3", {0, 7}},
           {"mx:element=e4m3", {8, 246}},
           {"mx:element=e5m2", {0, 239}, {0x7C, 0xFC}},  // infinities
           {"mx:element=e3m2", {0, 250}},
           {"mx:element=e2m3", {0, 252}},
           {"mx:element=e2m1", {0, 252}},
           {"mx:element=int8", {0, 254}, {0x80}},  // -2
       }) {
    const QuantSpec spec = spec_of(c.format, "block_size=-1");
    for (uint32_t code = c.scale_codes[0]; code <= c.scale_codes[1]; ++code) {
      expect_stable(all_codes(spec, code, c.without), fmt::format("{} scale {}", c.format, code));
    }
  }
}

/// nvfp4 keeps its tensor scale, a power of two, where a block has the largest scale and element.
TEST(BlockCodes, EveryCodeOfNvfp4RoundTrips) {
  constexpr int64_t kBlocks = 127;
  Encoded encoded{parse_quant_spec_text("nvfp4"), {kBlocks * 16}, Packing::kBits, {}};
  for (const StreamLayout& stream : encoded_layout(encoded.spec, encoded.shape, Packing::kBits)) {
    encoded.streams.push_back({stream.name, Tensor(stream.dtype, stream.shape)});
  }
  for (size_t block = 0; block < kBlocks; ++block) {
    for (size_t i = 0; i < 8; ++i) {
      encoded.streams[0].data.values<uint8_t>()[8 * block + i] =
          static_cast<uint8_t>(2 * i + ((2 * i + 1) << 4));
    }
    encoded.streams[2].data.values<uint8_t>()[block] = static_cast<uint8_t>(block);
  }
  for (const float tensor_scale : {1.0F, 0x1p-130F, 0x1p116F}) {
    encoded.streams[1].data.values<float>()[0] = tensor_scale;
    expect_stable(encoded, fmt::format("tensor scale {}", tensor_scale));
  }
  encoded.streams[1].data.values<float>()[0] = 1;
  const Encoded again = encode(encoded.spec, decode(encoded));
  const auto scales = again.streams[2].data.values<uint8_t>();
  for (size_t block = 1; block < kBlocks; ++block) EXPECT_EQ(scales[block], block);
}

std::vector<int> bytes(const Encoded& encoded, size_t stream) {
  const auto values = encoded.streams[stream].data.values<uint8_t>();
  return {values.begin(), values.end()};
}

Encoded encoded(const char* text, const std::vector<float>& values) {
  return encode(parse_quant_spec_text(text), Tensor::from({static_cast<int64_t>(values.size())}, values));
}

TEST(BlockCodes, StreamsAreAsDocumented) {
  Encoded e = encoded("block_fp:width=4", {3, 0.3F, -0.25F, 4});
  EXPECT_EQ(e.streams[1].name, "exponents");
  EXPECT_THAT(bytes(e, 0), ElementsAre(0x16, 0x78));
  EXPECT_THAT(bytes(e, 1), ElementsAre(127 + 2));
  e = encoded("block_minifloat:width=6,exponent_width=2", {7.9F, -5.2F, 0.05F, 0.07F});
  EXPECT_EQ(e.streams[1].name, "biases");
  EXPECT_THAT(bytes(e, 0), ElementsAre(0x9F, 0x0E, 0x04));
  EXPECT_THAT(bytes(e, 1), ElementsAre(1));
  e = encoded("block_log:width=3", {3, -1.5F, 0.1F, 0});
  EXPECT_EQ(e.streams[1].name, "biases");
  EXPECT_THAT(bytes(e, 0), ElementsAre(3 + (6 << 3), 0));
  EXPECT_THAT(bytes(e, 1), ElementsAre(1));
  e = encoded("mx:element=e2m1", {7.9F, 5, -0.3F, 0.25F});
  EXPECT_EQ(e.streams[1].name, "scales");
  EXPECT_THAT(bytes(e, 0), ElementsAre(0x67, 0x09));
  EXPECT_THAT(bytes(e, 1), ElementsAre(127));
  EXPECT_THAT(bytes(encoded("mx:element=int8", {1.999F, -1.999F, 0.01F}), 0), ElementsAre(127, 256 - 127, 1));
  e = encoded("nvfp4", {6, -2.4F, 2.5F, 0.25F});
  EXPECT_EQ(e.streams[1].name, "tensor_scale");
  EXPECT_EQ(e.streams[1].data.values<float>()[0], 6.0F / 2688);
  EXPECT_EQ(e.streams[2].name, "scales");
  EXPECT_THAT(bytes(e, 0), ElementsAre(0xC7, 0x04));
  EXPECT_THAT(bytes(e, 2), ElementsAre(0x7E));
}

TEST(BlockCodes, ScalesAreBitsInTheOrderOfBlocks) {
  EXPECT_THAT(bytes(encoded("block_fp:exponent_width=3,exponent_bias=0,block_size=2", {1, 1, 2, 4, 8, 8}), 1),
              ElementsAre((2 << 3) | ((3 << 6) & 255), 3 >> 2));
  const std::vector<float> values = {1, 0, 2, 0,  4,  //
                                     0, 0, 0, 2,  0,  //
                                     8, 0, 0, 0,  0,  //
                                     0, 0, 0, 16, 32};
  const Encoded grid = encode(parse_quant_spec_text("block_fp:block_size=2x2"), Tensor::from({4, 5}, values));
  EXPECT_THAT(bytes(grid, 1), ElementsAre(127, 128, 129, 130, 131, 132));
  const Encoded columns =
      encode(parse_quant_spec_text("block_fp:block_size=3,block_axis=0"), Tensor::from({4, 5}, values));
  EXPECT_THAT(bytes(columns, 1), ElementsAre(130, 255, 128, 128, 129, 255, 255, 255, 131, 132));
}

TEST(BlockCodes, NanHasACodeInMxOrIsAnError) {
  EXPECT_THAT(bytes(encoded("mx:element=e4m3", {1, kNan}), 0), ElementsAre(0x78, 0x7F));
  EXPECT_THAT(bytes(encoded("mx:element=e5m2", {kNan, -kInfinity}), 0), ElementsAre(0x7F, 0xFB));
  for (const char* format : kBlockFormats) {
    const QuantSpec spec = spec_of(format);
    if (has_nan_code(spec)) continue;
    for (const Shape& shape : {Shape{500000}, Shape{50, 10000}, Shape{3, 166667}}) {
      Tensor input(DType::kFloat32, shape);
      for (const size_t i : {499999U, 123456U, 300000U}) input.values<float>()[i] = kNan;
      EXPECT_THAT([&] { encode(spec, input); },
                  ThrowsMessage<Error>(HasSubstr("element 123456 is NaN, for which " + std::string(format))));
    }
  }
}

void expect_decode_error(const Encoded& bad, const char* message) {
  EXPECT_THAT([&] { decode(bad); }, ThrowsMessage<Error>(HasSubstr(message)));
}

TEST(BlockCodes, DecodeRefusesScalesThatAreNone) {
  Encoded e = encoded("mx:block_size=2", {1, 2, 3, 4, 5, 6});
  e.streams[1].data.values<uint8_t>()[1] = 255;
  expect_decode_error(e, "the scale of block 1 has the code 255, expected at most 254");
  e.streams[1].data = Tensor(DType::kUInt8, {2});
  expect_decode_error(e, "stream \"scales\" is uint8 of shape [2], expected \"scales\", uint8 of shape [3]");
  e.streams.pop_back();
  expect_decode_error(e, "1 streams");

  e = encoded("nvfp4", std::vector<float>(20, 1));
  for (const int code : {127, 128, 255}) {
    e.streams[2].data.values<uint8_t>()[1] = static_cast<uint8_t>(code);
    expect_decode_error(e, "expected at most 126");
  }
  e.streams[2].data.values<uint8_t>()[1] = 1;
  for (const float scale : {0.0F, -1.0F}) {
    e.streams[1].data.values<float>()[0] = scale;
    expect_decode_error(e, "stream \"tensor_scale\" has");
  }
  e.streams[1].data.values<float>()[0] = kInfinity;
  expect_decode_error(e, "\"tensor_scale\" has inf at index 0");
  e.streams[1].data.values<float>()[0] = 0x1p125F;
  expect_decode_error(e, "the scale of block 0 has the code 126, expected at most 79");
}

/// Values that float32 cannot hold, which encode never writes but other programs may.
TEST(BlockCodes, DecodeHoldsValuesTowardZero) {
  const auto decoded = [](Encoded e, int code, int scale) {
    e.streams[0].data.values<uint8_t>()[0] = static_cast<uint8_t>(code);
    e.streams[1].data.values<uint8_t>()[0] = static_cast<uint8_t>(scale);
    return decode(e).values<float>()[0];
  };
  constexpr float kLargest = std::numeric_limits<float>::max();
  const Encoded e4m3 = encoded("mx:element=e4m3", {1});
  EXPECT_EQ(decoded(e4m3, 0x7E, 254), kLargest);
  EXPECT_EQ(decoded(e4m3, 0xFE, 254), -kLargest);
  EXPECT_TRUE(std::isnan(decoded(e4m3, 0x7F, 254)));
  EXPECT_EQ(decoded(e4m3, 0x38, 254), 0x1p127F);
  EXPECT_EQ(decoded(e4m3, 0x38, 0), 0x1p-127F);
  EXPECT_EQ(decoded(encoded("mx:element=e5m2", {1}), 0xFC, 3), -kInfinity);
  EXPECT_EQ(decoded(encoded("mx:element=int8", {1}), 0x80, 127), -2.0F);
  const Encoded fine = encoded("block_fp:exponent_bias=255", {1});
  EXPECT_EQ(decoded(fine, 127, 255 - 149), 0);
  EXPECT_EQ(decoded(fine, 12, 255 - 145), 0x1p-149F);
  EXPECT_EQ(decoded(encoded("block_fp:exponent_bias=-128", {1}), 3, 100), kLargest);
  EXPECT_EQ(decoded(encoded("block_log:width=8", {1}), 0, 200), 0);
}

}  // namespace
}  // namespace detent
