#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Layer norms before, heads that turn, a plain perceptron with biases.
LanguageConfig read_starcoder2(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "starcoder2", true);
  read_sizes(json, config);
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("norm_epsilon", 1e-5);
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("hidden_act", "gelu_pytorch_tanh");
  config.qkv_bias = config.output_bias = config.perceptron_bias = json.boolean("use_bias", true);
  config.window = json.integer("sliding_window", 0);
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

std::vector<StoredName> starcoder2_weights() {
  std::vector<StoredName> rules = llama_weights();
  std::erase_if(rules, [](const StoredName& rule) { return rule.name == "layers.{}.perceptron.gate"; });
  for (StoredName& rule : rules) {
    if (rule.name == "layers.{}.perceptron.up") rule.stored = "model.layers.{}.mlp.c_fc";
    if (rule.name == "layers.{}.perceptron.down") rule.stored = "model.layers.{}.mlp.c_proj";
  }
  return rules;
}

}  // namespace

LanguageFamily starcoder2_family() {
  return {.name = "starcoder2",
          .model_types = {"starcoder2"},
          .help = "StarCoder 2",
          .config = read_starcoder2,
          .weights = starcoder2_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
