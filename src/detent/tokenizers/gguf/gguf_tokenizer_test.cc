#include "detent/tokenizers/gguf/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GgufFile file_of(const GgufBytes& bytes) {
  const TemporaryPath path("vocabulary.gguf");
  path.overwrite(bytes.bytes());
  return read_gguf(path.get());
}

template <class T>
std::string numbers(GgufType type, const std::vector<T>& values) {
  std::string elements;
  for (const T value : values) elements += GgufBytes::number_bytes(value);
  return GgufBytes::array_bytes(type, values.size(), elements);
}

GgufBytes byte_level() {
  GgufBytes bytes;
  bytes.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
  bytes.entry("tokenizer.ggml.tokens", GgufType::kArray,
              GgufBytes::texts_bytes({"<s>", "a", "b", "\xC4\xA0", "ab", std::string("\xC4\xA0") + "a"}));
  bytes.entry("tokenizer.ggml.token_type", GgufType::kArray,
              numbers<int32_t>(GgufType::kInt32, {3, 1, 1, 1, 1, 1}));
  bytes.entry("tokenizer.ggml.merges", GgufType::kArray, GgufBytes::texts_bytes({"a b", "\xC4\xA0 a"}));
  return bytes.integer("tokenizer.ggml.bos_token_id", 0);
}

TEST(GgufTokenizer, OfByteLevelBpe) {
  const GgufFile file = file_of(byte_level());
  EXPECT_TRUE(has_gguf_tokenizer(file.metadata));
  const Tokenizer tokenizer = read_gguf_tokenizer(file.metadata);
  EXPECT_THAT(tokenizer.encode("ab a<s>"), ElementsAre(4, 5, 0));
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{4, 5}), "ab a");
}

TEST(GgufTokenizer, PutsATokenInFrontWhereItIsTold) {
  const auto flag = GgufBytes::number_bytes<uint8_t>(1);
  const GgufFile file = file_of(byte_level().entry("tokenizer.ggml.add_bos_token", GgufType::kBool, flag));
  EXPECT_THAT(read_gguf_tokenizer(file.metadata).encode("b"), ElementsAre(0, 2));
}

TEST(GgufTokenizer, OfSentencePiece) {
  GgufBytes bytes;
  bytes.text("tokenizer.ggml.model", "llama");
  bytes.entry("tokenizer.ggml.tokens", GgufType::kArray,
              GgufBytes::texts_bytes(
                  {"<unk>", "<s>", "\xE2\x96\x81", "a", std::string("\xE2\x96\x81") + "a", "<0x62>"}));
  bytes.entry("tokenizer.ggml.token_type", GgufType::kArray,
              numbers<int32_t>(GgufType::kInt32, {2, 3, 1, 1, 1, 6}));
  bytes.entry("tokenizer.ggml.scores", GgufType::kArray,
              numbers<float>(GgufType::kFloat32, {0, 0, -9, -8, -1, 0}));
  bytes.integer("tokenizer.ggml.bos_token_id", 1).integer("tokenizer.ggml.unknown_token_id", 0);
  const GgufFile file = file_of(bytes);
  EXPECT_THAT(read_gguf_tokenizer(file.metadata).encode("aab"), ElementsAre(1, 4, 3, 5));
}

TEST(GgufTokenizer, OfWordPieces) {
  GgufBytes bytes;
  bytes.text("tokenizer.ggml.model", "bert");
  bytes.entry("tokenizer.ggml.tokens", GgufType::kArray,
              GgufBytes::texts_bytes({"[UNK]", "[CLS]", "[SEP]", "\xE2\x96\x81play", "ing"}));
  bytes.integer("tokenizer.ggml.bos_token_id", 1).integer("tokenizer.ggml.seperator_token_id", 2);
  bytes.integer("tokenizer.ggml.unknown_token_id", 0);
  const GgufFile file = file_of(bytes);
  EXPECT_THAT(read_gguf_tokenizer(file.metadata).encode("Playing x"), ElementsAre(1, 3, 4, 0, 2));
}

TEST(GgufTokenizer, RefusesWhatItDoesNotKnow) {
  const auto refusal = [](const GgufBytes& bytes) {
    const GgufFile file = file_of(bytes);
    return error_of([&] { read_gguf_tokenizer(file.metadata); });
  };
  EXPECT_FALSE(has_gguf_tokenizer(file_of(GgufBytes()).metadata));
  EXPECT_THAT(refusal(GgufBytes().text("tokenizer.ggml.model", "rwkv")),
              HasSubstr("unknown tokenizer \"rwkv\""));
  EXPECT_THAT(refusal(GgufBytes().text("tokenizer.ggml.model", "gpt2")),
              HasSubstr("lack tokenizer.ggml.tokens"));
  GgufBytes bytes;
  bytes.text("tokenizer.ggml.model", "llama");
  bytes.entry("tokenizer.ggml.tokens", GgufType::kArray, GgufBytes::texts_bytes({"a"}));
  bytes.entry("tokenizer.ggml.token_type", GgufType::kArray, numbers<int32_t>(GgufType::kInt32, {9}));
  EXPECT_THAT(refusal(bytes), HasSubstr("token_type has 9, expected 0 to 6"));
}

TEST(GgufTokenizer, HasATemplateOfChats) {
  const GgufFile file = file_of(GgufBytes().text("tokenizer.chat_template", "{{ x }}"));
  EXPECT_EQ(gguf_chat_template(file.metadata), "{{ x }}");
  EXPECT_EQ(gguf_chat_template(file_of(GgufBytes()).metadata), std::nullopt);
}

}  // namespace
}  // namespace detent
