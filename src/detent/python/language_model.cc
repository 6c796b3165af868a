#include "detent/python/language_model.h"

#include <algorithm>

#include "detent/cli/language_model.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/language/cache_format.h"
#include "detent/workflows/resource_use.h"

namespace detent::python {

std::optional<GeneratedPiece> Generation::next() {
  const std::lock_guard lock(mutex_);
  const LimitThreads limit(threads_);
  return generator_.next();
}

GeneratedText Generation::generated() {
  const std::lock_guard lock(mutex_);
  return generator_.generated();
}

namespace {

Graph with_cache_format(const Network& network, const std::string& text) {
  Graph graph = network.graph();
  if (!text.empty()) quantize_cache(graph, parse_cache_format(text, "cache_format"));
  return graph;
}

}  // namespace

LanguageModel::LanguageModel(const Network& network, const std::string& cache_format)
    : source_(network.source()),
      decoder_(std::make_shared<const Decoder>(
          decoder_of({{}, with_cache_format(network, cache_format)}, source_))),
      end_tokens_(end_tokens(source_, std::nullopt)) {}

std::shared_ptr<Generation> LanguageModel::start(const std::vector<int64_t>& prompt,
                                                 const GenerationOptions& options,
                                                 const std::optional<Tokenizer>& tokenizer,
                                                 int threads) const {
  check_generation_options(options);
  TextGenerator generator(decoder_, tokenizer,
                          end_tokens_.empty() ? end_tokens(source_, tokenizer) : end_tokens_);
  announce_length(*decoder_, std::ssize(prompt), std::ssize(prompt) + options.max_tokens - 1);
  generator.start(prompt, options);
  return std::make_shared<Generation>(std::move(generator), prompt.size(), threads);
}

std::vector<GeneratedText> LanguageModel::generate(const std::vector<std::vector<int64_t>>& prompts,
                                                   int64_t num_sequences, const GenerationOptions& options,
                                                   const std::optional<Tokenizer>& tokenizer,
                                                   int threads) const {
  check_generation_options(options);
  if (num_sequences < 1) fail("num_sequences: got {}, expected at least 1", num_sequences);
  const std::vector<int64_t> ends = end_tokens_.empty() ? end_tokens(source_, tokenizer) : end_tokens_;
  std::vector<TextGenerator> generators;
  int64_t longest = 0;
  for (const std::vector<int64_t>& prompt : prompts) longest = std::max(longest, std::ssize(prompt));
  announce_length(*decoder_, longest, longest + options.max_tokens - 1);
  for (const std::vector<int64_t>& prompt : prompts) {
    for (int64_t i = 0; i < num_sequences; ++i) {
      GenerationOptions own = options;
      own.sampling.seed += static_cast<uint64_t>(i);
      generators.emplace_back(decoder_, tokenizer, ends).start(prompt, own);
    }
  }
  const LimitThreads limit(threads);
  generate_texts(*decoder_, generators, [](size_t, const GeneratedPiece&) {});
  std::vector<GeneratedText> texts;
  for (const TextGenerator& generator : generators) texts.push_back(generator.generated());
  return texts;
}

}  // namespace detent::python
