#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As Llama, with queries, keys and values in one tensor, and gate and up in another.
LanguageConfig read_phi3(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "phi3", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  json.expect("attention_bias", false);
  config.window = json.integer("sliding_window", 0);
  config.rotary = config.window_rotary = read_rotary(json, config, "", 10000, 1);
  return config;
}

std::vector<StoredName> phi3_weights() {
  std::vector<StoredName> rules = llama_weights();
  const std::string qkv = "model.layers.{}.self_attn.qkv_proj";
  const std::string gate_up = "model.layers.{}.mlp.gate_up_proj";
  const std::vector<StoredName> parts = {{"layers.{}.attention.query", qkv, WeightPart::kQuery},
                                         {"layers.{}.attention.key", qkv, WeightPart::kKey},
                                         {"layers.{}.attention.value", qkv, WeightPart::kValue},
                                         {"layers.{}.perceptron.gate", gate_up, WeightPart::kGate},
                                         {"layers.{}.perceptron.up", gate_up, WeightPart::kUp}};
  for (StoredName& rule : rules) {
    for (const StoredName& part : parts) {
      if (rule.name == part.name) rule = part;
    }
  }
  return rules;
}

}  // namespace

LanguageFamily phi3_family() {
  return {.name = "phi3",
          .model_types = {"phi3"},
          .help = "Phi-3, Phi-3.5 and Phi-4 mini",
          .config = read_phi3,
          .weights = phi3_weights,
          .ignored = {"rotary_emb.inv_freq"}};
}

}  // namespace detent
