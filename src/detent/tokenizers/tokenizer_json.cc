#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "detent/core/error.h"
#include "detent/files/json.h"
#include "detent/tokenizers/json_object.h"
#include "detent/tokenizers/tokenizer_pipeline.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

TokenTable read_vocabulary(const JsonObject& model, const std::string& name) {
  TokenTable tokens;
  const JsonObject vocabulary = model.object("vocab");
  for (const TableEntry& entry : vocabulary.table()) {
    const auto* id = entry.value.get_if<int64_t>();
    if (id == nullptr)
      fail("{}: token \"{}\" has {} for an id", vocabulary.name(), entry.key, value_text(entry.value));
    tokens.add(entry.key, *id, name);
  }
  return tokens;
}

/// The two texts of "Ġ t" or ["Ġ", "t"].
std::pair<std::string, std::string> merge_pair(const Value& value, const std::string& name) {
  if (const auto* pair = value.get_if<List>()) {
    if (pair->size() == 2) {
      const auto left = json_string((*pair)[0]);
      const auto right = json_string((*pair)[1]);
      if (left && right) return {*left, *right};
    }
  } else if (const auto text = json_string(value)) {
    const size_t space = text->find(' ');
    if (space != std::string::npos && text->find(' ', space + 1) == std::string::npos)
      return {text->substr(0, space), text->substr(space + 1)};
  }
  fail("{}: a merge of two tokens expected, not {}", name, value_text(value));
}

std::vector<BpeMerge> read_merges(const JsonObject& model, const TokenTable& tokens,
                                  const BpeOptions& options) {
  std::vector<BpeMerge> merges;
  const std::string name = model.at("merges");
  const auto id = [&](const std::string& token) {
    const auto found = tokens.find(token);
    if (!found) fail("{}: \"{}\" is not in the vocabulary", name, token);
    return *found;
  };
  const List& list = model.list("merges");
  merges.reserve(list.size());
  for (const Value& value : list) {
    const auto [left, right] = merge_pair(value, name);
    if (!right.starts_with(options.continuing_prefix))
      fail("{}: \"{}\" does not begin with \"{}\"", name, right, options.continuing_prefix);
    const std::string merged = left + right.substr(options.continuing_prefix.size());
    merges.push_back({id(left), id(right), id(merged), static_cast<uint32_t>(merges.size())});
  }
  return merges;
}

std::unique_ptr<SubwordModel> read_bpe(const JsonObject& model, const std::string& name) {
  const Value* dropout = model.find("dropout");
  double scratch = 0;
  const double* rate = dropout == nullptr ? nullptr : dropout->number(scratch);
  if (dropout != nullptr && (rate == nullptr || *rate != 0))
    fail("{}: dropout is not supported: the same text would get other tokens each time", model.at("dropout"));
  BpeOptions options;
  if (model.find("unk_token") != nullptr) options.unknown = model.text("unk_token");
  options.continuing_prefix = model.text_or("continuing_subword_prefix", "");
  options.end_of_word_suffix = model.text_or("end_of_word_suffix", "");
  options.fuse_unknown = model.boolean("fuse_unk", false);
  options.byte_fallback = model.boolean("byte_fallback", false);
  options.ignore_merges = model.boolean("ignore_merges", false);
  TokenTable tokens = read_vocabulary(model, name);
  const std::vector<BpeMerge> merges = read_merges(model, tokens, options);
  return make_bpe(std::move(tokens), merges, std::move(options));
}

/// The score as Hugging Face's library reads it: the digits as one integer, divided or multiplied by one
/// power of ten. That may be the neighbour of the nearest float, and so decide between ways that are as
/// likely.
double score_of_digits(double score) {
  constexpr int kMostPower = 22;  // 10^22 is the last that a double holds
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), score, std::chars_format::scientific).ptr;
  const std::string_view whole(text.data(), static_cast<size_t>(end - text.data()));
  const size_t mark = whole.find('e');
  if (mark == std::string_view::npos) return score;
  int places = 0;
  uint64_t digits = 0;
  bool after_point = false;
  for (const char character : whole.substr(0, mark)) {
    if (character == '.') after_point = true;
    if (character < '0' || character > '9') continue;
    digits = digits * 10 + static_cast<uint64_t>(character - '0');
    if (after_point) ++places;
  }
  const auto significand = static_cast<double>(digits);
  const int power = std::atoi(std::string(whole.substr(mark + 1)).c_str()) - places;
  if (power > kMostPower || power < -kMostPower) return score;
  const double scaled =
      power < 0 ? significand / std::pow(10.0, -power) : significand * std::pow(10.0, power);
  return std::copysign(scaled, score);
}

