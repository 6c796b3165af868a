// Codes of block formats: every target gives back what simulate gives; the streams are as documented.
#include "detent/formats/block_codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/highway.h>
#include <rapidcheck/gtest.h>

#include "detent/core/parallel.h"
#include "detent/formats/block_cases_test.h"
#include "detent/formats/encode.h"
#include "detent/formats/kernels.h"

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
  return difference(input, decode(encode(spec, input)), simulate(spec, input));
}

class EveryTargetBlockCodes : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    ASSERT_STREQ(kernel_target(), hwy::TargetName(GetParam()));
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

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

std::vector<int64_t> attainable_targets() {
  std::vector<int64_t> targets;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) targets.push_back(target);
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Highway, EveryTargetBlockCodes, testing::ValuesIn(attainable_targets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

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
      const Tensor expected = simulate(spec, input);
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

/// One block of all codes, but for those whose values simulate never gives.
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

}  // namespace
}  // namespace detent
