#include "detent/tokenizers/text_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error_of_for_test.h"
#include "detent/core/text.h"
#include "detent/files/json.h"

namespace detent {
namespace {

using std::string_view_literals::operator""sv;
using testing::HasSubstr;

/// A step of tokenizer.json, a text, and what version 0.23 of Hugging Face's tokenizers makes of it.
struct StepCase {
  std::string_view step;
  std::string_view text;
  std::string_view result;
};

/// Words of a result, with a bar between them.
std::string joined(const Words& words) {
  std::vector<std::string_view> texts;
  for (const Words::Word& word : words.words) texts.push_back(words[word]);
  return fmt::format("{}", fmt::join(texts, "|"));
}

Value step_of(std::string_view json) { return parse_json(std::string(json), "step"); }

TEST(Normalizers, RewriteTexts) {
  const std::vector<StepCase> cases = {
      {R"({"type": "Lowercase"})", "ÀB İ Σ ΑΣ ǅ"sv, "àb i\u0307 σ ασ ǆ"sv},
      {R"({"type": "Lowercase"})", "ẞß"sv, "ßß"sv},
      {R"({"type": "NFC"})", "e\u0301 가"sv, "é 가"sv},
      {R"({"type": "NFC"})", "Å ﬁ"sv, "Å ﬁ"sv},
      {R"({"type": "NFD"})", "é 가"sv, "e\u0301 가"sv},
      {R"({"type": "NFD"})", "ﬁ"sv, "ﬁ"sv},
      {R"({"type": "NFKC"})", "ﬁ ① Å"sv, "fi 1 Å"sv},
      {R"({"type": "NFKC"})", "ｱﾞ"sv, "ア゙"sv},
      {R"({"type": "NFKD"})", "ﬁ é ½"sv, "fi e\u0301 1⁄2"sv},
      {R"({"type": "Strip", "strip_left": true, "strip_right": false})", " \t a b \u3000"sv, "a b \u3000"sv},
      {R"({"type": "Strip", "strip_left": true, "strip_right": true})", "\u00A0a b\n "sv, "a b"sv},
      {R"({"type": "StripAccents"})", "e\u0301a\u0308 é"sv, "ea é"sv},
      {R"({"type": "Prepend", "prepend": "▁"})", "ab"sv, "▁ab"sv},
      {R"({"type": "Prepend", "prepend": "▁"})", ""sv, ""sv},
      {R"({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})", " a  b"sv, "▁a▁▁b"sv},
      {R"({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})", "a   b c  d"sv, "a b c d"sv},
      {R"({"type": "Replace", "pattern": {"String": ""}, "content": "x"})", "ab"sv, "xaxbx"sv},
      {R"({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": false, "strip_accents": null, "lowercase": false})",
       "a\000b�c\td\u200Be\r\nf"sv, "abc de  f"sv},
      {R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": true, "strip_accents": null, "lowercase": false})",
       "a中b文"sv, "a 中 b 文 "sv},
      {R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": true, "strip_accents": null, "lowercase": false})",
       "カ豈"sv, "カ 豈 "sv},
      {R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false, "strip_accents": null, "lowercase": true})",
       "ÀÉ"sv, "ae"sv},
      {R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false, "strip_accents": false, "lowercase": true})",
       "ÀÉ"sv, "àé"sv},
      {R"({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": false, "strip_accents": true, "lowercase": false})",
       "ÀÉ"sv, "AE"sv},
      {R"({"type": "Nmt"})", "a\u200Bb\001c\u2028d\uFEFE e\t"sv, "a bc d\uFEFE e "sv},
      {R"({"type": "ByteLevel"})", "a é\n"sv, "aĠÃ©Ċ"sv},
      {R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}]})",
       "Éà"sv, "ea"sv},
  };
  for (const StepCase& each : cases) {
    NormalizedText text{std::string(each.text)};
    make_normalizer(step_of(each.step), "normalizer")(text);
    EXPECT_EQ(text.text, each.result) << each.step << ": " << each.text;
  }
}

