#include "detent/workflows/text_generator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/stop_signals.h"

namespace detent {

void check_generation_options(const GenerationOptions& options) {
  if (options.max_tokens < 1)
    throw UsageError(fmt::format("--max-tokens: got {}, expected at least 1", options.max_tokens));
  check_sampling_options(options.sampling);
}

TextGenerator::TextGenerator(std::shared_ptr<const Decoder> decoder, std::optional<Tokenizer> tokenizer,
                             std::vector<int64_t> end_tokens)
    : decoder_(std::move(decoder)),
      tokenizer_(std::move(tokenizer)),
      end_tokens_(std::move(end_tokens)),
      cache_(decoder_->start()) {}

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
  Tensor logits = decoder_->run(cache_, sequence.subspan(same));
  cached_.assign(sequence.begin(), sequence.end());
  return logits;
}

void TextGenerator::start(const std::vector<int64_t>& prompt, const GenerationOptions& options) {
  if (prompt.empty())
    fail(
        "the prompt has no tokens: the tokenizer puts none before a text, so that an empty one cannot be "
        "continued");
  options_ = options;
  sequence_ = prompt;
  stream_.reset();
  if (tokenizer_) stream_.emplace(*tokenizer_);
  stops_ = StopStrings(options.stop);
  generated_ = {};
  is_finished_ = false;
}

int64_t TextGenerator::draw() {
  const Tensor logits = run(sequence_);
  const auto row = logits.values<float>();
  std::vector<float> allowed(row.begin(), row.end());
  for (const int64_t token : end_tokens_)
    if (options_.ignore_end && token >= 0 && token < std::ssize(allowed))
      allowed[static_cast<size_t>(token)] = -std::numeric_limits<float>::infinity();
  return draw_token(allowed, sequence_, std::ssize(sequence_), options_.sampling);
}

GeneratedPiece TextGenerator::added(int64_t token) {
  generated_.tokens.push_back(token);
  sequence_.push_back(token);
  GeneratedPiece piece{token, ""};
  if (ends_text(token)) {
    generated_.stopped_by = "end";
    return piece;
  }
  if (stream_) piece.text = stops_.add(stream_->add(token));
  generated_.text += piece.text;
  if (stops_.found()) generated_.stopped_by = "stop";
  return piece;
}

std::string TextGenerator::rest_of_text() {
  std::string rest = stream_ && !stops_.found() ? stops_.add(stream_->finish()) : "";
  rest += stops_.finish();
  if (stops_.found()) generated_.stopped_by = "stop";
  return rest;
}

std::optional<GeneratedPiece> TextGenerator::next() {
  if (is_finished_) return std::nullopt;
  if (generated_.stopped_by.empty()) {
    if (std::ssize(generated_.tokens) >= options_.max_tokens) {
      generated_.stopped_by = "length";
    } else if (StopSignals::received() != 0) {
      generated_.stopped_by = "signal";
    } else {
      return added(draw());
    }
  }
  is_finished_ = true;
  std::string rest = rest_of_text();
  if (rest.empty()) return std::nullopt;
  generated_.text += rest;
  return GeneratedPiece{-1, std::move(rest)};
}

GeneratedText TextGenerator::generate(const std::vector<int64_t>& prompt, const GenerationOptions& options,
                                      const Seen& seen) {
  start(prompt, options);
  while (const auto piece = next()) seen(piece->token, piece->text);
  return generated_;
}

}  // namespace detent
