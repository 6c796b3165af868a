#include <cstring>

#include "detent/core/error.h"
#include "detent/tokenizers/tokenizer.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

/// Fields of a protocol buffer message, one after another.
class Message {
 public:
  Message(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  /// False at the end.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = variable();
    field_ = tag >> 3;
    wire_ = tag & 7U;
    constexpr uint64_t kVariable = 0;
    constexpr uint64_t kEightBytes = 1;
    constexpr uint64_t kBytes = 2;
    constexpr uint64_t kFourBytes = 5;
    if (wire_ == kVariable) {
      number_ = variable();
    } else if (wire_ == kBytes) {
      bytes_ = take(variable());
    } else if (wire_ == kFourBytes) {
      bytes_ = take(sizeof(float));
    } else if (wire_ == kEightBytes) {
      bytes_ = take(sizeof(double));
    } else {
      fail("{}: no model of SentencePiece: field {} has wire type {}", name_, field_, wire_);
    }
    return true;
  }

  uint64_t field() const { return field_; }
  uint64_t number() const { return number_; }
  std::string_view bytes() const { return bytes_; }
  bool flag() const { return number_ != 0; }
  float float32() const {
    if (bytes_.size() != sizeof(float))
      fail("{}: no model of SentencePiece: a score of {} bytes", name_, bytes_.size());
    float value = 0;
    std::memcpy(&value, bytes_.data(), sizeof(value));
    return value;
  }

 private:
  uint64_t variable() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    fail("{}: no model of SentencePiece: a number of more than 64 bits", name_);
  }
  std::string_view take(uint64_t size) {
    if (size > rest_.size())
      fail("{}: no model of SentencePiece, or cut off: {} bytes are missing", name_, size - rest_.size());
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }

  std::string_view rest_;
  const std::string& name_;
  uint64_t field_ = 0;
  uint64_t wire_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

// Fields of sentencepiece_model.proto.
constexpr uint64_t kPieces = 1;
constexpr uint64_t kTrainer = 2;
constexpr uint64_t kNormalizer = 3;

void read_piece(std::string_view bytes, const std::string& name, Vocabulary& vocabulary) {
  std::string piece;
  float score = 0;
  auto type = TokenType::kNormal;
  for (Message message(bytes, name); message.next();) {
    if (message.field() == 1) piece = message.bytes();
    if (message.field() == 2) score = message.float32();
    if (message.field() != 3) continue;
    if (message.number() < 1 || message.number() > 6)
      fail("{}: piece \"{}\" has type {} (1 to 6)", name, piece, message.number());
    type = static_cast<TokenType>(message.number());
  }
  if (type == TokenType::kUnknown)
    vocabulary.special.unknown = static_cast<int64_t>(vocabulary.tokens.size());
  vocabulary.tokens.push_back(std::move(piece));
  vocabulary.scores.push_back(score);
  vocabulary.types.push_back(type);
}

/// Ids are int32, and -1 where there is none.
std::optional<int64_t> optional_id(uint64_t number) {
  const auto id = static_cast<int32_t>(static_cast<uint32_t>(number));
  return id < 0 ? std::nullopt : std::optional<int64_t>(id);
}

void read_trainer(std::string_view bytes, const std::string& name, Vocabulary& vocabulary) {
  constexpr uint64_t kModelType = 3;
  constexpr uint64_t kSuffixSpaces = 24;
  constexpr uint64_t kBegin = 41;
  constexpr uint64_t kEnd = 42;
  constexpr uint64_t kPadding = 43;
  for (Message message(bytes, name); message.next();) {
    if (message.field() == kModelType) {
      if (message.number() != 1 && message.number() != 2)
        fail("{}: SentencePiece's model type {} is not supported (supported: 1 unigram, 2 BPE)", name,
             message.number());
      vocabulary.kind = message.number() == 1 ? TokenizerKind::kUnigram : TokenizerKind::kSentencePieceBpe;
    }
    if (message.field() == kSuffixSpaces && message.flag())
      fail("{}: spaces as suffixes are not supported", name);
    if (message.field() == kBegin) vocabulary.special.begin_of_sequence = optional_id(message.number());
    if (message.field() == kEnd) vocabulary.special.end_of_sequence = optional_id(message.number());
    if (message.field() == kPadding) vocabulary.special.padding = optional_id(message.number());
  }
}

void read_normalizer(std::string_view bytes, const std::string& name, Vocabulary& vocabulary) {
  for (Message message(bytes, name); message.next();) {
    if (message.field() == 2) vocabulary.precompiled_charsmap = message.bytes();
    if (message.field() == 3) vocabulary.add_space_prefix = message.flag();
    if (message.field() == 4) vocabulary.remove_extra_whitespaces = message.flag();
    if (message.field() == 5 && !message.flag())
      fail("{}: spaces that are not escaped are not supported", name);
  }
}

}  // namespace

Vocabulary read_sentencepiece_vocabulary(std::span<const std::byte> bytes, const std::string& name) {
  Vocabulary vocabulary;
  vocabulary.kind = TokenizerKind::kUnigram;
  vocabulary.remove_extra_whitespaces = true;
  vocabulary.add_space_after_tokens = false;
  // Fields that the file leaves out have their defaults.
  vocabulary.special.begin_of_sequence = 1;
  vocabulary.special.end_of_sequence = 2;
  for (Message message({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name); message.next();) {
    if (message.field() == kPieces) read_piece(message.bytes(), name, vocabulary);
    if (message.field() == kTrainer) read_trainer(message.bytes(), name, vocabulary);
    if (message.field() == kNormalizer) read_normalizer(message.bytes(), name, vocabulary);
  }
  return vocabulary;
}

Tokenizer parse_sentencepiece_model(std::span<const std::byte> bytes, const std::string& name) {
  return make_tokenizer(read_sentencepiece_vocabulary(bytes, name), name);
}

}  // namespace detent
