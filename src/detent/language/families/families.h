#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

namespace detent {

class ConfigReader;  // families/config_reader.h

/// One family of language models, a file each: what config.json says of it, and what its tensors are called.
struct LanguageFamily {
  std::string name;
  std::vector<std::string> model_types;  // of config.json
  std::string help;
  LanguageConfig (*config)(const ConfigReader& json);
  std::vector<StoredName> (*weights)();
  /// Parts of names of tensors that such files have besides, which the network does not need.
  std::vector<std::string> ignored = {};
};

LanguageFamily bert_family();
LanguageFamily distilbert_family();
LanguageFamily electra_family();
LanguageFamily gemma_family();
LanguageFamily gemma2_family();
LanguageFamily gemma3_family();
LanguageFamily gemma3_of_images_family();
LanguageFamily gpt2_family();
LanguageFamily gpt_neox_family();
LanguageFamily granite_family();
LanguageFamily llama_family();
LanguageFamily mistral_family();
LanguageFamily mpnet_family();
LanguageFamily olmo2_family();
LanguageFamily opt_family();
LanguageFamily phi_family();
LanguageFamily phi3_family();
LanguageFamily qwen2_family();
LanguageFamily qwen3_family();
LanguageFamily roberta_family();
LanguageFamily smollm3_family();
LanguageFamily stablelm_family();
LanguageFamily starcoder2_family();

std::span<const LanguageFamily> all_language_families();
/// Throws Error with the nearest known name.
const LanguageFamily& find_language_family(const std::string& name);
/// By the model_type of a config.json; nullptr where it is unknown.
const LanguageFamily* family_of_model_type(const std::string& model_type);

}  // namespace detent
