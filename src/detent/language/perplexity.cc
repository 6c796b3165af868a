#include "detent/language/perplexity.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/language/sampling.h"

namespace detent {
namespace {

/// A row of logits of a tensor of them.
std::span<const float> row_of(const Tensor& logits, int64_t row) {
  const auto width = static_cast<size_t>(logits.dim(-1));
  return logits.values<float>().subspan(static_cast<size_t>(row) * width, width);
}

/// A reference's results for the tokens of a window, until the network has its own.
struct ReferenceRows {
  std::vector<float> logits;  // of the scored tokens' predecessors
  std::vector<double> sums;
};

class TokenScoring {
 public:
  TokenScoring(std::span<const int64_t> tokens, const PerplexityOptions& options)
      : tokens_(tokens), options_(options) {}

  TokenScores scores;
  std::function<void(std::span<const float>)> row_seen;

  void add_window(const LogitsOf& network, const LogitsOf& reference, const TokenWindow& window) {
    const std::vector<int64_t> tokens = tokens_of(window);
    reference_ = {};
    if (reference) {
      each_scored_row(reference, tokens, window, [&](int64_t token, std::span<const float> row) {
        const double sum = checked_sum(row, token, "the reference gives");
        reference_.logits.insert(reference_.logits.end(), row.begin(), row.end());
        reference_.sums.push_back(sum);
        scores.reference_losses.push_back(sum - static_cast<double>(row[index_of(token, row)]));
      });
    }
    int64_t scored = 0;
    each_scored_row(network, tokens, window, [&](int64_t token, std::span<const float> row) {
      add_token(token, row, scored++, static_cast<bool>(reference));
      if (row_seen) row_seen(row);
    });
  }

 private:
  std::vector<int64_t> tokens_of(const TokenWindow& window) const {
    const auto begin = tokens_.begin() + window.begin;
    std::vector<int64_t> tokens(begin, tokens_.begin() + window.end);
    const bool begins = options_.protocol == PerplexityProtocol::kHalves && options_.begin_of_sequence;
    if (begins) tokens.front() = *options_.begin_of_sequence;
    return tokens;
  }

  /// visit(index of the token in the text, logits that predict it)
  template <class Visit>
  void each_scored_row(const LogitsOf& network, const std::vector<int64_t>& tokens, const TokenWindow& window,
                       const Visit& visit) const {
    const int64_t from = window.scored - window.begin - 1;
    const int64_t end = window.end - window.begin - 1;
    network(std::span(tokens).first(static_cast<size_t>(end)), from,
            [&](int64_t first, const Tensor& logits) {
              for (int64_t row = 0; row < logits.dim(0); ++row)
                visit(window.begin + first + row + 1, row_of(logits, row));
            });
  }

  size_t index_of(int64_t token, std::span<const float> row) const {
    const int64_t id = tokens_[static_cast<size_t>(token)];
    if (id < 0 || id >= std::ssize(row)) {
      fail("token {} of the text is {}, the network has a vocabulary of {}", token, id, row.size());
    }
    return static_cast<size_t>(id);
  }

  static double checked_sum(std::span<const float> row, int64_t token, const char* who) {
    const double sum = log_sum_exp(row);
    if (std::isnan(sum)) fail("{} NaN or infinite logits for token {} of the text", who, token);
    return sum;
  }

  void add_token(int64_t token, std::span<const float> row, int64_t scored, bool has_reference) {
    const double sum = checked_sum(row, token, "the network gives");
    const size_t id = index_of(token, row);
    const int64_t best = most_likely(row);
    const bool hit = best == static_cast<int64_t>(id);
    scores.losses.push_back(sum - static_cast<double>(row[id]));
    scores.hits += hit ? 1 : 0;
    if (!has_reference) return;
    const size_t width = row.size();
    if (reference_.logits.size() != reference_.sums.size() * width) {
      fail("the reference has a vocabulary of {}, the network one of {}",
           reference_.logits.size() / reference_.sums.size(), width);
    }
    const auto at = static_cast<size_t>(scored);
    const std::span<const float> expected = std::span(reference_.logits).subspan(at * width, width);
    const int64_t expected_best = most_likely(expected);
    scores.divergences.push_back(divergence(expected, reference_.sums[at], row, sum));
    scores.agreements += best == expected_best ? 1 : 0;
    scores.changed += hit != (expected_best == static_cast<int64_t>(id)) ? 1 : 0;
  }

  std::span<const int64_t> tokens_;
  const PerplexityOptions& options_;
  ReferenceRows reference_;
};

}  // namespace

std::vector<TokenWindow> token_windows(const PerplexityOptions& options, int64_t tokens) {
  const bool halves = options.protocol == PerplexityProtocol::kHalves;
  if (options.window < 2) fail("a window of {} tokens, expected at least 2", options.window);
  const int64_t stride = halves || options.stride == 0 ? options.window : options.stride;
  if (stride < 1 || stride > options.window) {
    fail("a stride of {} tokens, expected 1 to the window, {}", stride, options.window);
  }
  if (tokens < options.window)
    fail("the text has {} tokens, fewer than a window of {}", tokens, options.window);
  std::vector<TokenWindow> windows;
  for (int64_t begin = 0; begin + options.window <= tokens; begin += stride) {
    if (options.windows > 0 && std::ssize(windows) == options.windows) break;
    const int64_t seen = windows.empty() ? 0 : windows.back().end;
    const int64_t scored = halves ? begin + options.window / 2 + 1 : std::max(begin + 1, seen);
    windows.push_back({begin, begin + options.window, scored});
  }
  return windows;
}

int64_t scored_tokens(const std::vector<TokenWindow>& windows) {
  int64_t count = 0;
  for (const TokenWindow& window : windows) count += window.end - window.scored;
  return count;
}

TokenScores score_tokens(const LogitsOf& network, const LogitsOf& reference, std::span<const int64_t> tokens,
                         const std::vector<TokenWindow>& windows, const PerplexityOptions& options,
                         const std::function<void(int64_t, const TokenScores&)>& seen,
                         const std::function<void(std::span<const float>)>& row_seen) {
  TokenScoring scoring(tokens, options);
  scoring.row_seen = row_seen;
  int64_t done = 0;
  for (const TokenWindow& window : windows) {
    scoring.add_window(network, reference, window);
    if (seen) seen(++done, scoring.scores);
  }
  return std::move(scoring.scores);
}

double ordered_mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto last = static_cast<double>(values.size() - 1);
  const auto place = values.begin() + static_cast<int64_t>(std::ceil(share * last));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double TokenScores::mean_loss() const { return ordered_mean(losses); }

double perplexity_of(double mean_loss) { return exact_exp(mean_loss); }

double TokenScores::perplexity() const { return perplexity_of(mean_loss()); }

double TokenScores::perplexity_error() const {
  if (losses.size() < 2) return 0;
  const double mean = mean_loss();
  double squares = 0;
  for (const double loss : losses) squares += (loss - mean) * (loss - mean);
  const auto count = static_cast<double>(losses.size());
  return exact_exp(mean) * std::sqrt(squares / (count - 1) / count);
}

}  // namespace detent
