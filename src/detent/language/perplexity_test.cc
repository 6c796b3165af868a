#include "detent/language/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/core/error_of_for_test.h"
#include "detent/language/sampling.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kVocabulary = 5;

/// Logits that depend on the place in the window and on the token, in pieces of `chunk`.
LogitsOf made_up_network(int64_t chunk, float scale = 1) {
  return [=](std::span<const int64_t> tokens, int64_t from,
             const std::function<void(int64_t, const Tensor&)>& visit) {
    const int64_t count = std::ssize(tokens);
    for (int64_t first = from; first < count; first += chunk) {
      const int64_t rows = std::min(chunk, count - first);
      Tensor logits(DType::kFloat32, {rows, kVocabulary});
      for (int64_t i = 0; i < rows * kVocabulary; ++i) {
        const int64_t token = tokens[static_cast<size_t>(first + i / kVocabulary)];
        const int64_t mixed = (7 * (first + i / kVocabulary) + 3 * token + 5 * (i % kVocabulary)) % 11;
        logits.values<float>()[static_cast<size_t>(i)] = scale * static_cast<float>(mixed);
      }
      visit(first, logits);
    }
  };
}

std::vector<int64_t> made_up_text(int64_t count) {
  std::vector<int64_t> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(i * i % kVocabulary);
  return tokens;
}

TEST(TokenWindows, OneAfterTheOther) {
  PerplexityOptions options{.window = 4, .stride = 4};
  EXPECT_THAT(token_windows(options, 11), ElementsAre(TokenWindow{0, 4, 1}, TokenWindow{4, 8, 5}));
  options.windows = 1;
  EXPECT_EQ(token_windows(options, 11).size(), 1U);
}

TEST(TokenWindows, ThatOverlapScoreATokenOnce) {
  const PerplexityOptions options{.window = 4, .stride = 2};
  EXPECT_THAT(token_windows(options, 8),
              ElementsAre(TokenWindow{0, 4, 1}, TokenWindow{2, 6, 4}, TokenWindow{4, 8, 6}));
}

TEST(TokenWindows, OfHalvesScoreTheSecondOne) {
  const PerplexityOptions options{.protocol = PerplexityProtocol::kHalves, .window = 6, .stride = 1};
  EXPECT_THAT(token_windows(options, 13), ElementsAre(TokenWindow{0, 6, 4}, TokenWindow{6, 12, 10}));
}

TEST(TokenWindows, RefuseWhatCannotBe) {
  const auto refusal = [](const PerplexityOptions& options) {
    return error_of([&] { token_windows(options, 9); });
  };
  EXPECT_THAT(refusal({.window = 1}), HasSubstr("a window of 1 tokens"));
  EXPECT_THAT(refusal({.window = 8, .stride = 9}), HasSubstr("a stride of 9"));
  EXPECT_THAT(refusal({.window = 8, .stride = -1}), HasSubstr("a stride of -1"));
  EXPECT_THAT(refusal({.window = 10}), HasSubstr("the text has 9 tokens"));
}

