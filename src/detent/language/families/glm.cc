#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As Llama; half of each head turns, in pairs of neighbours, gate and up are one tensor. GLM 4 of 2025 has
/// norms around each part.
LanguageConfig read_glm(const ConfigReader& json) {
  constexpr double kShare = 0.5;
  constexpr double kEps = 1.5625e-7;
  constexpr int64_t kHeadSize = 128;
  constexpr int64_t kKeyHeads = 2;
  LanguageConfig config = common_config(json, "glm", false);
  read_sizes(json, config);
  config.kv_heads = json.integer("num_key_value_heads", kKeyHeads);
  config.head_size = json.integer("head_dim", kHeadSize);
  config.norm_eps = json.number("rms_norm_eps", kEps);
  if (json.text("model_type", "") == "glm4") config.norm_place = NormPlace::kAround;
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = json.boolean("attention_bias", true);
  config.turns_neighbours = true;
  config.rotary = config.window_rotary = read_rotary(json, config, "", 10000, kShare);
  return config;
}

std::vector<StoredName> glm_weights() {
  const std::string layer = "model.layers.{}.";
  std::vector<StoredName> rules = llama_weights();
  for (StoredName& rule : rules) {
    const bool is_gate = rule.name == "layers.{}.perceptron.gate";
    if (!is_gate && rule.name != "layers.{}.perceptron.up") continue;
    rule.stored = layer + "mlp.gate_up_proj";
    rule.part = is_gate ? WeightPart::kGate : WeightPart::kUp;
  }
  rules.push_back({"layers.{}.attention_post_norm", layer + "post_self_attn_layernorm"});
  rules.push_back({"layers.{}.perceptron_post_norm", layer + "post_mlp_layernorm"});
  return rules;
}

}  // namespace

LanguageFamily glm_family() {
  return {.name = "glm",
          .model_types = {"glm", "glm4"},
          .help = "GLM 4 of text",
          .config = read_glm,
          .weights = glm_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
