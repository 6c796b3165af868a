#include "detent/core/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "detent/core/element_types.h"

namespace detent {
namespace {

using testing::ElementsAre;

Tensor floats(const std::vector<float>& values) { return Tensor::from<float>({std::ssize(values)}, values); }

/// All codes of a float of 16 bits.
Tensor all_halves(DType dtype) {
  Tensor halves(dtype, {1 << 16});
  for (int i = 0; i < 1 << 16; ++i) words_of<uint16_t>(halves)[i] = static_cast<uint16_t>(i);
  return halves;
}

TEST(Convert, HalvesComeBack) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Tensor halves = all_halves(dtype);
    const Tensor wide = to_float32(halves);
    const Tensor back = to_dtype(wide, dtype);
    for (int i = 0; i < 1 << 16; ++i) {
      if (std::isnan(wide.values<float>()[static_cast<size_t>(i)])) {
        EXPECT_TRUE(std::isnan(to_float32(back).values<float>()[static_cast<size_t>(i)])) << i;
      } else {
        ASSERT_EQ(words_of<uint16_t>(back)[i], i) << dtype_name(dtype);
      }
    }
  }
}

/// The middle of two neighbours goes to the even one, what lies beside it to the nearer one.
TEST(Convert, HalvesAreTheNearest) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Tensor wide = to_float32(all_halves(dtype));
    const auto values = wide.values<float>();
    std::vector<float> middles;
    std::vector<uint16_t> even;
    for (uint16_t i = 0; i < 0x7BFF; ++i) {
      const double middle = 0.5 * (static_cast<double>(values[i]) + static_cast<double>(values[i + 1]));
      const auto exact = static_cast<float>(middle);
      ASSERT_EQ(static_cast<double>(exact), middle);
      const auto odd = static_cast<uint16_t>(i % 2);
      const auto next = static_cast<uint16_t>(i + 1);
      middles.insert(middles.end(), {exact, std::nextafterf(exact, 0), std::nextafterf(exact, HUGE_VALF)});
      even.insert(even.end(), {static_cast<uint16_t>(i + odd), i, next});
    }
    const Tensor halves = to_dtype(floats(middles), dtype);
    for (size_t i = 0; i < even.size(); ++i)
      ASSERT_EQ(words_of<uint16_t>(halves)[i], even[i]) << dtype_name(dtype) << " " << middles[i];
  }
  const Tensor large = to_dtype(floats({65519, 65520, -1e30F, HUGE_VALF}), DType::kFloat16);
  EXPECT_THAT(std::vector(words_of<uint16_t>(large), words_of<uint16_t>(large) + 4),
              ElementsAre(0x7BFF, 0x7C00, 0xFC00, 0x7C00));
}

TEST(Convert, CutsFloatsTowardsZeroAndWrapsIntegers) {
  const Tensor x = floats({-2.7F, -0.5F, 2.7F, 300, -1e30F, NAN, 4294967296});
  EXPECT_THAT(to_dtype(x, DType::kInt64).values<int64_t>(),
              ElementsAre(-2, 0, 2, 300, std::numeric_limits<int64_t>::min(),
                          std::numeric_limits<int64_t>::min(), int64_t{1} << 32));
  EXPECT_THAT(to_dtype(x, DType::kUInt8).values<uint8_t>(), ElementsAre(254, 0, 2, 44, 0, 0, 0));
  EXPECT_THAT(to_dtype(x, DType::kBool).values<bool>(),
              ElementsAre(true, true, true, true, true, true, true));
  const Tensor wide = Tensor::from<int64_t>({3}, std::vector<int64_t>{-1, 256, (int64_t{1} << 53) + 1});
  EXPECT_THAT(to_dtype(wide, DType::kInt8).values<int8_t>(), ElementsAre(-1, 0, 1));
  EXPECT_THAT(to_dtype(wide, DType::kFloat64).values<double>(), ElementsAre(-1, 256, 9007199254740992.0));
}

TEST(Convert, NumbersAreHeldOrRefused) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(tensor_of_number(Value(kMost), DType::kInt64)->values<int64_t>()[0], kMost);
  EXPECT_EQ(tensor_of_number(Value(200), DType::kUInt8)->values<uint8_t>()[0], 200);
  EXPECT_EQ(tensor_of_number(Value(2.0), DType::kInt32)->values<int32_t>()[0], 2);
  EXPECT_EQ(tensor_of_number(Value(-0.0), DType::kInt32)->values<int32_t>()[0], 0);
  EXPECT_EQ(tensor_of_number(Value(0.1), DType::kFloat32)->values<float>()[0], 0.1F);
  EXPECT_FALSE(tensor_of_number(Value(200), DType::kInt8).has_value());
  EXPECT_FALSE(tensor_of_number(Value(0.5), DType::kInt32).has_value());
  EXPECT_FALSE(tensor_of_number(Value(std::nan("")), DType::kInt64).has_value());
  EXPECT_FALSE(tensor_of_number(Value("2"), DType::kInt64).has_value());
}

}  // namespace
}  // namespace detent
