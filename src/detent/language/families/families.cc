#include "detent/language/families/families.h"

#include <algorithm>

#include "detent/core/error.h"

namespace detent {

std::span<const LanguageFamily> all_language_families() {
  static const std::vector<LanguageFamily> kFamilies = {
      bert_family(), distilbert_family(), gemma3_family(), gpt2_family(),  llama_family(),  mistral_family(),
      opt_family(),  phi3_family(),       qwen2_family(),  qwen3_family(), roberta_family()};
  return kFamilies;
}

const LanguageFamily& find_language_family(const std::string& name) {
  std::vector<std::string> names;
  for (const LanguageFamily& family : all_language_families()) {
    if (family.name == name) return family;
    names.push_back(family.name);
  }
  fail("{}", unknown_name_message("family of language models", name, names));
}

const LanguageFamily* family_of_model_type(const std::string& model_type) {
  for (const LanguageFamily& family : all_language_families()) {
    if (std::ranges::find(family.model_types, model_type) != family.model_types.end()) return &family;
  }
  return nullptr;
}

}  // namespace detent
