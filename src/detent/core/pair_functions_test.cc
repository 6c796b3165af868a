#include "detent/core/pair_functions.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace detent {
namespace {

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  return {0,
          -T(0),
          1,
          -1,
          T(0.3),
          Limits::denorm_min(),
          -Limits::denorm_min(),
          Limits::max(),
          Limits::lowest(),
          Limits::infinity(),
          -Limits::infinity(),
          Limits::quiet_NaN()};
}

template <class T>
bool are_equal_bits(T a, T b) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b) || (std::isnan(a) && std::isnan(b));
}

template <class T>
class PairFunctions : public testing::Test {};
using Floats = testing::Types<float, double>;
TYPED_TEST_SUITE(PairFunctions, Floats);

/// Equal to a branch, to the bit: zeros keep their signs.
TYPED_TEST(PairFunctions, SelectWithoutABranch) {
  for (const TypeParam a : special_values<TypeParam>()) {
    for (const TypeParam b : special_values<TypeParam>()) {
      EXPECT_TRUE(are_equal_bits(Sloped::of(a, b), a < 0 ? a * b : a)) << a << " " << b;
      EXPECT_TRUE(are_equal_bits(Larger::of(a, b), a > b || std::isnan(a) ? a : b)) << a << " " << b;
      EXPECT_TRUE(are_equal_bits(Smaller::of(a, b), a < b || std::isnan(a) ? a : b)) << a << " " << b;
      for (const bool first : {true, false})
        EXPECT_TRUE(are_equal_bits(selected(first, a, b), first ? a : b)) << a << " " << b;
    }
  }
  EXPECT_EQ(selected(true, 1, 2), 1);
}

}  // namespace
}  // namespace detent
