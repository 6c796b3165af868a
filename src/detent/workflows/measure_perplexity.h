#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/language/decoder.h"
#include "detent/language/multiple_choice.h"
#include "detent/language/perplexity.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// "windows" or "halves". Throws UsageError on other names.
PerplexityProtocol perplexity_protocol(const std::string& name);

/// Throws UsageError naming the option whose value makes no sense.
void check_perplexity_options(const PerplexityOptions& options);

/// The token that the tokenizer puts in front of texts, if it is the one that begins a sequence.
std::optional<int64_t> begin_of_text(const Tokenizer& tokenizer);

/// Ids of tokens in an array of integers. Throws Error, beginning with `name`, on another.
std::vector<int64_t> token_ids(const Tensor& array, const std::string& name);

/// Reference of a comparison: another network, or logits that `PerplexityFiles` kept, or nothing.
struct PerplexityReference {
  const Decoder* network = nullptr;
  std::optional<Tensor> logits = {};
  std::string logits_name = {};  // for messages
};

/// .npy files of each scored token's logits and loss; "": not written.
struct PerplexityFiles {
  std::string logits;
  std::string losses;
};

struct PerplexityResult {
  TokenScores scores;
  int64_t text_tokens = 0;
  int64_t windows = 0;
};

PerplexityResult measure_perplexity(const Decoder& network, std::span<const int64_t> tokens,
                                    const PerplexityOptions& options, const PerplexityReference& reference,
                                    const PerplexityFiles& files);
AnswerScores measure_answers(const Decoder& network, const Decoder* reference,
                             std::span<const Question> questions);

/// JSON result of `detent perplexity`.
Table perplexity_value(const PerplexityResult& result, const PerplexityOptions& options);
Table answers_value(const AnswerScores& scores, bool has_reference);
double answers_error(const AnswerScores& scores);

}  // namespace detent
