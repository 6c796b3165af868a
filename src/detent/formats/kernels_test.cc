// Every SIMD target gives what reference.h gives, to the last bit (zeros by value).
#include "detent/formats/kernels.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <limits>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "detent/formats/float_environment.h"
#include "detent/formats/group_parameters.h"
#include "detent/formats/reference.h"

namespace detent {
namespace {

const char* const kSpecs[] = {
    "fixed",
    "fixed:rounding=floor",
    "fixed:width=8,signed=false",
    "fixed:width=8,signed=false,rounding=floor",
    "fixed:width=1,frac_width=0",
    "fixed:width=3,frac_width=-2",
    "fixed:width=32,frac_width=0",
    "fixed:width=32,frac_width=16,signed=false,rounding=floor",
    "fixed:width=32,frac_width=-96,signed=false",
    "fixed:width=32,frac_width=96,rounding=floor",
    "fixed:width=2,frac_width=96",
    "fixed:width=2,frac_width=-96,rounding=floor",
    "minifloat_ieee",
    "minifloat_ieee:exponent_width=5",
    "minifloat_ieee:width=4,exponent_width=3,exponent_bias=1",
    "minifloat_ieee:width=3,exponent_width=2",
    "minifloat_ieee:width=2,exponent_width=1",
    "minifloat_ieee:width=5,exponent_width=1,exponent_bias=0",
    "minifloat_ieee:width=16,exponent_width=8,exponent_bias=128",
    "minifloat_ieee:width=31,exponent_width=8,exponent_bias=128",
    "minifloat_ieee:width=9,exponent_width=8,exponent_bias=150",
    "minifloat_ieee:width=9,exponent_width=8,exponent_bias=149",
    "minifloat_ieee:width=4,exponent_width=1,exponent_bias=-126",
    "minifloat_ieee:width=24,exponent_width=1,exponent_bias=128",
    "minifloat_ieee:width=3,exponent_width=1,exponent_bias=-70",
    "minifloat_denorm",
    "minifloat_denorm:width=4,exponent_width=2",
    "minifloat_denorm:width=16,exponent_width=8,exponent_bias=128",
    "minifloat_denorm:width=31,exponent_width=8",
    "minifloat_denorm:width=9,exponent_width=7,exponent_bias=-1",
    "log",
    "log:width=2,exponent_bias=0",
    "log:width=8,exponent_bias=128",
    "log:width=9,exponent_bias=149",
    "log:width=9,exponent_bias=128",
    "affine",
    "affine:width=4,symmetric=true",
    "affine:signed=false,narrow_range=true",
    "affine:scale=0.1,zero_point=-3",
    "affine:width=24,signed=false,scale=1e-3",
    "affine:scale=1.5e-45,zero_point=127",
    "affine:scale=3e38",
    "affine:scale=3e36,zero_point=2,width=4,narrow_range=true",
    "binary_residual",
    "binary_residual:levels=5",
    "binary_residual:levels=3,gamma=1x0.5x0.25",
    "codebook:values=0.5x",
    "codebook:values=-1x0x1",
    "codebook:values=-3e38x-1e-45x0x1e-45x0.1x0.2x0.5x3e38",
    "codebook:values=-1x-0.6961928x-0.52507305x-0.3949175x-0.28444138x-0.18477343x-0.09105004x0x0.0795803x0."
    "1609302"
    "x0.2461123x0.33791524x0.44070983x0.562617x0.72295684x1",
    "fp8_e4m3fn",
    "fp8_e5m2",
    "fp8_e5m2:saturate=false",
    "fp8_e4m3fnuz",
    "fp8_e5m2fnuz",
    "fp6_e3m2",
    "fp6_e2m3",
    "fp4_e2m1",
    "fp16",
    "fp16:saturate=false",
    "bf16",
    "bf16:saturate=false",
    "tf32:saturate=false",
    "ternary:threshold=0.5",
    "ternary:threshold=1e-45,scaling_factor=true",
    "ternary:scaling_factor=true",
    "binary",
    "binary:bipolar=false,scaling=per_tensor",
    "binary:stochastic=true",
};

void add_with_neighbours(std::vector<float>& values, float value) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float x : {value, std::nextafter(value, kInfinity), std::nextafter(value, -kInfinity)}) {
    values.push_back(x);
    values.push_back(-x);
  }
}