/// The definition, written down once more.
TEST(TokenScores, AreLossesOfThePredecessorsLogits) {
  const std::vector<int64_t> text = made_up_text(23);
  const PerplexityOptions options{.window = 8, .stride = 5};
  std::vector<double> expected;
  for (const TokenWindow& window : token_windows(options, 23)) {
    const std::span<const int64_t> tokens = std::span(text).subspan(static_cast<size_t>(window.begin), 8);
    made_up_network(8)(tokens, 0, [&](int64_t, const Tensor& logits) {
      for (int64_t i = window.scored - window.begin; i < 8; ++i) {
        double sum = 0;
        const float* row = logits.values<float>().data() + (i - 1) * kVocabulary;
        for (int64_t v = 0; v < kVocabulary; ++v) sum += std::exp(static_cast<double>(row[v]));
        expected.push_back(
            -std::log(std::exp(static_cast<double>(row[tokens[static_cast<size_t>(i)]])) / sum));
      }
    });
  }
  const auto windows = token_windows(options, 23);
  const TokenScores scores = score_tokens(made_up_network(8), {}, text, windows, options);
  ASSERT_EQ(scores.losses.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(scores.losses[i], expected[i], 1e-12) << i;
  EXPECT_DOUBLE_EQ(scores.perplexity(), std::exp(ordered_mean(expected)));
  EXPECT_GT(scores.perplexity_error(), 0);
}

TEST(TokenScores, DoNotDependOnThePieces) {
  const std::vector<int64_t> text = made_up_text(60);
  const PerplexityOptions options{
      .protocol = PerplexityProtocol::kHalves, .window = 20, .begin_of_sequence = 4};
  const auto windows = token_windows(options, 60);
  const TokenScores whole =
      score_tokens(made_up_network(20), made_up_network(20, 0.5F), text, windows, options);
  for (const int64_t chunk : {1, 3, 19}) {
    const TokenScores pieces =
        score_tokens(made_up_network(chunk), made_up_network(7, 0.5F), text, windows, options);
    EXPECT_EQ(pieces.losses, whole.losses) << chunk;
    EXPECT_EQ(pieces.divergences, whole.divergences) << chunk;
    EXPECT_EQ(pieces.perplexity(), whole.perplexity()) << chunk;
  }
  EXPECT_EQ(whole.losses.size(), 27U);
  EXPECT_EQ(whole.divergences.size(), 27U);
}

/// Scaled logits have the same order, so that answers agree; divergences are above 0.
TEST(TokenScores, CompareWithAReference) {
  const std::vector<int64_t> text = made_up_text(40);
  const PerplexityOptions options{.window = 20, .stride = 20};
  const auto windows = token_windows(options, 40);
  const TokenScores same = score_tokens(made_up_network(20), made_up_network(20), text, windows, options);
  EXPECT_EQ(same.agreements, 38);
  EXPECT_EQ(same.changed, 0);
  EXPECT_EQ(same.losses, same.reference_losses);
  EXPECT_EQ(ordered_mean(same.divergences), 0);
  const TokenScores scaled =
      score_tokens(made_up_network(20, 0.5F), made_up_network(20), text, windows, options);
  EXPECT_EQ(scaled.agreements, 38);
  EXPECT_GT(quantile(scaled.divergences, 0), 0);
  const TokenScores turned =
      score_tokens(made_up_network(20, -1), made_up_network(20), text, windows, options);
  EXPECT_LT(turned.agreements, 38);
  EXPECT_GT(turned.changed, 0);
}

TEST(TokenScores, GiveTheLogitsOfScoredTokens) {
  const std::vector<int64_t> text = made_up_text(12);
  const PerplexityOptions options{.window = 6, .stride = 6};
  std::vector<float> firsts;
  const LogitsOf network = made_up_network(4);
  score_tokens(network, made_up_network(4, 2), text, token_windows(options, 12), options, {},
               [&](std::span<const float> row) { firsts.push_back(row[0]); });
  std::vector<float> expected;
  for (const size_t begin : {0U, 6U}) {
    network(std::span(text).subspan(begin, 5), 0, [&](int64_t, const Tensor& logits) {
      for (int64_t i = 0; i < logits.numel(); i += kVocabulary) {
        expected.push_back(logits.values<float>()[static_cast<size_t>(i)]);
      }
    });
  }
  EXPECT_EQ(firsts, expected);
}

TEST(TokenScores, RefuseNanAndForeignTokens) {
  const PerplexityOptions options{.window = 4, .stride = 4};
  const auto refusal = [&](const LogitsOf& network, const std::vector<int64_t>& text) {
    return error_of([&] { score_tokens(network, {}, text, token_windows(options, 4), options); });
  };
  EXPECT_THAT(refusal(made_up_network(4, NAN), {0, 1, 2, 3}),
              HasSubstr("NaN or infinite logits for token 1"));
  EXPECT_THAT(refusal(made_up_network(4), {0, 1, 5, 3}), HasSubstr("token 2 of the text is 5"));
}

TEST(Quantile, IsAValueThatAShareDoesNotExceed) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({3, 1, 2}, 1), 3);
  EXPECT_EQ(quantile({}, 0.5), 0);
}

}  // namespace
}  // namespace detent
