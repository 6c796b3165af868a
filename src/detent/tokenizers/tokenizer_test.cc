#include "detent/tokenizers/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/temporary_file_test.h"
#include "detent/tokenizers/json_object.h"
#include "detent/tokenizers/text_steps.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// Written by tests/data/tokenizers/make_cases.py.
const Table& golden() {
  static const Value value =
      read_json(std::filesystem::path(DETENT_SOURCE_DIR) / "tests/data/tokenizers/tokenizers.json");
  return *value.get_if<Table>();
}

std::vector<int64_t> ids_of(const Value& value) {
  std::vector<int64_t> ids;
  for (const Value& id : *value.get_if<List>()) ids.push_back(*id.get_if<int64_t>());
  return ids;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int64_t>& ids, bool skips) {
  StreamingDecoder decoder(tokenizer, skips);
  std::string text;
  for (const int64_t id : ids) {
    text += decoder.add(id);
    EXPECT_TRUE(is_valid_utf8(text)) << text;
  }
  return text + decoder.finish();
}

TEST(Tokenizer, GivesWhatHuggingFacesLibraryGives) {
  const List& tokenizers = *golden().find("tokenizers")->get_if<List>();
  EXPECT_GT(tokenizers.size(), 15U);
  for (const Value& entry : tokenizers) {
    const JsonObject object(entry, "tokenizers.json");
    const std::string name = object.text("name");
    const Tokenizer tokenizer = parse_tokenizer_json(json_text(object.value("tokenizer")), name);
    for (const Value& value : object.list("cases")) {
      const List& parts = *value.get_if<List>();
      const std::string text = from_base64(*json_string(parts[0]), name);
      const std::vector<int64_t> ids = ids_of(parts[1]);
      EXPECT_EQ(tokenizer.encode(text), ids) << name << ": " << text;
      EXPECT_EQ(tokenizer.encode(text, false), ids_of(parts[2])) << name << ": " << text;
      EXPECT_EQ(tokenizer.decode(ids), *json_string(parts[3])) << name << ": " << text;
      EXPECT_EQ(tokenizer.decode(ids, false), *json_string(parts[4])) << name << ": " << text;
      for (const bool skips : {true, false})
        EXPECT_EQ(streamed(tokenizer, ids, skips), tokenizer.decode(ids, skips)) << name << ": " << text;
    }
  }
}

TEST(Tokenizer, GivesWhatSentencePieceGives) {
  for (const Value& entry : *golden().find("models")->get_if<List>()) {
    const JsonObject object(entry, "tokenizers.json");
    const std::string name = object.text("name");
    const std::string model = from_base64(object.text("model"), name);
    const Tokenizer tokenizer = parse_sentencepiece_model(std::as_bytes(std::span(model)), name);
    for (const Value& value : object.list("cases")) {
      const List& parts = *value.get_if<List>();
      const std::string text = *json_string(parts[0]);
      EXPECT_EQ(tokenizer.encode(text), ids_of(parts[1])) << name << ": " << text;
    }
    for (size_t size = 0; size < model.size(); size += 97) {
      const auto cut = std::as_bytes(std::span(model)).first(size);
      try {
        parse_sentencepiece_model(cut, name);
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(name));
      }
    }
  }
}

constexpr const char* kLetters =
    R"({"model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "a": 1, "b": 2, "aa": 3, "inf": 4, "i": 5, "n": 6,
        "f": 7, "in": 8, "nan": 9, "nani": 10}, "merges": ["a a", "i n", "in f"]},
        "added_tokens": [{"id": 11, "content": "<s>", "special": true}]})";

TEST(Tokenizer, TakesLinearTimeOnWordsOfAMegabyte) {
  const Tokenizer tokenizer = parse_tokenizer_json(kLetters, "letters");
  const std::string small(10'000, 'a');
  const std::string large(1'000'000, 'a');
  const auto seconds = [&](const std::string& text) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(tokenizer.encode(text).size(), text.size() / 2);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  seconds(small);
  // Quadratic time would be 10,000 times as much, and minutes.
  EXPECT_LT(seconds(large), 2000 * seconds(small) + 1);
}

TEST(Tokenizer, ReadsTextsThatSpellNumbersInJson) {
  const Tokenizer tokenizer = parse_tokenizer_json(
      R"({"model": {"type": "BPE", "vocab": {"inf": 0, "i": 1, "n": 2, "f": 3, "in": 4, "infi": 5},
          "merges": [["i", "n"], ["in", "f"], ["inf", "i"]]}})",
      "numbers");
  EXPECT_EQ(tokenizer.encode("infi"), std::vector<int64_t>{5});
}

