#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// One layer norm before attention and the perceptron beside it; a part of each head turns; biases
/// everywhere.
LanguageConfig read_phi(const ConfigReader& json) {
  constexpr double kShare = 0.5;
  LanguageConfig config = common_config(json, "phi", false);
  read_sizes(json, config);
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("layer_norm_eps", 1e-5);
  config.perceptron = PerceptronKind::kPlain;
  config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  config.activation = json.activation("hidden_act", "gelu_new");
  config.qkv_bias = config.output_bias = config.perceptron_bias = config.head_bias = true;
  config.qk_norm = json.boolean("qk_layernorm", false);
  config.rotary = config.window_rotary = read_rotary(json, config, "", 10000, kShare);
  return config;
}

std::vector<StoredName> phi_weights() {
  const std::string layer = "model.layers.{}.";
  return {{"embed_tokens", "model.embed_tokens"},
          {"layers.{}.attention_norm", layer + "input_layernorm"},
          {"layers.{}.attention.query", layer + "self_attn.q_proj"},
          {"layers.{}.attention.key", layer + "self_attn.k_proj"},
          {"layers.{}.attention.value", layer + "self_attn.v_proj"},
          {"layers.{}.attention.output", layer + "self_attn.dense"},
          {"layers.{}.attention.query_norm", layer + "self_attn.q_layernorm"},
          {"layers.{}.attention.key_norm", layer + "self_attn.k_layernorm"},
          {"layers.{}.perceptron.up", layer + "mlp.fc1"},
          {"layers.{}.perceptron.down", layer + "mlp.fc2"},
          {"norm", "model.final_layernorm"},
          {"head", "lm_head"}};
}

}  // namespace

LanguageFamily phi_family() {
  return {.name = "phi",
          .model_types = {"phi"},
          .help = "Phi-1, Phi-1.5 and Phi-2",
          .config = read_phi,
          .weights = phi_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
