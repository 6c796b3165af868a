// Every SIMD target gives what reference.h gives, to the last bit.
#include "detent/formats/elements/element_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "detent/formats/every_target_test.h"
#include "detent/formats/format_cases_test.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"
#include "detent/formats/reference/reference_for_test.h"

namespace detent {
namespace {

/// A view of `count` elements, `offset` elements after an aligned address.
Tensor unaligned(const Tensor& storage, int64_t offset, int64_t count) {
  std::byte* data = const_cast<std::byte*>(storage.bytes().data()) + offset * 4;
  return Tensor::borrow(DType::kFloat32, {count}, data, storage.owner());
}

class EveryTarget : public EveryTargetTest {};

TEST_P(EveryTarget, HardValues) {
  const std::vector<float> values = hard_values();
  const Tensor input = Tensor::from({static_cast<int64_t>(values.size())}, values);
  for (const char* text : kElementFormats) {
    const QuantSpec spec = parse_quant_spec_text(text);
    EXPECT_EQ(bit_difference(input, fake_quantize(spec, input, 7), reference_fake_quantize(spec, input, 7)),
              "")
        << text;
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
  for (const char* text : kElementFormats) {
    const QuantSpec spec = parse_quant_spec_text(text);
    EXPECT_EQ(bit_difference(input, fake_quantize(spec, input, 9), reference_fake_quantize(spec, input, 9)),
              "")
        << text;
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
    ASSERT_EQ(bit_difference(input, fake_quantize(spec, input), reference_fake_quantize(spec, input)), "")
        << size;
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
        const Tensor expected = reference_fake_quantize(spec, input, 3);
        Tensor output = unaligned(Tensor(DType::kFloat32, {count + 8}), 3, count);
        fake_quantize(spec, input, output, 3);
        ASSERT_EQ(bit_difference(input, output, expected), "") << text << " " << count << " " << offset;
        Tensor in_place = unaligned(pool.clone(), offset, count);
        fake_quantize(spec, in_place, in_place, 3);
        ASSERT_EQ(bit_difference(input, in_place, expected), "") << text << " in place";
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
    with_element_kernels(
        derive_parameters(spec, input, grouping, 0), grouping, [&](const auto& groups, const auto& kernels) {
          kernels.round(groups, input.values<float>().data(), output.values<float>().data(), 0, count, true);
        });
    ASSERT_EQ(bit_difference(input, output, reference_fake_quantize(spec, input)), "") << count;
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
      EXPECT_EQ(bit_difference(input, fake_quantize(spec, input), reference_fake_quantize(spec, input)), "")
          << axis << format;
    }
  }
}

// Where channels take turns along a row, the lanes of a vector belong to several.
TEST_P(EveryTarget, ChannelsOnTheLastAxis) {
  const std::vector<float> values = hard_values();
  for (const int64_t channels : {2, 3, 5, 8, 16, 17, 64, 100}) {
    const int64_t rows = static_cast<int64_t>(values.size()) / channels;
    const Tensor input =
        Tensor::from({rows, channels}, std::span(values).first(static_cast<size_t>(rows * channels)));
    Affine given;
    for (int64_t c = 0; c < channels; ++c) {
      given.scale.push_back(0.1F * static_cast<float>(c + 1));
      given.zero_point.push_back(static_cast<int>(c % 200) - 100);
    }
    for (const Format& format :
         {Format(given), Format(Affine{.width = 4, .symmetric = true}),
          Format(Ternary{.scaling_factor = true}), Format(Binary{.stochastic = true}),
          Format(Binary{.scaling = BinaryScaling::kPerChannel}), Format(BinaryResidual{})}) {
      QuantSpec spec{.format = format, .granularity = Granularity::kChannel, .axis = 1};
      if (const auto* binary = std::get_if<Binary>(&format)) {
        spec.granularity = Granularity::kTensor;
        spec.axis = binary->scaling == BinaryScaling::kPerChannel ? 1 : 0;
      }
      const Tensor got = fake_quantize(spec, input, 3);
      EXPECT_EQ(bit_difference(input, got, reference_fake_quantize(spec, input, 3)), "")
          << quant_spec_text(spec) << " of " << channels << " channels";
    }
  }
}

#if defined(__x86_64__)
TEST_P(EveryTarget, DoesNotDependOnTheCallersFloatingPointMode) {
  constexpr unsigned kFlushSubnormals = 0x8040;  // FTZ and DAZ
  const std::vector<float> values = hard_values();
  const Tensor input = Tensor::from({static_cast<int64_t>(values.size())}, values);
  const unsigned saved = _mm_getcsr();
  for (const char* text : kElementFormats) {
    const QuantSpec spec = parse_quant_spec_text(text);
    const Tensor expected = fake_quantize(spec, input, 5);
    const Tensor mask = clipped_ste_mask(spec, input);
    for (const unsigned mode : {0x2000U, 0x4000U, 0x6000U, 0x0000U}) {  // down, up, toward zero, nearest
      _mm_setcsr(0x1F80U | mode | kFlushSubnormals);
      const Tensor got = fake_quantize(spec, input, 5);
      const Tensor got_mask = clipped_ste_mask(spec, input);
      const unsigned left = _mm_getcsr() & ~0x3FU;  // without the exception flags
      _mm_setcsr(saved);
      EXPECT_EQ(bit_difference(input, got, expected), "") << text << " mode " << mode;
      EXPECT_TRUE(got_mask.equals(mask)) << text << " mode " << mode;
      EXPECT_EQ(left, 0x1F80U | mode | kFlushSubnormals);
    }
  }
}
#endif

DETENT_ON_EVERY_TARGET(EveryTarget);

}  // namespace
}  // namespace detent
