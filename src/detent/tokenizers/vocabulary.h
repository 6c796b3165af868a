#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/tokenizers/text_steps.h"

namespace detent {

/// How byte-level BPE of a family prepares text, where only its name is known.
struct WordRules {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool ignore_merges = false;
};

/// By the names of GGUF's tokenizer.ggml.pre; throws Error with those that are known.
WordRules word_rules(std::string_view pre_tokenizer, const std::string& name);

/// Ids of tokens with a role, where the tokenizer's files name them.
struct SpecialTokens {
  std::optional<int64_t> begin_of_sequence;
  std::optional<int64_t> end_of_sequence;
  std::optional<int64_t> unknown;
  std::optional<int64_t> padding;
  std::optional<int64_t> separator;
  std::optional<int64_t> classification;
  std::optional<int64_t> mask;
};

enum class TokenizerKind : uint8_t {
  kByteLevelBpe,      // GPT-2: bytes as printable characters, merges in order (GGUF: "gpt2")
  kSentencePieceBpe,  // Llama 2: spaces as "▁", the best score merges first, bytes as <0x0A> (GGUF: "llama")
  kUnigram,           // T5: the most likely pieces (GGUF: "t5")
  kWordPiece,         // BERT: the longest pieces, "##" before those within a word (GGUF: "bert")
};

/// The numbers are those of SentencePiece's files and of GGUF's tokenizer.ggml.token_type.
enum class TokenType : uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// The parts of a tokenizer that no tokenizer.json describes.
struct Vocabulary {
  TokenizerKind kind = TokenizerKind::kByteLevelBpe;
  /// In the order of their ids. Of WordPiece as in vocab.txt: "ing" within a word is "##ing" (GGUF files
  /// have "ing" there and "▁the" for what begins a word: `from_gguf_word_pieces`).
  std::vector<std::string> tokens;
  std::vector<float> scores;        // SentencePiece BPE and unigram: one a token
  std::vector<TokenType> types;     // one a token; empty: all are normal
  std::vector<std::string> merges;  // byte-level BPE: "Ġ t"
  /// How byte-level BPE cuts text into words, by the names of GGUF's tokenizer.ggml.pre ("gpt-2",
  /// "llama-bpe", "qwen2", "smollm", ...).
  std::string pre_tokenizer = "default";
  bool add_space_prefix = true;           // "▁" before the text
  bool add_space_after_tokens = true;     // and before what follows a special token
  bool remove_extra_whitespaces = false;  // SentencePiece's normalizer: runs of spaces become one
  bool lowercase = true;                  // WordPiece
  std::string precompiled_charsmap;       // bytes of SentencePiece's normalizer; may be empty
  SpecialTokens special;
  /// Special tokens around an encoded text; none where not given.
  bool add_begin_of_sequence = false;
  bool add_end_of_sequence = false;
};

/// Pieces as GGUF files of WordPiece have them, as vocab.txt has them.
std::vector<std::string> from_gguf_word_pieces(std::vector<std::string> tokens);

}  // namespace detent