/// Special values, ties and bounds of each fixed format above, with their neighbours.
std::vector<float> hard_values() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values = {Limits::quiet_NaN()};
  for (const float x :
       {0.0F, Limits::denorm_min(), Limits::min(), Limits::max(), Limits::infinity(), 1.0F, 0.5F}) {
    add_with_neighbours(values, x);
  }
  for (const int exponent : {-96, -16, -4, 0, 2, 96}) {
    const float step = power_of_two(exponent);
    for (const float code : {0.5F, 1.0F, 1.5F, 2.5F, 3.5F, 126.5F, 127.5F, 128.0F, 254.5F, 255.5F, 8388607.5F,
                             0x1p24F, 0x1p31F, 0x1p32F}) {
      add_with_neighbours(values, code * step);
    }
  }
  return values;
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Empty when equal, else the first difference.
std::string difference(const Tensor& input, const Tensor& got, const Tensor& expected) {
  for (size_t i = 0; i < static_cast<size_t>(input.numel()); ++i) {
    const float x = input.values<float>()[i];
    const float y = got.values<float>()[i];
    const float z = expected.values<float>()[i];
    if (!same(y, z)) return fmt::format("element {}: {:a} gives {:a}, not {:a}", i, x, y, z);
  }
  return "";
}

/// A view of `count` elements, `offset` elements behind an aligned address.
Tensor unaligned(const Tensor& storage, int64_t offset, int64_t count) {
  std::byte* data = const_cast<std::byte*>(storage.bytes().data()) + offset * 4;
  return Tensor::borrow(DType::kFloat32, {count}, data, storage.owner());
}

class EveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    ASSERT_STREQ(kernel_target(), hwy::TargetName(GetParam()));
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(EveryTarget, HardValues) {
  const std::vector<float> values = hard_values();
  const Tensor input = Tensor::from({static_cast<int64_t>(values.size())}, values);
  for (const char* text : kSpecs) {
    const QuantSpec spec = parse_quant_spec_text(text);
    EXPECT_EQ(difference(input, simulate(spec, input, 7), reference_simulate(spec, input, 7)), "") << text;
  }
}

TEST_P(EveryTarget, RandomBits) {
  Tensor input(DType::kInt32, {1 << 16});
  uint32_t state = 12345;
  for (int32_t& bits : input.values<int32_t>()) {
    state = state * 1664525U + 1013904223U;
    bits = static_cast<int32_t>(state ^ (state >> 15));
  }
  input = Tensor::borrow(DType::kFloat32, input.shape(), input.bytes().data(), input.owner());
  for (const char* text : kSpecs) {
    const QuantSpec spec = parse_quant_spec_text(text);
    EXPECT_EQ(difference(input, simulate(spec, input, 9), reference_simulate(spec, input, 9)), "") << text;
  }
}

TEST_P(EveryTarget, CodebooksOfAnySize) {
  Tensor input(DType::kFloat32, {5000});
  uint32_t state = 99;
  for (float& x : input.values<float>()) {
    state = state * 1664525U + 1013904223U;
    x = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-28F;
  }
  for (const int size : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 256, 1000, 65536}) {
    Codebook format;
    for (int i = 0; i < size; ++i) {
      const float value = 14.0F * static_cast<float>(i + 1) / static_cast<float>(size + 1) - 7.0F;
      format.entries.push_back(value);
    }
    const QuantSpec spec{.format = format};
    ASSERT_EQ(difference(input, simulate(spec, input), reference_simulate(spec, input)), "") << size;
  }
}

