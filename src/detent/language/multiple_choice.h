#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "detent/language/perplexity.h"

namespace detent {

/// A context and one continuation of it.
struct Continuation {
  std::vector<int64_t> tokens;
  int64_t begin = 1;  // of the continuation, at least 1
  int64_t bytes = 1;  // of its text, at least 1
};

struct Question {
  std::vector<Continuation> choices;  // at least two
  int64_t answer = 0;                 // the right one
};

/// The log of the probability of each continuation's tokens after the context, added up in their order.
/// Throws Error on logits that are NaN, and on tokens that the vocabulary lacks.
std::vector<double> log_likelihoods(const LogitsOf& network, const Question& question);

/// Scores of questions. An answer is the choice with the largest likelihood, the first of several; per byte:
/// with the largest log-likelihood divided by the bytes of its text, so that long choices are not at a
/// disadvantage.
struct AnswerScores {
  int64_t questions = 0;
  int64_t right = 0;
  int64_t right_per_byte = 0;
  // With a reference:
  int64_t reference_right = 0;
  int64_t agreements = 0;  // the same answer as the reference's
  int64_t changed = 0;     // right where the reference is wrong, or wrong where it is right

  double accuracy() const { return share(right); }
  double accuracy_per_byte() const { return share(right_per_byte); }
  double share(int64_t count) const { return static_cast<double>(count) / static_cast<double>(questions); }
};

/// `seen(scores so far)` after each question.
AnswerScores answer_questions(const LogitsOf& network, const LogitsOf& reference,
                              std::span<const Question> questions,
                              const std::function<void(const AnswerScores&)>& seen = {});

}  // namespace detent
