#include "detent/workflows/text_generator.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/interruption.h"

namespace detent {

std::string chat_text(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                      const Tokenizer& tokenizer, bool add_generation_prompt) {
  Table variables;
  const SpecialTokens& special = tokenizer.special_tokens();
  for (const auto& [name, id] :
       {std::pair("bos_token", special.begin_of_sequence), std::pair("eos_token", special.end_of_sequence)})
    variables[name] = id ? tokenizer.token(*id) : std::string();
  return chat_template.render(messages, add_generation_prompt, variables);
}

std::vector<int64_t> chat_tokens(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                                 const Tokenizer& tokenizer) {
  return tokenizer.encode(chat_text(chat_template, messages, tokenizer), false);
}

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

/// Tokens that the cache lacks: the last one always, since its logits are what is asked for.
std::optional<DecoderInput> TextGenerator::input() {
  if (is_finished_ || !generated_.stopped_by.empty()) return std::nullopt;
  const bool is_full = decoder_->positions() > 0 && std::ssize(sequence_) > decoder_->positions();
  if (std::ssize(generated_.tokens) >= options_.max_tokens || (is_full && !generated_.tokens.empty())) {
    generated_.stopped_by = "length";
    return std::nullopt;
  }
  if (StopSignals::received() != 0) {
    generated_.stopped_by = "signal";
    return std::nullopt;
  }
  const auto differs = std::ranges::mismatch(cached_, sequence_).in1;
  const size_t same = std::min(static_cast<size_t>(differs - cached_.begin()), sequence_.size() - 1);
  cache_.truncate(static_cast<int64_t>(same));
  cached_.resize(same);
  return DecoderInput{&cache_, std::span(sequence_).subspan(same)};
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

int64_t TextGenerator::drawn(const Tensor& logits) const {
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

std::optional<GeneratedPiece> TextGenerator::last_piece() {
  if (is_finished_) return std::nullopt;
  is_finished_ = true;
  std::string rest = rest_of_text();
  if (rest.empty()) return std::nullopt;
  generated_.text += rest;
  return GeneratedPiece{-1, std::move(rest)};
}

std::optional<GeneratedPiece> TextGenerator::next(const Tensor& logits) {
  cached_.assign(sequence_.begin(), sequence_.end());
  return added(drawn(logits));
}

std::optional<GeneratedPiece> TextGenerator::next() {
  const std::optional<DecoderInput> needed = input();
  return needed ? next(decoder_->run(*needed->cache, needed->tokens)) : last_piece();
}

GeneratedText TextGenerator::generate(const std::vector<int64_t>& prompt, const GenerationOptions& options,
                                      const Seen& seen) {
  start(prompt, options);
  while (const auto piece = next()) seen(piece->token, piece->text);
  return generated_;
}

void generate_texts(const Decoder& decoder, std::span<TextGenerator> generators,
                    const std::function<void(size_t, const GeneratedPiece&)>& seen) {
  const auto show = [&](size_t index, const std::optional<GeneratedPiece>& piece) {
    if (piece) seen(index, *piece);
  };
  while (true) {
    std::vector<DecoderInput> inputs;
    std::vector<size_t> waiting;
    for (size_t i = 0; i < generators.size(); ++i) {
      const std::optional<DecoderInput> input = generators[i].input();
      if (input) {
        inputs.push_back(*input);
        waiting.push_back(i);
      } else if (!generators[i].is_finished()) {
        show(i, generators[i].next());
      }
    }
    if (inputs.empty()) return;
    const std::vector<Tensor> logits = decoder.run(inputs);
    for (size_t i = 0; i < waiting.size(); ++i) show(waiting[i], generators[waiting[i]].next(logits[i]));
  }
}

}  // namespace detent
