#include "detent/language/multiple_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// The token that follows the last in a circle of four is `ahead` times as likely as each other one.
LogitsOf circle(float ahead, int64_t step = 1) {
  return [=](std::span<const int64_t> tokens, int64_t from,
             const std::function<void(int64_t, const Tensor&)>& visit) {
    for (int64_t i = from; i < std::ssize(tokens); ++i) {
      Tensor logits(DType::kFloat32, {1, 4});
      const int64_t next = (tokens[static_cast<size_t>(i)] + step) % 4;
      logits.values<float>()[static_cast<size_t>(next)] = std::log(ahead);
      visit(i, logits);
    }
  };
}

Question question(std::vector<Continuation> choices, int64_t answer) { return {std::move(choices), answer}; }

TEST(MultipleChoice, AddsUpTheLogarithmsOfTheContinuation) {
  const Question asked = question({{{3, 0, 1, 2}, 2, 2}, {{3, 0, 2, 3}, 2, 2}, {{0, 3}, 1, 1}}, 0);
  const std::vector<double> scores = log_likelihoods(circle(5), asked);
  ASSERT_EQ(scores.size(), 3U);
  EXPECT_NEAR(scores[0], 2 * std::log(5.0 / 8), 1e-6);
  EXPECT_NEAR(scores[1], std::log(1.0 / 8) + std::log(5.0 / 8), 1e-6);
  EXPECT_NEAR(scores[2], std::log(1.0 / 8), 1e-6);
}

TEST(MultipleChoice, CountsAnswersAlsoPerByte) {
  // The longer choice is less likely as a whole and more likely per byte.
  const std::vector<Question> asked = {question({{{3, 0, 1, 2, 3, 0, 1}, 1, 6}, {{3, 1}, 1, 1}}, 0),
                                       question({{{3, 0}, 1, 1}, {{3, 1}, 1, 1}}, 0)};
  const AnswerScores scores = answer_questions(circle(1.5F), {}, asked);
  EXPECT_EQ(scores.questions, 2);
  EXPECT_EQ(scores.right, 1);
  EXPECT_EQ(scores.right_per_byte, 2);
  EXPECT_EQ(scores.accuracy(), 0.5);
}

TEST(MultipleChoice, ComparesWithAReference) {
  const std::vector<Question> asked = {question({{{3, 0}, 1, 1}, {{3, 1}, 1, 1}}, 0),
                                       question({{{3, 0}, 1, 1}, {{3, 1}, 1, 1}}, 1),
                                       question({{{3, 0}, 1, 1}, {{3, 1}, 1, 1}, {{3, 2}, 1, 1}}, 2)};
  const AnswerScores same = answer_questions(circle(5), circle(9), asked);
  EXPECT_EQ(same.agreements, 3);
  EXPECT_EQ(same.changed, 0);
  const AnswerScores other = answer_questions(circle(5), circle(5, 2), asked);
  EXPECT_EQ(other.agreements, 0);
  EXPECT_EQ(other.changed, 2);
  EXPECT_EQ(other.right, 1);
  EXPECT_EQ(other.reference_right, 1);
}

TEST(MultipleChoice, RefusesForeignTokensAndNan) {
  const std::vector<Question> foreign = {question({{{3, 4}, 1, 1}, {{3, 1}, 1, 1}}, 0)};
  EXPECT_THAT(error_of([&] { answer_questions(circle(2), {}, foreign); }), HasSubstr("the token 4"));
  const std::vector<Question> asked = {question({{{3, 0}, 1, 1}, {{3, 1}, 1, 1}}, 0)};
  EXPECT_THAT(error_of([&] { answer_questions(circle(-1), {}, asked); }), HasSubstr("NaN"));
}

}  // namespace
}  // namespace detent
