// Every SIMD target gives what the definitions in reference_blocks.cc give.
#include "detent/formats/blocks/block_kernels.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "detent/formats/elements/element_kernels.h"
#include "detent/formats/every_target_test.h"
#include "detent/formats/format_cases_test.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/reference/reference_for_test.h"

namespace detent {
namespace {

class EveryTargetBlocks : public EveryTargetTest {};

TEST_P(EveryTargetBlocks, AllMagnitudes) {
  for (const char* format : kBlockFormats) {
    const QuantSpec spec = spec_of(format);
    for (int centre = -145; centre <= 125; centre += 9) {
      for (const int spread : {3, 40, 280}) {
        const Tensor input = random_tensor({7, 50}, static_cast<uint32_t>(centre + spread), centre, spread);
        ASSERT_EQ(difference(input, fake_quantize(spec, input), reference_fake_quantize(spec, input)), "")
            << format << " " << centre << " " << spread;
      }
    }
  }
}

TEST_P(EveryTargetBlocks, ShapesAndBlockSizes) {
  const Shape shapes[] = {{},        {1},       {67},         {0},          {3, 0, 2},       {5, 33},
                          {2, 3, 7}, {40, 3},   {4, 6, 3, 3}, {3, 5, 1, 1}, {2, 3, 4, 5, 3}, {2, 1, 1, 40},
                          {3, 1200}, {2, 70, 9}};
  const char* const sizes[] = {"1",   "3",    "16",    "17",   "-1",   "40",    "1000",   "1x16",
                               "2x3", "-1x8", "-1x-1", "2x-1", "4x40", "2x1x2", "-1x1x1", "2x2x2x2x2"};
  for (const char* format : {"block_fp:width=5", "block_log:width=5", "mx:element=e3m2"}) {
    for (const Shape& shape : shapes) {
      const Tensor input = random_tensor(shape, 11, 0, 24);
      for (const std::string size : sizes) {
        const QuantSpec spec = spec_of(format, "block_size=" + size);
        ASSERT_EQ(difference(input, fake_quantize(spec, input), reference_fake_quantize(spec, input)), "")
            << format << " " << size << " " << shape_text(shape);
      }
    }
  }
}

/// Elements so far apart that hardly two blocks have the same largest exponent.
TEST_P(EveryTargetBlocks, BoxesOfAnyWidth) {
  for (const char* size : {"2x17", "4x24", "3x40", "2x100", "4x300", "2x600", "3x15", "2x5"}) {
    const QuantSpec spec = spec_of("mx:element=e2m1", std::string("block_size=") + size);
    const Tensor input = random_tensor({6, 1300}, 13, 0, 250);
    ASSERT_EQ(difference(input, fake_quantize(spec, input), reference_fake_quantize(spec, input)), "")
        << size;
  }
}

TEST_P(EveryTargetBlocks, AnyAxis) {
  for (const char* format : kBlockFormats) {
    for (const char* size : {"4", "16", "-1"}) {
      for (int axis = -4; axis < 4; ++axis) {
        QuantSpec spec = spec_of(format, std::string("block_size=") + size);
        spec.block_axis = axis;
        const Tensor input = random_tensor({3, 20, 5, 7}, 5, -3, 20);
        ASSERT_EQ(difference(input, fake_quantize(spec, input), reference_fake_quantize(spec, input)), "")
            << format << " " << size << " " << axis;
      }
    }
  }
}

TEST_P(EveryTargetBlocks, StreamsWhereItCan) {
  for (const char* size : {"16", "32", "20", "8", "-1", "4x16", "4x1", "2x-1"}) {
    for (const Shape& shape : {Shape{8, 64}, Shape{8, 100}, Shape{9, 48}}) {
      const QuantSpec spec = spec_of("block_fp", std::string("block_size=") + size);
      const Tensor input = random_tensor(shape, 3, 0, 20);
      const auto layout = BlockLayout(*block_size(spec.format), std::nullopt, shape);
      const Group whole(input.values<float>(), {1, 1, input.numel()}, 0);
      const std::vector parameters = {std::get<BlockFp>(spec.format).parameters(whole, 0)};
      Tensor output(DType::kFloat32, shape);
      round_blocks(parameters, layout, BlockOutput::kValue, input.values<float>().data(),
                   output.values<float>().data(), 0, layout.unit_count(), true);
      EXPECT_EQ(difference(input, output, reference_fake_quantize(spec, input)), "") << size;
    }
  }
}

/// Between neighbouring values of e2m1.
constexpr float kTies[] = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};

TEST_P(EveryTargetBlocks, QuotientsAtTies) {
  constexpr size_t kBlocks = 4000;
  Tensor input(DType::kFloat32, {kBlocks * Nvfp4::kBlockSize});
  const std::span<float> values = input.values<float>();
  for (size_t block = 0; block < kBlocks; ++block)
    values[block * Nvfp4::kBlockSize] = 1.0F + static_cast<float>(block * block % 7919) * 0.37F;
  const Nvfp4Parameters parameters = Nvfp4().parameters(Group(values, {1, 1, input.numel()}, 0), 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t k = i % Nvfp4::kBlockSize;
    if (k == 0) continue;
    const float tie = kTies[k % std::size(kTies)] * parameters.shared_scale(values[i - k]).shared[0];
    const int nudge = static_cast<int>(i / 7 % 5) - 2;
    values[i] = std::bit_cast<float>(std::bit_cast<int32_t>(tie) + nudge) * (i % 2 == 0 ? 1.0F : -1.0F);
  }
  const QuantSpec spec = spec_of("nvfp4");
  EXPECT_EQ(difference(input, fake_quantize(spec, input), reference_fake_quantize(spec, input)), "");
  EXPECT_EQ(difference(input, decode(encode(spec, input)), reference_fake_quantize(spec, input)), "");
}

/// Zeros after the elements of a block change nothing, but make it wide.
TEST_P(EveryTargetBlocks, NarrowBlocksSaturateAsWideOnes) {
  for (const char* format : {"block_fp:width=3", "block_minifloat", "mx:element=e2m1", "block_log:width=4"}) {
    for (const int64_t width : {1, 2, 4, 8}) {
      const Tensor input = random_tensor({40 * width}, 21, 0, 6);
      Tensor padded(DType::kFloat32, {1280});  // 40 rows of 32
      for (int64_t i = 0; i < 40 * width; ++i) {
        padded.values<float>()[static_cast<size_t>(i / width * 32 + i % width)] =
            input.values<float>()[static_cast<size_t>(i)];
      }
      const Tensor got = clipped_ste_mask(spec_of(format, fmt::format("block_size={}", width)), input);
      const Tensor expected = clipped_ste_mask(spec_of(format, "block_size=32"), padded);
      for (int64_t i = 0; i < 40 * width; ++i) {
        ASSERT_EQ(got.values<float>()[static_cast<size_t>(i)],
                  expected.values<float>()[static_cast<size_t>(i / width * 32 + i % width)])
            << format << " " << width << " element " << i;
      }
    }
  }
}

TEST_P(EveryTargetBlocks, InPlaceAndUnaligned) {
  for (const char* size : {"16", "5", "2x3", "-1"}) {
    const QuantSpec spec = spec_of("block_minifloat", std::string("block_size=") + size);
    const Tensor pool = random_tensor({200}, 8, 2, 20);
    for (int64_t offset = 0; offset < 5; ++offset) {
      Tensor copy = pool.clone();
      std::byte* data = copy.bytes().data() + offset * 4;
      Tensor view = Tensor::borrow(DType::kFloat32, {6, 31}, data, copy.owner());
      const Tensor input = view.clone();
      fake_quantize(spec, view, view);
      ASSERT_EQ(difference(input, view, reference_fake_quantize(spec, input)), "") << size << " " << offset;
      for (size_t i = static_cast<size_t>(offset) + size_t{6} * 31; i < 200; ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(copy.values<float>()[i]),
                  std::bit_cast<uint32_t>(pool.values<float>()[i]));
      }
    }
  }
}

