#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Layer norms, the perceptron beside attention, a part of each head turns.
LanguageConfig read_gpt_neox(const ConfigReader& json) {
  constexpr double kShare = 0.25;
  LanguageConfig config = common_config(json, "gpt_neox", false);
  read_sizes(json, config);
  config.kv_heads = config.heads;
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("layer_norm_eps", 1e-5);
  config.perceptron = PerceptronKind::kPlain;
  if (json.boolean("use_parallel_residual", true)) config.perceptron_place = PerceptronPlace::kBeside;
  config.activation = json.activation("hidden_act", "gelu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", true);
  config.perceptron_bias = true;
  const double theta = json.number("rotary_emb_base", 10000);
  config.rotary = config.window_rotary =
      read_rotary(json, config, "", theta, json.number("rotary_pct", kShare));
  return config;
}

std::vector<StoredName> gpt_neox_weights() {
  const std::string layer = "gpt_neox.layers.{}.";
  const std::string qkv = layer + "attention.query_key_value";
  return {{"embed_tokens", "gpt_neox.embed_in"},
          {"layers.{}.attention_norm", layer + "input_layernorm"},
          {"layers.{}.attention.query", qkv, WeightPart::kQueryOfHeads},
          {"layers.{}.attention.key", qkv, WeightPart::kKeyOfHeads},
          {"layers.{}.attention.value", qkv, WeightPart::kValueOfHeads},
          {"layers.{}.attention.output", layer + "attention.dense"},
          {"layers.{}.perceptron_norm", layer + "post_attention_layernorm"},
          {"layers.{}.perceptron.up", layer + "mlp.dense_h_to_4h"},
          {"layers.{}.perceptron.down", layer + "mlp.dense_4h_to_h"},
          {"norm", "gpt_neox.final_layer_norm"},
          {"head", "embed_out"}};
}

}  // namespace

LanguageFamily gpt_neox_family() {
  return {.name = "gpt_neox",
          .model_types = {"gpt_neox"},
          .help = "GPT-NeoX and Pythia",
          .config = read_gpt_neox,
          .weights = gpt_neox_weights,
          .ignored = {"rotary_emb", ".attention.bias", ".attention.masked_bias"}};
}

}  // namespace detent
