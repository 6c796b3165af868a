#include "detent/cli/text_generator.h"

#include <algorithm>
#include <limits>

#include "detent/core/stop_signals.h"
#include "detent/tokenizers/stop_strings.h"

namespace detent {

TextGenerator::TextGenerator(Decoder decoder, std::optional<Tokenizer> tokenizer,
                             std::vector<int64_t> end_tokens)
    : decoder_(std::move(decoder)),
      tokenizer_(std::move(tokenizer)),
      end_tokens_(std::move(end_tokens)),
      cache_(decoder_.start()) {}

bool TextGenerator::ends_text(int64_t token) const {
  return std::ranges::find(end_tokens_, token) != end_tokens_.end();
}

/// The logits behind the last token.
Tensor TextGenerator::run(std::span<const int64_t> sequence) {
  const auto differs = std::ranges::mismatch(cached_, sequence).in1;
  // The last token is always computed: its logits are what is asked for.
  const size_t same = std::min(static_cast<size_t>(differs - cached_.begin()), sequence.size() - 1);
  cache_.truncate(static_cast<int64_t>(same));
  cached_.resize(same);
  Tensor logits = decoder_.run(cache_, sequence.subspan(same));
  cached_.assign(sequence.begin(), sequence.end());
  return logits;
}

GeneratedText TextGenerator::generate(const std::vector<int64_t>& prompt, const GenerationOptions& options,
                                      const Seen& seen) {
  GeneratedText result;
  result.stopped_by = "length";
  StopStrings stops(options.stop);
  std::optional<StreamingDecoder> stream;
  if (tokenizer_) stream.emplace(*tokenizer_);
  std::vector<int64_t> sequence = prompt;
  const auto show = [&](int64_t token, const std::string& text) {
    result.text += text;
    seen(token, text);
  };
  while (std::ssize(result.tokens) < options.max_tokens) {
    if (StopSignals::received() != 0) {
      result.stopped_by = "signal";
      break;
    }
    const Tensor logits = run(sequence);
    const auto row = logits.values<float>();
    std::vector<float> allowed(row.begin(), row.end());
    for (const int64_t token : end_tokens_)
      if (options.ignore_end && token >= 0 && token < std::ssize(allowed))
        allowed[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
    const int64_t token = draw_token(allowed, sequence, std::ssize(sequence), options.sampling);
    result.tokens.push_back(token);
    sequence.push_back(token);
    if (ends_text(token)) {
      result.stopped_by = "end";
      show(token, "");
      break;
    }
    show(token, stream ? stops.add(stream->add(token)) : "");
    if (stops.found()) {
      result.stopped_by = "stop";
      break;
    }
  }
  std::string rest = stream && !stops.found() ? stops.add(stream->finish()) : "";
  rest += stops.finish();
  if (stops.found()) result.stopped_by = "stop";
  result.text += rest;
  if (!rest.empty()) seen(-1, rest);
  return result;
}

}  // namespace detent
