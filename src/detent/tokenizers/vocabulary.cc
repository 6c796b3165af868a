#include "detent/tokenizers/vocabulary.h"

#include <algorithm>
#include <map>

#include "detent/core/error.h"
#include "detent/tokenizers/character_map.h"
#include "detent/tokenizers/tokenizer_pipeline.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // ▁

TokenType type_of(const Vocabulary& vocabulary, size_t id) {
  return vocabulary.types.empty() ? TokenType::kNormal : vocabulary.types[id];
}

void check(const Vocabulary& vocabulary, const std::string& name) {
  const size_t count = vocabulary.tokens.size();
  if (count == 0) fail("{}: the vocabulary has no tokens", name);
  if (!vocabulary.types.empty() && vocabulary.types.size() != count)
    fail("{}: {} tokens, but {} types of tokens", name, count, vocabulary.types.size());
  const bool scored =
      vocabulary.kind == TokenizerKind::kSentencePieceBpe || vocabulary.kind == TokenizerKind::kUnigram;
  if (scored && vocabulary.scores.size() != count)
    fail("{}: {} tokens, but {} scores", name, count, vocabulary.scores.size());
  for (const std::string& token : vocabulary.tokens)
    if (!is_valid_utf8(token)) fail("{}: the token \"{}\" is not valid UTF-8", name, token);
  const auto check_id = [&](std::optional<int64_t> id, std::string_view role) {
    if (id && (*id < 0 || *id >= static_cast<int64_t>(count)))
      fail("{}: the {} token has id {} of {}", name, role, *id, count);
  };
  check_id(vocabulary.special.begin_of_sequence, "begin-of-sequence");
  check_id(vocabulary.special.end_of_sequence, "end-of-sequence");
  check_id(vocabulary.special.unknown, "unknown");
  check_id(vocabulary.special.padding, "padding");
  check_id(vocabulary.special.separator, "separator");
  check_id(vocabulary.special.classification, "classification");
  check_id(vocabulary.special.mask, "mask");
}

/// A text that is twice there (GGUF files pad vocabularies) is found as the first.
TokenTable token_table(const Vocabulary& vocabulary, const std::string& name) {
  TokenTable tokens;
  for (size_t id = vocabulary.tokens.size(); id-- > 0;)
    tokens.add(vocabulary.tokens[id], static_cast<int64_t>(id), name);
  return tokens;
}

/// Tokens found in a text as they are spelled.
std::vector<AddedToken> added_tokens(const Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenType type = type_of(vocabulary, id);
    const bool unknown = type == TokenType::kUnknown;
    if (type != TokenType::kControl && type != TokenType::kUserDefined && !unknown) continue;
    AddedToken token;
    token.content = vocabulary.tokens[id];
    token.id = static_cast<int64_t>(id);
    token.special = type != TokenType::kUserDefined;
    if (!token.content.empty()) added.push_back(std::move(token));
  }
  return added;
}

bool is_piece(const Vocabulary& vocabulary, size_t id) {
  const TokenType type = type_of(vocabulary, id);
  return type == TokenType::kNormal || type == TokenType::kUserDefined;
}

/// Two pieces merge where what they spell together is a piece; the best score first.
std::vector<BpeMerge> merges_by_score(const Vocabulary& vocabulary, const TokenTable& tokens) {
  std::map<float, uint32_t, std::greater<>> ranks;
  for (const float score : vocabulary.scores) ranks.emplace(score, 0);
  uint32_t next = 0;
  for (auto& [score, rank] : ranks) rank = next++;
  std::vector<BpeMerge> merges;
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!is_piece(vocabulary, id)) continue;
    const std::string_view whole = vocabulary.tokens[id];
    for (size_t cut = whole.empty() ? 0 : character_length(whole[0]); cut < whole.size();
         cut += character_length(whole[cut])) {
      const auto left = tokens.find(whole.substr(0, cut));
      const auto right = tokens.find(whole.substr(cut));
      if (!left || !right || !is_piece(vocabulary, static_cast<size_t>(*left)) ||
          !is_piece(vocabulary, static_cast<size_t>(*right)))
        continue;
      merges.push_back({*left, *right, static_cast<int64_t>(id), ranks.at(vocabulary.scores[id])});
    }
  }
  return merges;
}

