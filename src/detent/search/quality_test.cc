#include "detent/search/quality.h"

#include <gtest/gtest.h>

#include <cmath>

#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

Quality good() {
  return {.samples = 10, .labelled = 10, .correct = 8, .signal = 100, .noise = 1, .divergence = 0.5};
}

TEST(Quality, WhatIsNotFiniteIsWorseThanAnyNumber) {
  Quality lost = good();
  lost.correct = 10;
  lost.add({.samples = 1, .labelled = 1, .signal = 10, .noise = HUGE_VAL});
  EXPECT_TRUE(good().is_finite());
  EXPECT_FALSE(lost.is_finite());
  EXPECT_EQ(lost.sqnr_db(), -HUGE_VAL);
  for (const QualityKind kind : {QualityKind::kSqnr, QualityKind::kAccuracy})
    EXPECT_TRUE(std::isfinite(lost.loss(kind)));
  EXPECT_GT(lost.loss(QualityKind::kSqnr), 1e5);
  EXPECT_TRUE(std::isfinite(lost.distortion()));
  EXPECT_EQ(Quality::from_numbers(lost.to_numbers(), ""), lost);
}

TEST(Quality, CountsOfAFileAreCounts) {
  for (const double count : {-1.0, 1e300, HUGE_VAL, std::nan("")}) {
    std::vector<double> numbers = good().to_numbers();
    numbers[1] = count;
    const std::string message = error_of([&] { Quality::from_numbers(numbers, "file"); });
    EXPECT_EQ(message.find("file: got "), 0U) << message;
    EXPECT_NE(message.find("expected a number of samples"), std::string::npos) << message;
  }
}

Quality judged(int64_t correct, double noise, double divergence) {
  return {.samples = 10,
          .labelled = 10,
          .correct = correct,
          .signal = 100,
          .noise = noise,
          .divergence = divergence};
}

TEST(Quality, OfMoreRightAnswersIsBetterAndDivergenceTellsEqualOnesApart) {
  EXPECT_LT(judged(8, 5, 3).loss(QualityKind::kAccuracy), judged(7, 1, 0.1).loss(QualityKind::kAccuracy));
  EXPECT_LT(judged(8, 5, 0.1).loss(QualityKind::kAccuracy), judged(8, 5, 3).loss(QualityKind::kAccuracy));
}

}  // namespace
}  // namespace detent