std::unique_ptr<SubwordModel> read_unigram(const JsonObject& model, const std::string& name) {
  std::vector<std::pair<std::string, double>> pieces;
  for (const Value& value : model.list("vocab")) {
    const auto* pair = value.get_if<List>();
    double scratch = 0;
    const auto piece = pair != nullptr && pair->size() == 2 ? json_string((*pair)[0]) : std::nullopt;
    const double* score = piece ? (*pair)[1].number(scratch) : nullptr;
    if (score == nullptr)
      fail("{}: a piece and its score expected, not {}", model.at("vocab"), value_text(value));
    pieces.emplace_back(*piece, score_of_digits(*score));
  }
  UnigramOptions options;
  if (model.find("unk_id") != nullptr) options.unknown = model.integer("unk_id");
  options.byte_fallback = model.boolean("byte_fallback", false);
  return make_unigram(std::move(pieces), std::move(options), name);
}

/// Files of old versions do not name the type.
std::string model_type(const JsonObject& model) {
  if (model.find("type") != nullptr) return model.type();
  if (model.find("merges") != nullptr) return "BPE";
  if (model.find("max_input_chars_per_word") != nullptr) return "WordPiece";
  return model.find("vocab") != nullptr && model.value("vocab").is<List>() ? "Unigram" : "WordLevel";
}

void read_model(const JsonObject& model, const std::string& name, TokenizerPipeline& pipeline) {
  const std::string type = model_type(model);
  if (type == "BPE") {
    pipeline.model = read_bpe(model, name);
    pipeline.kind = model.boolean("byte_fallback", false) ? "SentencePiece BPE" : "BPE";
  } else if (type == "Unigram") {
    pipeline.model = read_unigram(model, name);
    pipeline.kind = "unigram";
  } else if (type == "WordPiece") {
    WordPieceOptions options;
    options.unknown = model.text("unk_token");
    options.continuing_prefix = model.text_or("continuing_subword_prefix", "##");
    options.longest_word = model.integer("max_input_chars_per_word", options.longest_word);
    pipeline.model = make_word_piece(read_vocabulary(model, name), options, name);
    pipeline.kind = "WordPiece";
  } else if (type == "WordLevel") {
    pipeline.model = make_word_level(read_vocabulary(model, name), model.text("unk_token"), name);
    pipeline.kind = "words";
  } else {
    fail("{}: the model \"{}\" is not supported (supported: BPE, Unigram, WordLevel, WordPiece)",
         model.name(), type);
  }
}

std::vector<AddedToken> read_added_tokens(const JsonObject& json, const TokenTable& table) {
  std::vector<AddedToken> tokens;
  if (json.find("added_tokens") == nullptr) return tokens;
  for (const Value& value : json.list("added_tokens")) {
    const JsonObject object(value, json.at("added_tokens"));
    AddedToken token;
    token.content = object.text("content");
    if (token.content.empty()) continue;
    token.id = table.find(token.content).value_or(object.integer("id"));
    if (token.id < 0) fail("{}: the token \"{}\" has id {}", object.name(), token.content, token.id);
    token.special = object.boolean("special", false);
    token.single_word = object.boolean("single_word", false);
    token.left_strip = object.boolean("lstrip", false);
    token.right_strip = object.boolean("rstrip", false);
    token.normalized = object.boolean("normalized", !token.special);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

const Value& value_or_na(const JsonObject& json, std::string_view key) {
  static const Value none;
  const Value* found = json.find(key);
  return found == nullptr ? none : *found;
}

/// Whether an object of this type is anywhere below.
bool names_type(const Value& value, std::string_view type) {
  if (const auto* list = value.get_if<List>())
    return std::ranges::any_of(*list, [&](const Value& entry) { return names_type(entry, type); });
  const auto* table = value.get_if<Table>();
  if (table == nullptr) return false;
  return std::ranges::any_of(*table, [&](const TableEntry& entry) {
    const auto* text = entry.value.get_if<std::string>();
    return (entry.key == "type" && text != nullptr && *text == type) || names_type(entry.value, type);
  });
}

}  // namespace

TokenizerPipeline read_pipeline(const Value& value, const std::string& name) {
  const JsonObject json(value, name);
  TokenizerPipeline pipeline;
  read_model(json.object("model"), name, pipeline);
  pipeline.normalizer = make_normalizer(value_or_na(json, "normalizer"), json.at("normalizer"));
  pipeline.pre_tokenizer = make_pre_tokenizer(value_or_na(json, "pre_tokenizer"), json.at("pre_tokenizer"));
  pipeline.templates = make_templates(value_or_na(json, "post_processor"), json.at("post_processor"));
  pipeline.decoder = make_token_decoder(value_or_na(json, "decoder"), json.at("decoder"));
  pipeline.added = AddedTokens(read_added_tokens(json, pipeline.model->tokens()), pipeline.normalizer, name);
  pipeline.special.unknown = pipeline.model->unknown();
  const bool in_bytes = names_type(value_or_na(json, "pre_tokenizer"), "ByteLevel") ||
                        names_type(value_or_na(json, "normalizer"), "ByteLevel");
  if (in_bytes) pipeline.kind = "byte-level " + pipeline.kind;
  return pipeline;
}

Tokenizer parse_tokenizer_json(std::string_view text, const std::string& name) {
  if (!is_valid_utf8(text)) fail("{}: not valid UTF-8", name);
  return Tokenizer(std::make_shared<const TokenizerPipeline>(read_pipeline(parse_json(text, name), name)));
}

}  // namespace detent