TEST(PreTokenizers, CutTextsIntoWords) {
  const std::vector<StepCase> cases = {
      {R"({"type": "Whitespace"})", "Hello, world_1 -- é\u3000!"sv, "Hello|,|world_1|--|é|!"sv},
      {R"({"type": "Whitespace"})", "  "sv, ""sv},
      {R"({"type": "WhitespaceSplit"})", " a,b  c\u00A0d\n"sv, "a,b|c|d"sv},
      {R"({"type": "BertPreTokenizer"})", "it's a-b中。 $5"sv, "it|'|s|a|-|b中|。|$|5"sv},
      {R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
       "it's  12 é!\n\nx"sv, "Ġit|'s|Ġ|Ġ12|ĠÃ©|!|Ċ|Ċ|x"sv},
      {R"({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false})",
       "a b  c"sv, "aĠbĠĠc"sv},
      {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})", "a b  c"sv,
       "▁a|▁b|▁|▁c"sv},
      {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})", " a"sv,
       "▁a"sv},
      {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true})", "a b"sv,
       "a|▁b"sv},
      {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})", "a b"sv,
       "▁a|▁b"sv},
      {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": false})", "a b  c"sv,
       "▁a▁b▁▁c"sv},
      {R"({"type": "Punctuation", "behavior": "Isolated"})", "a,,b.!"sv, "a|,|,|b|.|!"sv},
      {R"({"type": "Punctuation", "behavior": "Removed"})", "a,,b.!"sv, "a|b"sv},
      {R"({"type": "Punctuation", "behavior": "MergedWithPrevious"})", "a,,b.!"sv, "a,|,|b.|!"sv},
      {R"({"type": "Punctuation", "behavior": "MergedWithNext"})", "a,,b.!"sv, "a|,|,b|.|!"sv},
      {R"({"type": "Punctuation", "behavior": "Contiguous"})", "a,,b.!"sv, "a|,,|b|.!"sv},
      {R"({"type": "Digits", "individual_digits": true})", "a12b٣½"sv, "a|1|2|b|٣|½"sv},
      {R"({"type": "Digits", "individual_digits": false})", "a12b3"sv, "a|12|b|3"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "Isolated", "invert": false})", "a--b-"sv,
       "a|-|-|b|-"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "Isolated", "invert": false})", "-"sv,
       "-"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "Removed", "invert": false})", "a--b-"sv,
       "a|b"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "Removed", "invert": false})", "-"sv,
       ""sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithPrevious", "invert": false})",
       "a--b-"sv, "a-|-|b-"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithPrevious", "invert": false})",
       "-"sv, "-"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithNext", "invert": false})",
       "a--b-"sv, "a|-|-b|-"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "MergedWithNext", "invert": false})",
       "-"sv, "-"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "Contiguous", "invert": false})",
       "a--b-"sv, "a|--|b|-"sv},
      {R"({"type": "Split", "pattern": {"String": "-"}, "behavior": "Contiguous", "invert": false})", "-"sv,
       "-"sv},
      {R"({"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "Isolated", "invert": true})",
       "a12b3"sv, "a|12|b|3"sv},
      {R"({"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "Removed", "invert": true})",
       "a12b3"sv, "12|3"sv},
      {R"({"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "MergedWithPrevious", "invert": true})",
       "a12b3"sv, "a|12b|3"sv},
      {R"({"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "MergedWithNext", "invert": true})",
       "a12b3"sv, "a12|b3"sv},
      {R"({"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "Contiguous", "invert": true})",
       "a12b3"sv, "a|12|b|3"sv},
      {R"({"type": "CharDelimiterSplit", "delimiter": "_"})", "a_b__c_"sv, "a|b|c"sv},
      {R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": true}]})",
       "ab, 12.x"sv, "ab|,|1|2|.|x"sv},
  };
  for (const StepCase& each : cases) {
    Words words{.text = std::string(each.text), .words = {{0, each.text.size(), true}}};
    make_pre_tokenizer(step_of(each.step), "pre-tokenizer")(words);
    EXPECT_EQ(joined(words), each.result) << each.step << ": " << each.text;
  }
}

/// "first": the character before the beginning of the text, not before what follows an added token.
TEST(PreTokenizers, KnowTheBeginningOfTheText) {
  const PreTokenizer first = make_pre_tokenizer(
      step_of(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true})"),
      "step");
  Words words{.text = "a b", .words = {{0, 3, false}}};
  first(words);
  EXPECT_EQ(joined(words), "a|▁b");
}