TEST(Tokenizer, DropsAddedTokensThatTheOneBeforeHasTaken) {
  const Tokenizer tokenizer = parse_tokenizer_json(
      R"({"model": {"type": "WordLevel", "unk_token": "?", "vocab": {"x": 0, "y": 1, "?": 2}},
          "added_tokens": [{"id": 3, "content": "<a>", "rstrip": true},
                           {"id": 4, "content": "  ", "lstrip": true}]})",
      "added");
  EXPECT_EQ(tokenizer.encode("x<a>  y"), (std::vector<int64_t>{0, 3, 1}));
  EXPECT_EQ(tokenizer.encode("x  y"), (std::vector<int64_t>{0, 4, 1}));
}

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer tokenizer = parse_tokenizer_json(kLetters, "letters");
  EXPECT_EQ(tokenizer.vocabulary_size(), 12);
  EXPECT_EQ(tokenizer.id_of("<s>"), 11);
  EXPECT_EQ(tokenizer.id_of("none"), std::nullopt);
  EXPECT_EQ(tokenizer.token(3), "aa");
  EXPECT_EQ(tokenizer.token(99), "");
  EXPECT_TRUE(tokenizer.is_special(11));
  EXPECT_FALSE(tokenizer.is_special(3));
  EXPECT_EQ(tokenizer.special_tokens().unknown, 0);
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{1, 500, -3, 2}), "a b");
}

TEST(Tokenizer, RefusesByNameWhatItLacks) {
  const auto error = [](const std::string& json) {
    return error_of([&] { parse_tokenizer_json(json, "t.json"); });
  };
  const std::string model = R"("model": {"type": "WordLevel", "unk_token": "a", "vocab": {"a": 0}})";
  EXPECT_THAT(error("{" + model + R"(, "normalizer": {"type": "Upper"}})"),
              HasSubstr("normalizer \"Upper\""));
  EXPECT_THAT(error("{" + model + R"(, "pre_tokenizer": {"type": "UnicodeScripts"}})"),
              HasSubstr("\"UnicodeScripts\""));
  EXPECT_THAT(error("{" + model + R"(, "decoder": {"type": "Lower"}})"), HasSubstr("decoder \"Lower\""));
  EXPECT_THAT(error("{" + model + R"(, "post_processor": {"type": "X"}})"),
              HasSubstr("post-processor \"X\""));
  EXPECT_THAT(error(R"({"model": {"type": "Phrase"}})"), HasSubstr("model \"Phrase\""));
  EXPECT_THAT(error(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []}})"),
              HasSubstr("both have id 0"));
  EXPECT_THAT(error(R"({"model": {"type": "BPE", "vocab": {"a": 1099511627776}, "merges": []}})"),
              HasSubstr("1099511627776"));
  EXPECT_THAT(error(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a x"]}})"),
              HasSubstr("\"x\" is not in"));
  EXPECT_THAT(error(R"({"model": {"type": "BPE", "dropout": 0.1, "vocab": {"a": 0}, "merges": []}})"),
              HasSubstr("dropout"));
  EXPECT_THAT(error("{" + model + R"(, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?<=a)b"},
                    "behavior": "Isolated", "invert": false}})"),
              HasSubstr("(?<=a)b"));
  EXPECT_THAT(error("{}"), HasSubstr("\"model\" is missing"));
}

TEST(Tokenizer, ReadsAFolderWithItsConfiguration) {
  const TemporaryPath folder("tokenizer_folder");
  std::filesystem::create_directories(folder.get());
  EXPECT_THAT(error_of([&] { read_tokenizer(folder.get()); }),
              HasSubstr("neither tokenizer.json nor tokenizer.model"));
  write_file(folder.get() / "tokenizer.json", kLetters);
  write_file(
      folder.get() / "tokenizer_config.json",
      R"({"bos_token": {"content": "<s>"}, "eos_token": "b", "model_max_length": 1000000000000000019884624838656,
                 "chat_template": [{"name": "other", "template": "x"}, {"name": "default", "template": "y"}]})");
  const Tokenizer tokenizer = read_tokenizer(folder.get());
  EXPECT_EQ(tokenizer.special_tokens().begin_of_sequence, 11);
  EXPECT_EQ(tokenizer.special_tokens().end_of_sequence, 2);
  EXPECT_EQ(find_chat_template(folder.get()), "y");
}

TEST(Tokenizer, IsMadeOfLists) {
  Vocabulary vocabulary;
  vocabulary.kind = TokenizerKind::kSentencePieceBpe;
  vocabulary.tokens = {"<unk>", "<s>", "▁", "a", "b", "ab", "▁ab", "<0x0A>"};
  vocabulary.scores = {0, 0, -5, -5, -5, -1, -2, 0};
  vocabulary.types = {TokenType::kUnknown, TokenType::kControl, TokenType::kNormal, TokenType::kNormal,
                      TokenType::kNormal,  TokenType::kNormal,  TokenType::kNormal, TokenType::kByte};
  vocabulary.special.unknown = 0;
  vocabulary.special.begin_of_sequence = 1;
  vocabulary.add_begin_of_sequence = true;
  const Tokenizer tokenizer = make_tokenizer(vocabulary, "lists");
  EXPECT_EQ(tokenizer.encode("ab aab\nc"), (std::vector<int64_t>{1, 6, 2, 3, 5, 7, 0}));
  EXPECT_EQ(tokenizer.decode(std::vector<int64_t>{1, 6, 2, 3, 5, 7}), "ab aab\n");
  vocabulary.scores.pop_back();
  EXPECT_THAT(error_of([&] { make_tokenizer(vocabulary, "lists"); }), HasSubstr("8 tokens, but 7 scores"));
}

}  // namespace
}  // namespace detent