TEST_P(EveryTarget, LengthsAndUnalignedStarts) {
  constexpr int64_t kMaxLanes = 16;
  const std::vector<float> values = hard_values();
  const Tensor pool = Tensor::from({static_cast<int64_t>(values.size())}, values);
  for (const char* text :
       {"fixed:rounding=floor", "ternary:threshold=0.5", "binary:stochastic=true", "minifloat_ieee", "bf16",
        "log", "affine:scale=0.1", "binary_residual:gamma=1x0.5", "codebook:values=-1x0x1"}) {
    const QuantSpec spec = parse_quant_spec_text(text);
    for (int64_t count = 0; count <= 4 * kMaxLanes + 3; ++count) {
      for (int64_t offset = 0; offset < 5; ++offset) {
        const Tensor input = unaligned(pool, offset, count);
        const Tensor expected = reference_simulate(spec, input, 3);
        Tensor output = unaligned(Tensor(DType::kFloat32, {count + 8}), 3, count);
        simulate(spec, input, output, 3);
        ASSERT_EQ(difference(input, output, expected), "") << text << " " << count << " " << offset;
        Tensor in_place = unaligned(pool.clone(), offset, count);
        simulate(spec, in_place, in_place, 3);
        ASSERT_EQ(difference(input, in_place, expected), "") << text << " in place";
      }
    }
  }
}

TEST_P(EveryTarget, StreamedStoresTouchNothingElse) {
  const std::vector<float> values = hard_values();
  const Tensor pool = Tensor::from({static_cast<int64_t>(values.size())}, values);
  const QuantSpec spec = parse_quant_spec_text("fixed");
  for (int64_t count = 1; count <= 67; ++count) {
    const Tensor input = unaligned(pool, 1, count);
    const Grouping grouping = make_grouping(spec, input.shape());
    Tensor storage(DType::kFloat32, {count + 8});
    Tensor output = unaligned(storage, 3, count);
    simulate_range(derive_parameters(spec, input, grouping, 0), grouping, input.values<float>().data(),
                   output.values<float>().data(), 0, count, true);
    ASSERT_EQ(difference(input, output, reference_simulate(spec, input)), "") << count;
    const auto all = storage.values<float>();
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(all[i], 0.0F);
    for (size_t i = static_cast<size_t>(count) + 3; i < all.size(); ++i) ASSERT_EQ(all[i], 0.0F);
  }
}

TEST_P(EveryTarget, ChannelsOfAnyAxis) {
  std::vector<float> values;
  for (int i = 0; i < 3 * 5 * 7 * 2; ++i) values.push_back(std::sin(static_cast<float>(i * i)));
  const Tensor input = Tensor::from({3, 5, 7, 2}, values);
  for (int axis = -4; axis < 4; ++axis) {
    for (const char* format : {"ternary:scaling_factor=true", "binary:scaling=per_channel"}) {
      const QuantSpec spec =
          parse_quant_spec_text(fmt::format("{},granularity=channel,axis={}", format, axis));
      EXPECT_EQ(difference(input, simulate(spec, input), reference_simulate(spec, input)), "")
          << axis << format;
    }
  }
}

#if defined(__x86_64__)
TEST_P(EveryTarget, DoesNotDependOnTheCallersFloatingPointMode) {
  constexpr unsigned kFlushSubnormals = 0x8040;  // FTZ and DAZ
  const std::vector<float> values = hard_values();
  const Tensor input = Tensor::from({static_cast<int64_t>(values.size())}, values);
  const unsigned saved = _mm_getcsr();
  for (const char* text : kSpecs) {
    const QuantSpec spec = parse_quant_spec_text(text);
    const Tensor expected = simulate(spec, input, 5);
    const Tensor mask = unsaturated_mask(spec, input);
    for (const unsigned mode : {0x2000U, 0x4000U, 0x6000U, 0x0000U}) {  // down, up, toward zero, nearest
      _mm_setcsr(0x1F80U | mode | kFlushSubnormals);
      const Tensor got = simulate(spec, input, 5);
      const Tensor got_mask = unsaturated_mask(spec, input);
      const unsigned left = _mm_getcsr() & ~0x3FU;  // without the exception flags
      _mm_setcsr(saved);
      EXPECT_EQ(difference(input, got, expected), "") << text << " mode " << mode;
      EXPECT_TRUE(got_mask.equals(mask)) << text << " mode " << mode;
      EXPECT_EQ(left, 0x1F80U | mode | kFlushSubnormals);
    }
  }
}
#endif

std::vector<int64_t> attainable_targets() {
  std::vector<int64_t> targets;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) targets.push_back(target);
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Highway, EveryTarget, testing::ValuesIn(attainable_targets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent
