#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/tokenizers/vocabulary.h"

namespace detent {

class TokenizerPipeline;

/// Text to token ids and back, as the file of a tokenizer says. Immutable and cheap to copy; every function
/// may be called from several threads at once. Bytes that are no UTF-8 count as U+FFFD, one for each
/// maximal part of a character, as Python's errors="replace" has them.
class Tokenizer {
 public:
  explicit Tokenizer(std::shared_ptr<const TokenizerPipeline> pipeline);

  /// With `add_special_tokens`, what the tokenizer puts around a text (begin of sequence, [CLS], ...).
  /// Special tokens that are spelled out in the text are recognised either way.
  std::vector<int64_t> encode(std::string_view text, bool add_special_tokens = true) const;

  /// Ids without a token (networks have more rows than tokens) are nothing. The result is UTF-8: bytes that
  /// are none are U+FFFD.
  std::string decode(std::span<const int64_t> ids, bool skip_special_tokens = true) const;

  /// One more than the largest id.
  int64_t vocabulary_size() const;
  std::optional<int64_t> id_of(std::string_view token) const;
  /// As the vocabulary spells it ("Ġthe", "▁the", "##ing"); "" for an id without a token.
  std::string token(int64_t id) const;
  bool is_special(int64_t id) const;
  const SpecialTokens& special_tokens() const;
  /// "byte-level BPE, 49152 tokens"
  std::string description() const;

 private:
  std::shared_ptr<const TokenizerPipeline> pipeline_;
};

/// Decodes ids one by one: the texts that `add` and `finish` return are together what `decode` gives. None
/// ends within a character.
class StreamingDecoder {
 public:
  explicit StreamingDecoder(Tokenizer tokenizer, bool skip_special_tokens = true);

  /// Text that is safe to show after this id; may be empty.
  std::string add(int64_t id);
  /// The rest: bytes of an unfinished character become U+FFFD.
  std::string finish();

 private:
  std::string take(bool last);

  Tokenizer tokenizer_;
  bool skip_special_tokens_;
  std::vector<int64_t> ids_;  // ids since the last position that later text does not depend on
  size_t shown_ids_ = 0;      // how many of them are shown
};

/// A tokenizer.json, a tokenizer.model of SentencePiece, or a folder with either (the former is preferred);
/// tokenizer_config.json and special_tokens_map.json beside it say which tokens have a role. What is not
/// supported is an Error that names it.
Tokenizer read_tokenizer(const std::filesystem::path& path);

/// The template of chats (chat/chat_template.h) that a folder has, in chat_template.jinja or in
/// tokenizer_config.json; of several the one called "default".
std::optional<std::string> find_chat_template(const std::filesystem::path& folder);

/// From the text of a tokenizer.json; `name` begins messages.
Tokenizer parse_tokenizer_json(std::string_view text, const std::string& name);

/// From the bytes of a tokenizer.model. The file does not say what stands around a text: nothing.
Vocabulary read_sentencepiece_vocabulary(std::span<const std::byte> bytes, const std::string& name);
Tokenizer parse_sentencepiece_model(std::span<const std::byte> bytes, const std::string& name);

/// From lists, as the metadata of a GGUF file has them.
Tokenizer make_tokenizer(const Vocabulary& vocabulary, const std::string& name);

/// Ends a text that comes in pieces where a stop string begins. A possible beginning of one is held
/// back.
class StopStrings {
 public:
  /// Throws UsageError on an empty one.
  explicit StopStrings(std::vector<std::string> strings);

  /// Text that is safe to show; nothing more after a stop string.
  std::string add(std::string_view text);
  /// The rest, when no more text comes.
  std::string finish();
  bool found() const { return found_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;
  bool found_ = false;
};

}  // namespace detent
