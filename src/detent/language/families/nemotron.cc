#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

constexpr double kTurningShare = 0.5;

/// Layer norms before, plain perceptrons of squared positive values, a part of each head turns.
LanguageConfig read_squared(const ConfigReader& json, const std::string& family, const char* eps) {
  LanguageConfig config = common_config(json, family, false);
  read_sizes(json, config);
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number(eps, 1e-5);
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("hidden_act", "relu2");
  return config;
}

/// Norms multiply by 1 + weight.
LanguageConfig read_nemotron(const ConfigReader& json) {
  LanguageConfig config = read_squared(json, "nemotron", "norm_eps");
  config.norm_adds_one = true;
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  config.rotary = config.window_rotary = read_rotary(json, config, "", 10000, kTurningShare);
  return config;
}

std::vector<StoredName> nemotron_weights() {
  std::vector<StoredName> rules = llama_weights();
  std::erase_if(rules, [](const StoredName& rule) { return rule.name == "layers.{}.perceptron.gate"; });
  return rules;
}

/// Queries, keys and values of each head stand together; queries and keys have norms.
LanguageConfig read_persimmon(const ConfigReader& json) {
  constexpr double kPersimmonTheta = 25000;
  LanguageConfig config = read_squared(json, "persimmon", "layer_norm_eps");
  config.kv_heads = config.heads;
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  config.qk_norm = json.boolean("qk_layernorm", true);
  config.rotary = config.window_rotary = read_rotary(json, config, "", kPersimmonTheta, kTurningShare);
  return config;
}

std::vector<StoredName> persimmon_weights() {
  const std::string layer = "model.layers.{}.";
  const std::string qkv = layer + "self_attn.query_key_value";
  return {{"embed_tokens", "model.embed_tokens"},
          {"layers.{}.attention_norm", layer + "input_layernorm"},
          {"layers.{}.attention.query", qkv, WeightPart::kQueryOfHeads},
          {"layers.{}.attention.key", qkv, WeightPart::kKeyOfHeads},
          {"layers.{}.attention.value", qkv, WeightPart::kValueOfHeads},
          {"layers.{}.attention.query_norm", layer + "self_attn.q_layernorm"},
          {"layers.{}.attention.key_norm", layer + "self_attn.k_layernorm"},
          {"layers.{}.attention.output", layer + "self_attn.dense"},
          {"layers.{}.perceptron_norm", layer + "post_attention_layernorm"},
          {"layers.{}.perceptron.up", layer + "mlp.dense_h_to_4h"},
          {"layers.{}.perceptron.down", layer + "mlp.dense_4h_to_h"},
          {"norm", "model.final_layernorm"},
          {"head", "lm_head"}};
}

}  // namespace

LanguageFamily nemotron_family() {
  return {.name = "nemotron",
          .model_types = {"nemotron"},
          .help = "Nemotron 4, Minitron",
          .config = read_nemotron,
          .weights = nemotron_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily persimmon_family() {
  return {.name = "persimmon",
          .model_types = {"persimmon"},
          .help = "Persimmon",
          .config = read_persimmon,
          .weights = persimmon_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