std::vector<BpeMerge> listed_merges(const Vocabulary& vocabulary, const TokenTable& tokens,
                                    const std::string& name) {
  std::vector<BpeMerge> merges;
  for (const std::string& text : vocabulary.merges) {
    const size_t space = text.find(' ', 1);
    const auto left = tokens.find(std::string_view(text).substr(0, space));
    const auto right =
        space == std::string::npos ? std::nullopt : tokens.find(std::string_view(text).substr(space + 1));
    const auto merged =
        left && right ? tokens.find(text.substr(0, space) + text.substr(space + 1)) : std::nullopt;
    if (!merged) fail("{}: the merge \"{}\" is not of tokens of the vocabulary", name, text);
    merges.push_back({*left, *right, *merged, static_cast<uint32_t>(merges.size())});
  }
  return merges;
}

/// Runs of spaces as one, none at the ends: what SentencePiece calls extra whitespace.
void remove_extra_spaces(std::string& text) {
  std::string result;
  for (const char byte : text)
    if (byte != ' ' || (!result.empty() && result.back() != ' ')) result += byte;
  if (result.ends_with(' ')) result.pop_back();
  text = std::move(result);
}

/// SentencePiece's own normalizer.
Normalizer sentence_piece_normalizer(const Vocabulary& vocabulary, const std::string& name) {
  std::shared_ptr<const CharacterMap> map;
  if (!vocabulary.precompiled_charsmap.empty())
    map = std::make_shared<const CharacterMap>(vocabulary.precompiled_charsmap, name);
  const bool removes = vocabulary.remove_extra_whitespaces;
  const bool prefixes = vocabulary.add_space_prefix;
  const bool everywhere = vocabulary.add_space_after_tokens;
  return [=](NormalizedText& text) {
    if (map != nullptr) text.text = map->map_longest(text.text);
    if (removes) remove_extra_spaces(text.text);
    if (text.text.empty()) return;
    std::string result;
    if (prefixes && (everywhere || text.at_start)) result = kSpaceMark;
    for (const char byte : text.text) {
      if (byte == ' ') {
        result += kSpaceMark;
      } else {
        result += byte;
      }
    }
    text.text = std::move(result);
  };
}

TokenDecoder sentence_piece_decoder(bool has_prefix) {
  return in_sequence(std::vector<TokenDecoder>{
      [](std::vector<std::string>& tokens) {
        for (std::string& token : tokens) {
          for (size_t i = token.find(kSpaceMark); i != std::string::npos; i = token.find(kSpaceMark, i + 1))
            token.replace(i, kSpaceMark.size(), " ");
        }
      },
      byte_fallback_decoder(),
      [has_prefix](std::vector<std::string>& tokens) {
        if (has_prefix && !tokens.empty() && tokens[0].starts_with(' ')) tokens[0].erase(0, 1);
      }});
}

void build_sentence_piece(const Vocabulary& vocabulary, const std::string& name,
                          TokenizerPipeline& pipeline) {
  const bool in_bytes = std::ranges::find(vocabulary.types, TokenType::kByte) != vocabulary.types.end();
  if (vocabulary.kind == TokenizerKind::kUnigram) {
    std::vector<std::pair<std::string, double>> pieces;
    UnigramOptions options;
    for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      pieces.emplace_back(vocabulary.tokens[id], static_cast<double>(vocabulary.scores[id]));
      options.never_found.push_back(!is_piece(vocabulary, id));
    }
    options.unknown = vocabulary.special.unknown;
    options.byte_fallback = in_bytes;
    options.float_sums = true;
    pipeline.model = make_unigram(std::move(pieces), std::move(options), name);
    pipeline.kind = "SentencePiece unigram";
  } else {
    BpeOptions options;
    if (vocabulary.special.unknown)
      options.unknown = vocabulary.tokens[static_cast<size_t>(*vocabulary.special.unknown)];
    options.fuse_unknown = true;
    options.byte_fallback = in_bytes;
    TokenTable tokens = token_table(vocabulary, name);
    const std::vector<BpeMerge> merges = merges_by_score(vocabulary, tokens);
    pipeline.model = make_bpe(std::move(tokens), merges, std::move(options));
    pipeline.kind = "SentencePiece BPE";
  }
  pipeline.normalizer = sentence_piece_normalizer(vocabulary, name);
  pipeline.decoder = sentence_piece_decoder(vocabulary.add_space_prefix);
}

