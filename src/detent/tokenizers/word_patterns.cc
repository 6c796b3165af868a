#include "detent/tokenizers/vocabulary.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

/// Patterns, one after another; those with `isolates_digits` cut digits apart first.
struct Family {
  std::string_view name;
  std::string_view pattern;  // empty: GPT-2's
  bool isolates_digits = false;
  bool composes = false;  // NFC
  bool ignore_merges = false;
};

constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr auto kFamilies = std::to_array<Family>({
    {"default", ""},
    {"gpt-2", ""},
    {"phi-2", ""},
    {"mpt", "", false, true},
    {"olmo", "", false, true},
    {"roberta-bpe", ""},
    {"smollm", "", true},
    {"starcoder", "", true},
    {"refact", "", true},
    {"codeshell", "", true},
    {"command-r", "", true, true},
    {"llama-bpe", kLlama3, false, false, true},
    {"llama3", kLlama3, false, false, true},
    {"falcon3", kLlama3, false, false, true},
    {"qwen2", kQwen2, false, true},
    {"deepseek-r1-qwen", kQwen2, false, true},
    {"stablelm2", kQwen2},
    {"tekken", kTekken, false, false, true},
    {"gpt-4o", kGpt4o},
});

PreTokenizer pre_tokenizer_of(const Family& family) {
  std::vector<PreTokenizer> steps;
  if (family.isolates_digits)
    steps.push_back(
        split_by_pattern(std::make_shared<const Pattern>(Pattern(R"(\p{N})")), Delimiter::kIsolated, false));
  if (family.pattern.empty()) {
    steps.push_back(byte_level(false, gpt2_pattern()));
  } else {
    steps.push_back(split_by_pattern(std::make_shared<const Pattern>(Pattern(family.pattern)),
                                     Delimiter::kIsolated, false));
    steps.push_back(byte_level(false, nullptr));
  }
  return in_sequence(std::move(steps));
}

}  // namespace

WordRules word_rules(std::string_view pre_tokenizer, const std::string& name) {
  const auto* const family = std::ranges::find(kFamilies, pre_tokenizer, &Family::name);
  if (family == kFamilies.end()) {
    std::vector<std::string_view> names;
    for (const Family& known : kFamilies) names.push_back(known.name);
    fail("{}: the pre-tokenizer \"{}\" is not supported (supported: {})", name, pre_tokenizer,
         fmt::join(names, ", "));
  }
  WordRules rules;
  rules.pre_tokenizer = pre_tokenizer_of(*family);
  rules.ignore_merges = family->ignore_merges;
  if (family->composes)
    rules.normalizer = [](NormalizedText& text) { text.text = normalized(text.text, NormalForm::kNfc); };
  return rules;
}

}  // namespace detent
