#include "detent/formats/measure/distortion.h"

#include <cmath>
#include <limits>
#include <vector>

#include "detent/formats/every_target_test.h"

namespace detent {
namespace {

class DifferenceSumsTest : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(DifferenceSumsTest);

void expect_same(const std::vector<float>& original, const std::vector<float>& quantized) {
  DifferenceSums actual{.signal = {1, 2, 3, 4}, .largest = {0.1, 0, 0, 0}, .zeros = 5};
  DifferenceSums expected = actual;
  const auto size = static_cast<int64_t>(original.size());
  EXPECT_EQ(add_finite_blocks(original.data(), quantized.data(), size, actual),
            add_finite_blocks_reference(original.data(), quantized.data(), size, expected));
  EXPECT_EQ(actual.signal, expected.signal);
  EXPECT_EQ(actual.noise, expected.noise);
  EXPECT_EQ(actual.product, expected.product);
  EXPECT_EQ(actual.power, expected.power);
  EXPECT_EQ(actual.largest, expected.largest);
  EXPECT_EQ(actual.zeros, expected.zeros);
}

TEST_P(DifferenceSumsTest, AddTheNumbersOfTheReferenceInItsOrder) {
  for (const size_t size : {0U, 1U, 255U, 256U, 1000U, 4096U}) {
    std::vector<float> original(size);
    std::vector<float> quantized(size);
    for (size_t i = 0; i < size; ++i) {
      original[i] = 37 * std::sin(0.7F * static_cast<float>(i));
      quantized[i] = std::round(original[i] / 8) * 8;
    }
    expect_same(original, quantized);
  }
}

TEST_P(DifferenceSumsTest, StopAtTheBlockOfAValueThatIsNotFinite) {
  using Limits = std::numeric_limits<float>;
  for (const float other : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
    for (const size_t at : {0U, 255U, 256U, 700U}) {
      std::vector<float> original(1024, 1.25F);
      std::vector<float> quantized(1024, -0.0F);
      original[at] = other;
      expect_same(original, quantized);
      std::swap(original, quantized);
      expect_same(original, quantized);
    }
  }
  expect_same(std::vector<float>(256, Limits::max()), std::vector<float>(256, -Limits::max()));
}

}  // namespace
}  // namespace detent