TEST(TokenDecoders, RewriteTokens) {
  const std::vector<StepCase> cases = {
      {R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
       "Ġa~Ã~©Ċ"sv, " aé\n"sv},
      {R"({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true})",
       "é~ÃĢ"sv, "�À"sv},
      {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true})",
       "▁a~b▁~▁c"sv, "ab  c"sv},
      {R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true})", "▁a~b▁"sv,
       " ab "sv},
      {R"({"type": "WordPiece", "prefix": "##", "cleanup": true})", "a~##b~c~.~n't~,~##"sv, "ab c.n't,"sv},
      {R"({"type": "WordPiece", "prefix": "##", "cleanup": false})", "##a~b~.~##c"sv, "##a b .c"sv},
      {R"({"type": "BPEDecoder", "suffix": "</w>"})", "a~b</w>~c</w>~d"sv, "ab c d"sv},
      {R"({"type": "ByteFallback"})", "a~<0xC3>~<0xA9>~b~<0xFF>~<0xE4>~<0xB8>~<0x4>"sv, "aéb���<0x4>"sv},
      {R"({"type": "Fuse"})", "a~b~c"sv, "abc"sv},
      {R"({"type": "Strip", "content": " ", "start": 1, "stop": 1})", "  a ~ b~c  "sv, " abc "sv},
      {R"({"type": "Replace", "pattern": {"String": "▁"}, "content": " "})", "▁a▁~b"sv, " a b"sv},
      {R"({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true})",
       "a~a~<pad>~a~|~b~<pad>~<pad>~b"sv, "aa bb"sv},
      {R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})",
       "▁▁a~<0xE2>~<0x82>~<0xAC>~▁b"sv, " a€ b"sv},
  };
  for (const StepCase& each : cases) {
    std::vector<std::string> tokens = text_parts(each.text, '~');
    make_token_decoder(step_of(each.step), "decoder")(tokens);
    EXPECT_EQ(fmt::format("{}", fmt::join(tokens, "")), each.result) << each.step << ": " << each.text;
  }
}

TEST(TextSteps, NameWhatTheyLack) {
  const auto normalizer = [](std::string_view json) {
    return error_of([&] { make_normalizer(step_of(json), "t.json: normalizer"); });
  };
  EXPECT_THAT(normalizer(R"({"type": "Prepend"})"), HasSubstr("t.json: normalizer"));
  EXPECT_THAT(normalizer(R"({"type": "Prepend"})"), HasSubstr("prepend"));
  EXPECT_THAT(normalizer(R"({"type": "Replace", "pattern": {"Glob": "*"}, "content": ""})"),
              HasSubstr("pattern"));
  EXPECT_THAT(normalizer(R"({"type": "Strip", "strip_left": 1, "strip_right": true})"),
              HasSubstr("strip_left"));
  EXPECT_THAT(normalizer(R"([1])"), HasSubstr("t.json: normalizer"));
  const auto pre_tokenizer = [](std::string_view json) {
    return error_of([&] { make_pre_tokenizer(step_of(json), "pre"); });
  };
  EXPECT_THAT(pre_tokenizer(R"({"type": "Punctuation", "behavior": "Doubled"})"), HasSubstr("Doubled"));
  EXPECT_THAT(pre_tokenizer(R"({"type": "CharDelimiterSplit", "delimiter": "ab"})"), HasSubstr("delimiter"));
  EXPECT_THAT(pre_tokenizer(R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "last"})"),
              HasSubstr("last"));
  EXPECT_FALSE(make_normalizer(Value(), "none"));
  EXPECT_FALSE(make_pre_tokenizer(Value(), "none"));
  EXPECT_FALSE(make_token_decoder(Value(), "none"));
}

TEST(TextSteps, SpellEveryByteAsACharacter) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const std::string characters = byte_characters(bytes);
  EXPECT_EQ(bytes_of_characters(characters), bytes);
  EXPECT_EQ(byte_characters("a \n"), "aĠĊ");
  EXPECT_EQ(bytes_of_characters("a b"), std::nullopt) << "a space stands for no byte";
}

TEST(TextSteps, ReadBase64) {
  EXPECT_EQ(from_base64("", "x"), "");
  EXPECT_EQ(from_base64("YQ==", "x"), "a");
  EXPECT_EQ(from_base64("YWI=", "x"), "ab");
  EXPECT_EQ(from_base64("YWJj", "x"), "abc");
  EXPECT_EQ(from_base64("/+8A", "x"), "\xFF\xEF\0"sv);
  for (const char* wrong : {"Y", "YQ=", "Y===", "Y Q=", "YQ==YQ==", "Y\xC3=="})
    EXPECT_THAT(error_of([&] { from_base64(wrong, "the map"); }), HasSubstr("the map")) << wrong;
}

}  // namespace
}  // namespace detent
