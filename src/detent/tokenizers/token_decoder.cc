#include <algorithm>
#include <memory>

#include "detent/tokenizers/json_object.h"
#include "detent/tokenizers/pattern.h"
#include "detent/tokenizers/text_steps.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

std::string joined(const std::vector<std::string>& tokens) {
  std::string result;
  for (const std::string& token : tokens) result += token;
  return result;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t i = text.find(from); i != std::string::npos; i = text.find(from, i + to.size()))
    text.replace(i, from.size(), to);
}

/// The byte of "<0x0A>".
std::optional<char> byte_of(std::string_view token) {
  constexpr size_t kLength = 6;
  constexpr std::string_view kDigits = "0123456789abcdef";
  if (token.size() != kLength || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  size_t value = 0;
  for (const char digit : token.substr(3, 2)) {
    const size_t place =
        digit >= '0' ? kDigits.find(static_cast<char>(digit | 0x20)) : std::string_view::npos;
    if (place == std::string_view::npos) return std::nullopt;
    value = value * 16 + place;
  }
  return static_cast<char>(static_cast<unsigned char>(value));
}

void fall_back_to_bytes(std::vector<std::string>& tokens) {
  std::vector<std::string> result;
  std::string bytes;
  const auto finish = [&] {
    if (bytes.empty()) return;
    if (is_valid_utf8(bytes)) {
      result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), std::string(kReplacementText));
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
      continue;
    }
    finish();
    result.push_back(std::move(token));
  }
  finish();
  tokens = std::move(result);
}

/// English as it is written: no space before punctuation and what is abbreviated.
void clean_up(std::string& text) {
  replace_all(text, " .", ".");
  replace_all(text, " ?", "?");
  replace_all(text, " !", "!");
  replace_all(text, " ,", ",");
  replace_all(text, " ' ", "'");
  replace_all(text, " n't", "n't");
  replace_all(text, " 'm", "'m");
  replace_all(text, " do not", " don't");
  replace_all(text, " 's", "'s");
  replace_all(text, " 've", "'ve");
  replace_all(text, " 're", "'re");
}

TokenDecoder word_piece(const JsonObject& object) {
  const std::string prefix = object.text("prefix");
  const bool cleans = object.boolean("cleanup");
  return [=](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) {
        if (token.starts_with(prefix)) {
          token.erase(0, prefix.size());
        } else {
          token.insert(0, " ");
        }
      }
      if (cleans) clean_up(token);
    }
  };
}

TokenDecoder metaspace_decoder(const JsonObject& object) {
  const char32_t code = character_field(object, "replacement");
  const std::string replacement = to_utf8({&code, 1});
  const bool prepended =
      object.boolean("add_prefix_space", true) && object.text_or("prepend_scheme", "always") != "never";
  return [=](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], replacement, i == 0 && prepended ? "" : " ");
  };
}

/// Without `content` at its ends, so often at most.
std::string stripped(const std::string& token, const std::string& content, int64_t start, int64_t stop) {
  size_t begin = 0;
  for (int64_t i = 0; i < start && std::string_view(token).substr(begin).starts_with(content); ++i)
    begin += content.size();
  size_t end = token.size();
  for (int64_t i = 0;
       i < stop && end >= begin + content.size() && std::string_view(token).substr(0, end).ends_with(content);
       ++i)
    end -= content.size();
  return token.substr(begin, end - begin);
}

TokenDecoder strip(const JsonObject& object) {
  const char32_t code = character_field(object, "content");
  const std::string content = to_utf8({&code, 1});
  const int64_t start = object.integer("start");
  const int64_t stop = object.integer("stop");
  return [=](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) token = stripped(token, content, start, stop);
  };
}

TokenDecoder replace(const JsonObject& object) {
  const auto pattern = pattern_field(object);
  const std::string content = object.text("content");
  return [=](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      std::string result;
      size_t last = 0;
      for (const Pattern::Match& match : pattern->find_all(token)) {
        result.append(token, last, match.begin - last);
        result += content;
        check_growth(result.size(), token.size());
        last = match.end;
      }
      result.append(token, last);
      token = std::move(result);
    }
  };
}

TokenDecoder bpe_decoder(const JsonObject& object) {
  const std::string suffix = object.text_or("suffix", "</w>");
  return [=](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
  };
}

/// Connectionist temporal classification: a token that repeats counts once, and padding separates.
TokenDecoder ctc(const JsonObject& object) {
  const std::string padding = object.text("pad_token");
  const std::string delimiter = object.text("word_delimiter_token");
  const bool cleans = object.boolean("cleanup");
  return [=](std::vector<std::string>& tokens) {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      replace_all(token, padding, "");
      if (!cleans) continue;
      clean_up(token);
      replace_all(token, delimiter, " ");
    }
    std::erase_if(tokens, [](const std::string& token) { return token.empty(); });
  };
}

TokenDecoder made_decoder(const JsonObject& object) {
  const std::string type = object.type();
  if (type == "Sequence") {
    std::vector<TokenDecoder> steps;
    for (const Value& step : object.list("decoders"))
      steps.push_back(made_decoder({step, object.at("decoders")}));
    return in_sequence(std::move(steps));
  }
  if (type == "ByteLevel") return byte_level_decoder();
  if (type == "Metaspace") return metaspace_decoder(object);
  if (type == "WordPiece") return word_piece(object);
  if (type == "ByteFallback") return byte_fallback_decoder();
  if (type == "Fuse") return [](std::vector<std::string>& tokens) { tokens = {joined(tokens)}; };
  if (type == "Strip") return strip(object);
  if (type == "Replace") return replace(object);
  if (type == "BPEDecoder") return bpe_decoder(object);
  if (type == "CTC") return ctc(object);
  fail(
      "{}: the decoder \"{}\" is not supported (supported: BPEDecoder, ByteFallback, ByteLevel, CTC, Fuse, "
      "Metaspace, Replace, "
      "Sequence, Strip, WordPiece)",
      object.name(), type);
}

}  // namespace

TokenDecoder in_sequence(std::vector<TokenDecoder> steps) {
  return [steps = std::move(steps)](std::vector<std::string>& tokens) {
    for (const TokenDecoder& step : steps) step(tokens);
  };
}

TokenDecoder byte_level_decoder() {
  return [](std::vector<std::string>& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) bytes += bytes_of_characters(token).value_or(token);
    tokens = {with_valid_utf8(bytes)};
  };
}

TokenDecoder byte_fallback_decoder() { return fall_back_to_bytes; }

TokenDecoder make_token_decoder(const Value& value, const std::string& name) {
  if (value.is_na()) return {};
  return made_decoder({value, name});
}

}  // namespace detent
