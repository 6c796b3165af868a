#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/language/decoder.h"
#include "detent/language/sampling.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

struct GenerationOptions {
  int64_t max_tokens = 256;
  SamplingOptions sampling;
  std::vector<std::string> stop;
  bool ignore_end = false;  // tokens that end a text are never drawn
};

struct GeneratedText {
  std::vector<int64_t> tokens;  // the one that ends the text too
  std::string text;             // without the stop string
  std::string stopped_by;       // "end", "stop", "length" or "signal"
};

/// Continues sequences of tokens, one after another. What a sequence has in common with the one before, as
/// those of a chat have, is not computed again; the bits are the same.
class TextGenerator {
 public:
  /// Without a tokenizer texts are empty.
  TextGenerator(Decoder decoder, std::optional<Tokenizer> tokenizer, std::vector<int64_t> end_tokens);

  /// Called for each token with what it adds to the text for certain.
  using Seen = std::function<void(int64_t token, std::string_view text)>;

  /// `prompt` has at least one token. Ends where a StopSignals has received a signal, too.
  GeneratedText generate(const std::vector<int64_t>& prompt, const GenerationOptions& options,
                         const Seen& seen);

 private:
  Tensor run(std::span<const int64_t> sequence);
  bool ends_text(int64_t token) const;

  Decoder decoder_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<int64_t> end_tokens_;
  SequenceCache cache_;
  std::vector<int64_t> cached_;  // the tokens in it
};

}  // namespace detent