/// Nvfp4Kernel's substitute for |x| / divisor, for every significand of the divisor and the |x| around what
/// is a tie.
TEST(Nvfp4Quotient, OneNewtonStepDecidesAsDivision) {
  const auto side = [](float quotient, float tie) { return (quotient > tie) - (quotient < tie); };
  int64_t wrong = 0;
  for (int32_t significand = 0; significand < 1 << 23; ++significand) {
    const auto divisor = std::bit_cast<float>(0x3F800000 | significand);
    const float reciprocal = 1.0F / divisor;
    for (const float tie : kTies) {
      const auto middle = std::bit_cast<int32_t>(tie * divisor);
      for (int32_t bits = middle - 1; bits <= middle + 1; ++bits) {
        const auto x = std::bit_cast<float>(bits);
        const float estimate = x * reciprocal;
        const float remainder = std::fma(-estimate, divisor, x);
        const float quotient = std::fma(remainder, reciprocal, estimate);
        wrong += side(quotient, tie) != side(x / divisor, tie) ? 1 : 0;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

#if defined(__x86_64__)
TEST_P(EveryTargetBlocks, DoesNotDependOnTheCallersFloatingPointMode) {
  constexpr unsigned kFlushSubnormals = 0x8040;  // FTZ and DAZ
  const unsigned saved = _mm_getcsr();
  for (const char* format : kBlockFormats) {
    const QuantSpec spec = spec_of(format);
    for (const int centre : {-135, 0, 120}) {
      const Tensor input = random_tensor({100}, 4, centre, 60);
      const Tensor expected = fake_quantize(spec, input);
      const Tensor mask = clipped_ste_mask(spec, input);
      for (const unsigned mode : {0x2000U, 0x4000U, 0x6000U, 0x0000U}) {
        _mm_setcsr(0x1F80U | mode | kFlushSubnormals);
        const Tensor got = fake_quantize(spec, input);
        const Tensor got_mask = clipped_ste_mask(spec, input);
        _mm_setcsr(saved);
        EXPECT_EQ(difference(input, got, expected), "") << format << " mode " << mode;
        EXPECT_TRUE(got_mask.equals(mask)) << format << " mode " << mode;
      }
    }
  }
}
#endif

/// Ranks 1 to 5, odd and zero sizes.
Shape random_shape() {
  const auto rank = *rc::gen::inRange<size_t>(1, 6);
  const int64_t largest = rank == 1 ? 5000 : rank == 2 ? 130 : rank == 3 ? 37 : rank == 4 ? 12 : 8;
  Shape shape;
  for (size_t i = 0; i < rank; ++i) {
    const bool zero = *rc::gen::inRange(0, 40) == 0;
    shape.push_back(zero ? 0 : *rc::gen::inRange<int64_t>(1, largest));
  }
  return shape;
}

/// Block sizes of the last dimensions; often larger than the dimension, and no multiple of anything.
std::string random_block_size(int rank) {
  std::string text;
  const int sizes = *rc::gen::inRange(1, rank + 1);
  for (int i = 0; i < sizes; ++i) {
    const auto size = *rc::gen::oneOf(rc::gen::element<int64_t>(-1, 1, 2, 3, 4, 7, 8, 16, 32, 1000),
                                      rc::gen::inRange<int64_t>(1, 80));
    text += fmt::format("{}{}", i == 0 ? "" : "x", size);
  }
  return text;
}

/// Checks that the scalar reference, the kernels and decoded codes agree.
void check_any_shape(const char* format) {
  const Shape shape = random_shape();
  const auto rank = static_cast<int>(shape.size());
  const bool sized = std::string_view(format).find("nvfp4") == std::string_view::npos;
  const std::string size = sized && *rc::gen::inRange(0, 5) > 0 ? random_block_size(rank) : "";
  QuantSpec spec = spec_of(format, size.empty() ? "" : "block_size=" + size);
  if (size.find('x') == std::string::npos && *rc::gen::arbitrary<bool>())
    spec.block_axis = *rc::gen::inRange(-rank, rank);
  const int centre = *rc::gen::element(-140, -20, 0, 5, 110);
  Tensor input = random_tensor(shape, *rc::gen::arbitrary<uint32_t>(), centre, *rc::gen::inRange(1, 60));
  const std::string what = fmt::format("{} of {}", quant_spec_text(spec), shape_text(shape));
  RC_LOG() << what;
  const Tensor rounded = fake_quantize(spec, input);
  RC_ASSERT(difference(input, rounded, reference_fake_quantize(spec, input)) == "");
  for (float& value : input.values<float>()) value = std::isfinite(value) ? value : 1.0F;
  RC_ASSERT(difference(input, decode(encode(spec, input)), fake_quantize(spec, input)) == "");
}

class BlocksProperty : public testing::TestWithParam<const char*> {};

TEST_P(BlocksProperty, AnyShape) {
  EXPECT_TRUE(rc::check([&] { check_any_shape(GetParam()); }));
}

INSTANTIATE_TEST_SUITE_P(Formats, BlocksProperty, testing::ValuesIn(kBlockFormats));

DETENT_ON_EVERY_TARGET(EveryTargetBlocks);

}  // namespace
}  // namespace detent
