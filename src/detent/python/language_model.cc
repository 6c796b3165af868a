#include "detent/python/language_model.h"

#include "detent/cli/language_model.h"
#include "detent/core/thread_limit.h"
#include "detent/language/cache_format.h"

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
  generator.start(prompt, options);
  return std::make_shared<Generation>(std::move(generator), prompt.size(), threads);
}

}  // namespace detent::python
