#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Masked tokens by the exact GELU, whatever the activation of the layers.
LanguageConfig read_roberta(const ConfigReader& json) {
  LanguageConfig config = read_unpadded_encoder(json, "roberta", json.integer("pad_token_id", 1));
  config.head_activation = Activation::kGelu;
  return config;
}

std::vector<StoredName> roberta_weights() {
  std::vector<StoredName> rules = encoder_weights("roberta.");
  for (StoredName& rule : roberta_head_weights("roberta.")) rules.push_back(std::move(rule));
  return rules;
}

}  // namespace

LanguageConfig read_unpadded_encoder(const ConfigReader& json, const std::string& family, int64_t pad) {
  LanguageConfig config = read_encoder(json, family);
  if (pad < 0 || pad + 1 >= config.positions)
    fail("{}: \"pad_token_id\" is {}, expected a row of the {} positions", json.where(), pad,
         config.positions);
  config.pad = pad;
  config.position_offset = pad + 1;
  config.context = config.positions - config.position_offset;
  config.position_count = PositionCount::kUnpadded;
  return config;
}

LanguageFamily roberta_family() {
  return {.name = "roberta",
          .model_types = {"roberta", "xlm-roberta", "camembert"},
          .help = "RoBERTa, XLM-RoBERTa and CamemBERT, encoders",
          .config = read_roberta,
          .weights = roberta_weights,
          .ignored = encoder_heads(),
          .class_names = {"Roberta", "XLMRoberta", "Camembert"},
          .classes = classes_with_layer};
}

}  // namespace detent
