#include "detent/tokenizers/gguf/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr const char* kModelKey = "tokenizer.ggml.model";
constexpr const char* kTokensKey = "tokenizer.ggml.tokens";
constexpr const char* kTypesKey = "tokenizer.ggml.token_type";
constexpr const char* kScoresKey = "tokenizer.ggml.scores";
constexpr const char* kMergesKey = "tokenizer.ggml.merges";
constexpr const char* kMapKey = "tokenizer.ggml.precompiled_charsmap";

TokenizerKind kind_of(const GgufMetadata& metadata) {
  constexpr std::array<std::pair<std::string_view, TokenizerKind>, 4> kKinds = {
      {{"gpt2", TokenizerKind::kByteLevelBpe},
       {"llama", TokenizerKind::kSentencePieceBpe},
       {"t5", TokenizerKind::kUnigram},
       {"bert", TokenizerKind::kWordPiece}}};
  const std::string name(metadata.text(kModelKey));
  std::vector<std::string> known;
  for (const auto& [model, kind] : kKinds) {
    if (name == model) return kind;
    known.emplace_back(model);
  }
  fail("{}: {}: {}", metadata.file(), kModelKey, unknown_name_message("tokenizer", name, known));
}

std::vector<TokenType> types_of(const GgufMetadata& metadata) {
  std::vector<TokenType> types;
  if (!metadata.contains(kTypesKey)) return types;
  for (const int64_t type : metadata.integers(kTypesKey)) {
    // 0 is what llama.cpp calls undefined.
    if (type < 0 || type > static_cast<int64_t>(TokenType::kByte)) {
      fail("{}: {} has {}, expected 0 to 6", metadata.file(), kTypesKey, type);
    }
    types.push_back(type == 0 ? TokenType::kNormal : static_cast<TokenType>(type));
  }
  return types;
}

SpecialTokens special_tokens_of(const GgufMetadata& metadata) {
  const auto id = [&](std::string_view role) {
    const std::string key = fmt::format("tokenizer.ggml.{}_token_id", role);
    return metadata.contains(key) ? std::optional(metadata.integer(key)) : std::nullopt;
  };
  SpecialTokens special;
  special.begin_of_sequence = id("bos");
  special.end_of_sequence = id("eos");
  special.unknown = id("unknown");
  special.padding = id("padding");
  special.separator = id("seperator");  // so it is spelled there
  if (!special.separator) special.separator = id("separator");
  special.classification = id("cls");
  special.mask = id("mask");
  return special;
}

/// BERT's vocabularies name their begin of sequence and nothing else where [CLS] is meant.
void complete_word_pieces(Vocabulary& vocabulary) {
  vocabulary.tokens = from_gguf_word_pieces(std::move(vocabulary.tokens));
  SpecialTokens& special = vocabulary.special;
  if (!special.classification) special.classification = special.begin_of_sequence;
  if (!special.separator) special.separator = special.end_of_sequence;
}

}  // namespace

Vocabulary read_gguf_vocabulary(const GgufMetadata& metadata) {
  Vocabulary vocabulary;
  vocabulary.kind = kind_of(metadata);
  const bool is_byte_level = vocabulary.kind == TokenizerKind::kByteLevelBpe;
  const bool is_word_piece = vocabulary.kind == TokenizerKind::kWordPiece;
  for (const std::string_view token : metadata.texts(kTokensKey)) vocabulary.tokens.emplace_back(token);
  vocabulary.types = types_of(metadata);
  if (metadata.contains(kScoresKey)) {
    for (const double score : metadata.numbers(kScoresKey))
      vocabulary.scores.push_back(static_cast<float>(score));
  }
  if (is_byte_level) {
    for (const std::string_view merge : metadata.texts(kMergesKey)) vocabulary.merges.emplace_back(merge);
  }
  vocabulary.pre_tokenizer = metadata.text("tokenizer.ggml.pre", "default");
  if (metadata.contains(kMapKey)) {
    for (const int64_t byte : metadata.integers(kMapKey)) {
      vocabulary.precompiled_charsmap += static_cast<char>(static_cast<unsigned char>(byte));
    }
  }
  vocabulary.add_space_prefix = metadata.flag("tokenizer.ggml.add_space_prefix", !is_byte_level);
  vocabulary.remove_extra_whitespaces = metadata.flag("tokenizer.ggml.remove_extra_whitespaces", false);
  vocabulary.special = special_tokens_of(metadata);
  // Llama 3's words are the only ones of byte-level BPE that imply a token in front.
  const bool begins =
      !is_byte_level ? vocabulary.kind != TokenizerKind::kUnigram : vocabulary.pre_tokenizer == "llama-bpe";
  const bool ends = is_word_piece || vocabulary.kind == TokenizerKind::kUnigram;
  vocabulary.add_begin_of_sequence = metadata.flag("tokenizer.ggml.add_bos_token", begins);
  const bool adds_separator = is_word_piece && metadata.flag("tokenizer.ggml.add_sep_token", true);
  vocabulary.add_end_of_sequence = metadata.flag("tokenizer.ggml.add_eos_token", ends) || adds_separator;
  if (is_word_piece) complete_word_pieces(vocabulary);
  return vocabulary;
}

Tokenizer read_gguf_tokenizer(const GgufMetadata& metadata) {
  return make_tokenizer(read_gguf_vocabulary(metadata), metadata.file());
}

std::optional<std::string> gguf_chat_template(const GgufMetadata& metadata) {
  constexpr const char* kKey = "tokenizer.chat_template";
  if (!metadata.contains(kKey)) return std::nullopt;
  return std::string(metadata.text(kKey));
}

}  // namespace detent
