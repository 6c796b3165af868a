#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/language/decoder.h"
#include "detent/python/network.h"
#include "detent/tokenizers/tokenizer.h"
#include "detent/workflows/measure_perplexity.h"
#include "detent/workflows/text_generator.h"

namespace detent::python {

/// A text that is being continued. From several threads, one piece at a time.
class Generation {
 public:
  Generation(TextGenerator generator, size_t prompt_tokens, int threads)
      : generator_(std::move(generator)), prompt_tokens_(prompt_tokens), threads_(threads) {}

  size_t prompt_tokens() const { return prompt_tokens_; }

  std::optional<GeneratedPiece> next();
  GeneratedText generated();

 private:
  std::mutex mutex_;
  TextGenerator generator_;
  size_t prompt_tokens_;
  int threads_;
};

/// A network of language, ready to run. Immutable.
class LanguageModel {
 public:
  /// Keys and values are kept in the format, "": as the network computes them. Throws Error where the network
  /// is none, and where it is no such format.
  LanguageModel(const Network& network, const std::string& cache_format);

  const Decoder& decoder() const { return *decoder_; }
  std::shared_ptr<Generation> start(const std::vector<int64_t>& prompt, const GenerationOptions& options,
                                    const std::optional<Tokenizer>& tokenizer, int threads) const;
  /// Continues each prompt so many times, with seeds that follow that of the options, a token of each at a
  /// time, so that weights are read once.
  std::vector<GeneratedText> generate(const std::vector<std::vector<int64_t>>& prompts, int64_t num_sequences,
                                      const GenerationOptions& options,
                                      const std::optional<Tokenizer>& tokenizer, int threads) const;

 private:
  std::string source_;
  std::shared_ptr<const Decoder> decoder_;
  std::vector<int64_t> end_tokens_;  // that the model names
};

}  // namespace detent::python
