#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/language/decoder.h"

namespace detent {

/// Protocol: scored tokens of a long text and their contexts.
enum class PerplexityProtocol {
  /// Windows that begin every `stride` tokens, each run by itself; of each, all tokens that no window before
  /// has
  /// scored, but for its first. With a stride of a whole window: the tables of GPTQ (Frantar et al. 2022).
  kWindows,
  /// Windows one after the other, each with the token that begins a sequence in front where the tokenizer
  /// wants one;
  /// their second halves are scored. The protocol of llama.cpp.
  kHalves,
};

struct PerplexityOptions {
  PerplexityProtocol protocol = PerplexityProtocol::kWindows;
  int64_t window = 512;
  int64_t stride = 0;   // 0: the window
  int64_t windows = 0;  // at most so many; 0: all that the text fills
  /// kHalves: put in the place of each window's first token.
  std::optional<int64_t> begin_of_sequence = {};
};

/// Tokens [begin, end) of a text, of which [scored, end) are scored.
struct TokenWindow {
  int64_t begin;
  int64_t end;
  int64_t scored;

  bool operator==(const TokenWindow&) const = default;
};

/// Throws Error on a window of less than two tokens, a stride that is not 1 to the window, and a text that
/// does not fill one window. What does not fill a window at the end is left out.
std::vector<TokenWindow> token_windows(const PerplexityOptions& options, int64_t tokens);

/// Number of scored tokens.
int64_t scored_tokens(const std::vector<TokenWindow>& windows);

/// Gives the logits of a sequence of tokens from place `from` on: `visit(first, logits)` for consecutive runs
/// of places, [n, vocabulary].
using LogitsOf = std::function<void(std::span<const int64_t> tokens, int64_t from,
                                    const std::function<void(int64_t first, const Tensor& logits)>& visit)>;

/// exp(mean loss), on every processor the same bits.
double perplexity_of(double mean_loss);

/// Scores of tokens, in the order of the text. The order of all sums is that of the tokens, in double.
struct TokenScores {
  std::vector<double> losses;  // -log of the token's probability
  int64_t hits = 0;            // the most likely token is the text's
  // With a reference:
  std::vector<double> divergences;  // KL of the reference's probabilities from the network's
  std::vector<double> reference_losses;
  int64_t agreements = 0;  // the most likely token is the reference's
  int64_t changed = 0;     // right where the reference is wrong, or wrong where it is right

  double mean_loss() const;
  double perplexity() const;
  /// The standard error of the perplexity, from the spread of the losses as if they were independent.
  double perplexity_error() const;
};

/// `seen(windows done, scores so far)` after each window. `logits_seen`, where it is given, takes the logits
/// of each scored token, in order. With `reference`, it runs beside the
/// network and is compared. Throws Error naming the token where logits are NaN or lack a token of the text.
TokenScores score_tokens(const LogitsOf& network, const LogitsOf& reference, std::span<const int64_t> tokens,
                         const std::vector<TokenWindow>& windows, const PerplexityOptions& options,
                         const std::function<void(int64_t, const TokenScores&)>& seen = {},
                         const std::function<void(std::span<const float>)>& row_seen = {});

/// The mean of values, added up in their order; and the smallest that a share of them do not exceed.
double ordered_mean(std::span<const double> values);
double quantile(std::vector<double> values, double share);

/// As many tokens at a time as have logits of 32 MiB, within reason.
int64_t piece_of_logits(const Decoder& decoder);

/// Runs sequences through a decoder, `piece` tokens at a time; 0: as many as have logits of 32 MiB. The bits
/// do not depend on it. Keeps a reference.
LogitsOf logits_of(const Decoder& decoder, int64_t piece = 0);

/// Logits of an array [scored tokens, vocabulary] that an earlier run has kept, in the order in which they
/// are asked for. Throws Error, beginning with `name`, where they are of another number of tokens than these
/// windows score.
LogitsOf kept_logits(const Tensor& logits, const std::vector<TokenWindow>& windows, const std::string& name);

}  // namespace detent
