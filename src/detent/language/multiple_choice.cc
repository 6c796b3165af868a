#include "detent/language/multiple_choice.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/language/sampling.h"

namespace detent {
namespace {

double log_likelihood(const LogitsOf& network, const Continuation& choice) {
  double sum = 0;
  const std::span<const int64_t> tokens = choice.tokens;
  network(tokens.first(tokens.size() - 1), choice.begin - 1, [&](int64_t first, const Tensor& logits) {
    const auto width = static_cast<size_t>(logits.dim(-1));
    for (int64_t row = 0; row < logits.dim(0); ++row) {
      const auto values = logits.values<float>().subspan(static_cast<size_t>(row) * width, width);
      const int64_t token = tokens[static_cast<size_t>(first + row + 1)];
      if (token < 0 || token >= static_cast<int64_t>(width)) {
        fail("a choice has the token {}, the network has a vocabulary of {}", token, width);
      }
      const double all = log_sum_exp(values);
      if (std::isnan(all)) fail("the network gives NaN or infinite logits");
      sum += static_cast<double>(values[static_cast<size_t>(token)]) - all;
    }
  });
  return sum;
}

int64_t best_of(const std::vector<double>& scores) {
  return std::max_element(scores.begin(), scores.end()) - scores.begin();
}

int64_t best_per_byte(const std::vector<double>& scores, const Question& question) {
  std::vector<double> divided = scores;
  for (size_t i = 0; i < divided.size(); ++i) divided[i] /= static_cast<double>(question.choices[i].bytes);
  return best_of(divided);
}

}  // namespace

std::vector<double> log_likelihoods(const LogitsOf& network, const Question& question) {
  std::vector<double> scores;
  for (const Continuation& choice : question.choices) scores.push_back(log_likelihood(network, choice));
  return scores;
}

AnswerScores answer_questions(const LogitsOf& network, const LogitsOf& reference,
                              std::span<const Question> questions,
                              const std::function<void(const AnswerScores&)>& seen) {
  AnswerScores scores;
  for (const Question& question : questions) {
    const std::vector<double> likelihoods = log_likelihoods(network, question);
    const int64_t best = best_of(likelihoods);
    const bool right = best == question.answer;
    ++scores.questions;
    scores.right += right ? 1 : 0;
    scores.right_per_byte += best_per_byte(likelihoods, question) == question.answer ? 1 : 0;
    if (reference) {
      const int64_t expected = best_of(log_likelihoods(reference, question));
      const bool reference_right = expected == question.answer;
      scores.reference_right += reference_right ? 1 : 0;
      scores.agreements += best == expected ? 1 : 0;
      scores.changed += right != reference_right ? 1 : 0;
    }
    if (seen) seen(scores);
  }
  return scores;
}

}  // namespace detent