void build_byte_level(const Vocabulary& vocabulary, const std::string& name, TokenizerPipeline& pipeline) {
  WordRules rules = word_rules(vocabulary.pre_tokenizer, name);
  BpeOptions options;
  options.ignore_merges = rules.ignore_merges;
  TokenTable tokens = token_table(vocabulary, name);
  const std::vector<BpeMerge> merges = listed_merges(vocabulary, tokens, name);
  pipeline.model = make_bpe(std::move(tokens), merges, std::move(options));
  pipeline.normalizer = std::move(rules.normalizer);
  pipeline.pre_tokenizer = std::move(rules.pre_tokenizer);
  pipeline.decoder = byte_level_decoder();
  pipeline.kind = "byte-level BPE";
}

void build_word_piece(const Vocabulary& vocabulary, const std::string& name, TokenizerPipeline& pipeline) {
  WordPieceOptions options;
  if (vocabulary.special.unknown)
    options.unknown = vocabulary.tokens[static_cast<size_t>(*vocabulary.special.unknown)];
  pipeline.model = make_word_piece(token_table(vocabulary, name), options, name);
  const Table normalizer{{"type", "BertNormalizer"},
                         {"clean_text", true},
                         {"handle_chinese_chars", true},
                         {"lowercase", vocabulary.lowercase}};
  pipeline.normalizer = make_normalizer(normalizer, name);
  pipeline.pre_tokenizer = make_pre_tokenizer(Table{{"type", "BertPreTokenizer"}}, name);
  pipeline.decoder =
      make_token_decoder(Table{{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}, name);
  pipeline.kind = "WordPiece";
}

/// Begin and end, which of WordPiece are [CLS] and [SEP].
SequenceTemplate around(const Vocabulary& vocabulary, const std::string& name) {
  const bool is_word_piece = vocabulary.kind == TokenizerKind::kWordPiece;
  const SpecialTokens& special = vocabulary.special;
  const auto begin =
      is_word_piece && special.classification ? special.classification : special.begin_of_sequence;
  const auto end = is_word_piece && special.separator ? special.separator : special.end_of_sequence;
  if (vocabulary.add_begin_of_sequence && !begin)
    fail("{}: texts begin with a token that the vocabulary does not name", name);
  if (vocabulary.add_end_of_sequence && !end)
    fail("{}: texts end with a token that the vocabulary does not name", name);
  SequenceTemplate parts;
  if (vocabulary.add_begin_of_sequence) parts.push_back({false, {*begin}});
  parts.push_back({true, {}});
  if (vocabulary.add_end_of_sequence) parts.push_back({false, {*end}});
  return parts;
}

}  // namespace

Tokenizer make_tokenizer(const Vocabulary& vocabulary, const std::string& name) {
  check(vocabulary, name);
  auto pipeline = std::make_shared<TokenizerPipeline>();
  switch (vocabulary.kind) {
    case TokenizerKind::kByteLevelBpe:
      build_byte_level(vocabulary, name, *pipeline);
      break;
    case TokenizerKind::kSentencePieceBpe:
    case TokenizerKind::kUnigram:
      build_sentence_piece(vocabulary, name, *pipeline);
      break;
    case TokenizerKind::kWordPiece:
      build_word_piece(vocabulary, name, *pipeline);
      break;
  }
  pipeline->added = AddedTokens(added_tokens(vocabulary), {}, name);
  pipeline->templates = {around(vocabulary, name)};
  pipeline->special = vocabulary.special;
  return Tokenizer(std::move(pipeline));
}

std::vector<std::string> from_gguf_word_pieces(std::vector<std::string> tokens) {
  for (std::string& token : tokens) {
    if (token.starts_with(kSpaceMark)) {
      token.erase(0, kSpaceMark.size());
    } else if (!(token.starts_with('[') && token.ends_with(']'))) {
      token.insert(0, "##");
    }
  }
  return tokens;
}

}  // namespace detent
