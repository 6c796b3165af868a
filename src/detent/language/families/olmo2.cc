#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As Llama; layer norms multiply and add nothing, queries, keys and values may have a limit.
LanguageConfig read_olmo(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "olmo", false);
  read_sizes(json, config);
  config.norm = NormKind::kLayerNorm;
  config.norm_weight = config.norm_bias = false;
  config.norm_eps = 1e-5;
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.qkv_limit = json.optional_number("clip_qkv");
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

/// Norms after each part, before it is added, and of all queries and keys together. OLMo 3 has windows in
/// three of four layers, whose frequencies are never stretched.
LanguageConfig read_olmo2(const ConfigReader& json) {
  constexpr int64_t kEvery = 4;
  constexpr int64_t kWindow = 4096;
  constexpr double kUsualTheta = 5e5;
  LanguageConfig config = common_config(json, "olmo2", false);
  read_sizes(json, config);
  config.norm_place = NormPlace::kAfterPart;
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.qk_norm_of_all = true;
  const bool has_windows = json.text("model_type", "") == "olmo3";
  const double theta = has_windows ? kUsualTheta : 1e4;
  config.rotary = config.window_rotary = read_rotary(json, config, "full_attention", theta);
  if (!has_windows) return config;
  config.window = json.integer("sliding_window", kWindow);
  config.has_window = read_windows(json, config.layers, all_but_each(config.layers, kEvery));
  config.window_rotary = json.has("rope_parameters") ? read_rotary(json, config, "sliding_attention", theta)
                                                     : rotary_of({.theta = json.number("rope_theta", theta)},
                                                                 config.head_size, config.context);
  return config;
}

}  // namespace

std::vector<StoredName> behind_weights() {
  std::vector<StoredName> rules = llama_weights();
  const std::string layer = "model.layers.{}.";
  std::erase_if(rules, [](const StoredName& rule) { return rule.name.ends_with("_norm"); });
  rules.push_back({"layers.{}.attention_post_norm", layer + "post_attention_layernorm"});
  rules.push_back({"layers.{}.perceptron_post_norm", layer + "post_feedforward_layernorm"});
  rules.push_back({"layers.{}.attention.query_norm", layer + "self_attn.q_norm"});
  rules.push_back({"layers.{}.attention.key_norm", layer + "self_attn.k_norm"});
  return rules;
}

LanguageFamily olmo_family() {
  return {.name = "olmo",
          .model_types = {"olmo"},
          .help = "OLMo 1",
          .config = read_olmo,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily olmo2_family() {
  return {.name = "olmo2",
          .model_types = {"olmo2", "olmo3"},
          .help = "OLMo 2 and 3",
          .config = read_olmo2,
          .weights = behind_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
