#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As Llama, with layer norms, and a quarter of each head turns.
LanguageConfig read_stablelm(const ConfigReader& json) {
  constexpr double kShare = 0.25;
  LanguageConfig config = common_config(json, "stablelm", false);
  read_sizes(json, config);
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("layer_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = json.boolean("use_qkv_bias", false);
  config.qk_norm = config.qk_norm_by_head = json.boolean("qk_layernorm", false);
  if (json.boolean("use_parallel_residual", false)) config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  config.rotary = config.window_rotary = read_rotary(json, config, "", 10000, kShare);
  return config;
}

std::vector<StoredName> stablelm_weights() {
  std::vector<StoredName> rules = llama_weights();
  rules.push_back({"layers.{}.attention.query_norm", "model.layers.{}.self_attn.q_layernorm"});
  rules.push_back({"layers.{}.attention.key_norm", "model.layers.{}.self_attn.k_layernorm"});
  return rules;
}

}  // namespace

LanguageFamily stablelm_family() {
  return {.name = "stablelm",
          .model_types = {"stablelm"},
          .help = "StableLM 2 and 3B",
          .config = read_stablelm,
          .weights = stablelm_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
