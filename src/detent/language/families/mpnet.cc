#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As RoBERTa without types of tokens, with biases of scores by distance.
LanguageConfig read_mpnet(const ConfigReader& json) {
  constexpr int64_t kPadding = 1;  // whatever the file says
  constexpr int64_t kDistances = 32;
  constexpr int64_t kMostTokens = 1 << 16;  // whose distances are a table
  LanguageConfig config = read_unpadded_encoder(json, "mpnet", kPadding);
  config.token_types = 0;
  config.head_activation = Activation::kGelu;
  config.distances = json.integer("relative_attention_num_buckets", kDistances);
  if (config.distances != kDistances) json.refuse("relative_attention_num_buckets", "expected 32");
  if (config.context > kMostTokens) json.refuse("max_position_embeddings", "expected at most 65536");
  return config;
}

std::vector<StoredName> mpnet_weights() {
  std::vector<StoredName> rules = encoder_weights("mpnet.");
  const std::string layer = "mpnet.encoder.layer.{}.attention.";
  for (StoredName& rule : rules) {
    if (rule.name == "layers.{}.attention.query") rule.stored = layer + "attn.q";
    if (rule.name == "layers.{}.attention.key") rule.stored = layer + "attn.k";
    if (rule.name == "layers.{}.attention.value") rule.stored = layer + "attn.v";
    if (rule.name == "layers.{}.attention.output") rule.stored = layer + "attn.o";
    if (rule.name == "layers.{}.attention_norm") rule.stored = layer + "LayerNorm";
  }
  rules.push_back({"distance_bias", "mpnet.encoder.relative_attention_bias"});
  for (StoredName& rule : roberta_head_weights("mpnet.")) rules.push_back(std::move(rule));
  return rules;
}

}  // namespace

LanguageFamily mpnet_family() {
  return {.name = "mpnet",
          .model_types = {"mpnet"},
          .help = "MPNet, an encoder",
          .config = read_mpnet,
          .weights = mpnet_weights,
          .ignored = encoder_heads(),
          .class_names = {"MPNet"},
          .classes = classes_with_layer};
}

}  // namespace detent
