#include <cmath>

#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

constexpr double kTheta = 1e6;
constexpr double kWindowTheta = 1e4;

/// Frequencies of layers with a window are never stretched.
Rotary read_window_rotary(const ConfigReader& json, const LanguageConfig& config) {
  if (json.has("rope_parameters")) return read_rotary(json, config, "sliding_attention", kWindowTheta);
  return rotary_of({.theta = json.number("rope_local_base_freq", kWindowTheta)}, config.head_size,
                   config.context);
}

/// Norms around, which multiply by 1 + weight; five of six layers have a window and turn faster. Scores have
/// no cap: transformers does not apply "attn_logit_softcapping" in this family, whatever the file says.
LanguageConfig read_gemma3(const ConfigReader& json) {
  constexpr int64_t kHeadSize = 256;
  constexpr int64_t kWindow = 4096;
  constexpr int64_t kPattern = 6;
  LanguageConfig config = common_config(json, "gemma3", true);
  read_sizes(json, config);
  config.head_size = json.integer("head_dim", kHeadSize);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.norm_place = NormPlace::kAround;
  config.norm_adds_one = true;
  config.activation = json.activation("hidden_activation", "gelu_pytorch_tanh");
  config.qk_norm = true;
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  json.expect("use_bidirectional_attention", false);
  config.attention_scale = 1 / std::sqrt(json.number("query_pre_attn_scalar", kHeadSize));
  config.logit_cap = json.optional_number("final_logit_softcapping");
  config.embedding_scale =
      static_cast<double>(static_cast<float>(std::sqrt(static_cast<double>(config.hidden))));
  config.window = json.integer("sliding_window", kWindow);
  const int64_t pattern =
      json.integer("sliding_window_pattern", json.integer("_sliding_window_pattern", kPattern));
  if (pattern < 1) json.refuse("sliding_window_pattern", "expected at least 1");
  config.has_window = read_windows(
      json, config.layers, [](int64_t layer, int64_t every) { return (layer + 1) % every != 0; }, pattern);
  config.rotary = read_rotary(json, config, "full_attention", kTheta);
  config.window_rotary = read_window_rotary(json, config);
  return config;
}

std::vector<StoredName> gemma3_weights() {
  std::vector<StoredName> rules = llama_weights();
  const std::string layer = "model.layers.{}.";
  for (StoredName& rule : rules) {
    if (rule.name == "layers.{}.perceptron_norm") rule.stored = layer + "pre_feedforward_layernorm";
  }
  rules.push_back({"layers.{}.attention_post_norm", layer + "post_attention_layernorm"});
  rules.push_back({"layers.{}.perceptron_post_norm", layer + "post_feedforward_layernorm"});
  rules.push_back({"layers.{}.attention.query_norm", layer + "self_attn.q_norm"});
  rules.push_back({"layers.{}.attention.key_norm", layer + "self_attn.k_norm"});
  return rules;
}

}  // namespace

LanguageFamily gemma3_family() {
  return {.name = "gemma3",
          .model_types = {"gemma3_text"},
          .help = "Gemma 3 of text",
          .config = read_gemma3,
          .weights = gemma3_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
