#include "detent/hardware/circuit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "detent/hardware/layer_circuits.h"
#include "detent/inference/code_type.h"
#include "detent/inference/requantize.h"

namespace detent {
namespace {

using Kind = Requantizer::Kind;

/// Equal for every sum; returns how it is computed.
Kind kind_of(const std::function<int64_t(int64_t)>& function, const WireRange& sums, double slope) {
  const Requantizer found = find_requantizer(function, sums, slope);
  for (int64_t sum = sums.low; sum <= sums.high; ++sum) EXPECT_EQ(found.code(sum), function(sum)) << sum;
  return found.kind;
}

TEST(Requantizer, IsEqualForEverySum) {
  const CodeType bytes{.scale = 1, .zero_point = -7, .low = -128, .high = 127};
  const WireRange sums{-5000, 6000};
  const auto rounded = [&](float multiplier) {
    return [=](int64_t sum) { return int64_t{bytes.at(static_cast<float>(sum) * multiplier)}; };
  };
  EXPECT_EQ(kind_of(rounded(0.0625F), sums, 0.0625), Kind::kToEven);
  EXPECT_EQ(kind_of(rounded(0.0371F), sums, 0.0371), Kind::kFloor);
  kind_of(rounded(1), sums, 1);
  EXPECT_EQ(kind_of(rounded(1e-6F), sums, 1e-6), Kind::kThresholds);  // one code
  const FixedMultiplier fixed = FixedMultiplier::of(0.0371);
  kind_of([&](int64_t sum) { return bytes.at(int64_t{fixed_product(static_cast<int32_t>(sum), fixed)}); },
          sums, 0.0371);
  // No straight line: compared.
  EXPECT_EQ(kind_of([](int64_t sum) { return static_cast<int64_t>(std::sqrt(static_cast<double>(sum))); },
                    {0, 400}, 0.05),
            Kind::kThresholds);
}

TEST(IntegerGraph, FindsFormatsThatAreAffine) {
  const auto equal = [](const char* text) {
    const auto found = affine_equal(parse_quant_spec_text(text));
    return found ? quant_spec_text(*found) : "";
  };
  EXPECT_EQ(equal("fixed:width=4,frac_width=2"), "affine:width=4,symmetric=true,scale=0.25x,zero_point=0x");
  EXPECT_EQ(equal("fixed:width=4,frac_width=2,signed=false"),
            "affine:width=4,signed=false,scale=0.25x,zero_point=0x");
  EXPECT_EQ(equal("fixed:width=4,frac_width=2,rounding=floor"), "");
  EXPECT_EQ(equal("ternary:threshold=0.3"), "");  // goes to 1 from 0.3 on
}

}  // namespace
}  // namespace detent
