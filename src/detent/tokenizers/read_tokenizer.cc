#include <algorithm>
#include <array>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/tokenizers/json_object.h"
#include "detent/tokenizers/tokenizer_pipeline.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kLargestFile = uint64_t{1} << 28;

struct Role {
  std::string_view key;
  std::optional<int64_t> SpecialTokens::*id;
};
constexpr auto kRoles = std::to_array<Role>({{"bos_token", &SpecialTokens::begin_of_sequence},
                                             {"eos_token", &SpecialTokens::end_of_sequence},
                                             {"unk_token", &SpecialTokens::unknown},
                                             {"pad_token", &SpecialTokens::padding},
                                             {"sep_token", &SpecialTokens::separator},
                                             {"cls_token", &SpecialTokens::classification},
                                             {"mask_token", &SpecialTokens::mask}});

/// "<s>", or {"content": "<s>", ...}.
std::optional<std::string> token_text(const Value& value) {
  if (const auto* table = value.get_if<Table>()) {
    const Value* content = table->find("content");
    return content == nullptr ? std::nullopt : json_string(*content);
  }
  return json_string(value);
}

/// The roles that a tokenizer_config.json or special_tokens_map.json names.
void read_roles(const Value& json, TokenizerPipeline& pipeline) {
  const auto* table = json.get_if<Table>();
  if (table == nullptr) return;
  for (const Role& role : kRoles) {
    const Value* value = table->find(role.key);
    const auto text = value == nullptr ? std::nullopt : token_text(*value);
    if (!text) continue;
    if (const auto id = find_token(pipeline, *text)) pipeline.special.*role.id = id;
  }
}

/// Integers that 64 bits do not hold as floats: `model_max_length` is 10^30 where there is no limit.
std::string with_long_integers_as_floats(const std::string& text) {
  constexpr size_t kLongest = 18;
  std::string result;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    if (in_text && character == '\\' && i + 1 < text.size()) result += text[i++];
    if (character == '"') in_text = !in_text;
    const size_t end = in_text ? i : std::min(text.find_first_not_of("0123456789", i), text.size());
    const std::string_view rest = std::string_view(text).substr(end);
    if (end <= i) {
      result += text[i];
      continue;
    }
    result.append(text, i, end - i);
    const bool follows_digit = i > 0 && (text[i - 1] == '.' || text[i - 1] == 'e' || text[i - 1] == '+');
    if (end - i > kLongest && !follows_digit && !rest.starts_with('.') && !rest.starts_with('e') &&
        !rest.starts_with('E'))
      result += ".0";
    i = end - 1;
  }
  return result;
}

Value read_if_there(const fs::path& path) {
  if (!fs::exists(path)) return {};
  return parse_json(with_long_integers_as_floats(read_text_file(path, kLargestFile)), path.string());
}

/// The template called "default" of a list of them, or a template that is the only one.
std::optional<std::string> template_text(const Value& value) {
  const auto* list = value.get_if<List>();
  if (list == nullptr) return json_string(value);
  for (const Value& entry : *list) {
    const auto* table = entry.get_if<Table>();
    const Value* name = table == nullptr ? nullptr : table->find("name");
    const Value* text = table == nullptr ? nullptr : table->find("template");
    if (name != nullptr && text != nullptr && json_string(*name) == "default") return json_string(*text);
  }
  return std::nullopt;
}

/// A tokenizer.model beside a tokenizer_config.json that says what it puts around a text.
Tokenizer read_sentencepiece_model(const fs::path& path, const Value& config) {
  const std::string bytes = read_file(path, kLargestFile);
  const std::string name = path.string();
  Vocabulary vocabulary = read_sentencepiece_vocabulary(std::as_bytes(std::span(bytes)), name);
  if (config.is<Table>()) {
    const JsonObject object(config, (path.parent_path() / "tokenizer_config.json").string());
    const std::string tokenizer_class = object.text_or("tokenizer_class", "");
    vocabulary.add_begin_of_sequence = object.boolean("add_bos_token", tokenizer_class.starts_with("Llama"));
    vocabulary.add_end_of_sequence = object.boolean("add_eos_token", tokenizer_class.starts_with("T5"));
  }
  return make_tokenizer(vocabulary, name);
}

Tokenizer read_description(const fs::path& path, const fs::path& folder) {
  const std::string name = path.string();
  const std::string text = read_text_file(path, kLargestFile);
  if (!is_valid_utf8(text)) fail("{}: not valid UTF-8", name);
  auto pipeline = std::make_shared<TokenizerPipeline>(read_pipeline(parse_json(text, name), name));
  read_roles(read_if_there(folder / "special_tokens_map.json"), *pipeline);
  read_roles(read_if_there(folder / "tokenizer_config.json"), *pipeline);
  return Tokenizer(std::move(pipeline));
}

}  // namespace

Tokenizer read_tokenizer(const fs::path& path) {
  const bool is_folder = fs::is_directory(path);
  const fs::path folder = is_folder ? path : path.parent_path();
  const fs::path description = is_folder ? path / "tokenizer.json" : path;
  const fs::path model = is_folder ? path / "tokenizer.model" : path;
  if (is_folder ? fs::exists(description) : path.extension() == ".json")
    return read_description(description, folder);
  if (is_folder && !fs::exists(model))
    fail("{}: has neither tokenizer.json nor tokenizer.model", path.string());
  return read_sentencepiece_model(model, read_if_there(folder / "tokenizer_config.json"));
}

std::optional<std::string> find_chat_template(const fs::path& folder) {
  constexpr const char* kFile = "chat_template.jinja";
  if (fs::exists(folder / kFile)) return read_text_file(folder / kFile, kLargestFile);
  const Value config = read_if_there(folder / "tokenizer_config.json");
  const auto* table = config.get_if<Table>();
  const Value* found = table == nullptr ? nullptr : table->find("chat_template");
  return found == nullptr ? std::nullopt : template_text(*found);
}

}  // namespace detent
