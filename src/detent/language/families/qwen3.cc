#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
/// As Llama, with norms of each head's query and key, and heads of a size of their own.
LanguageConfig read_qwen3(const ConfigReader& json) {
  constexpr int64_t kHeadSize = 128;
  LanguageConfig config = common_config(json, "qwen3", false);
  read_sizes(json, config);
  config.head_size = json.integer("head_dim", kHeadSize);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.activation = json.activation("hidden_act", "silu");
  config.qk_norm = true;
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  read_qwen_windows(json, config);
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

std::vector<StoredName> qwen3_weights() {
  std::vector<StoredName> rules = llama_weights();
  rules.push_back({"layers.{}.attention.query_norm", "model.layers.{}.self_attn.q_norm"});
  rules.push_back({"layers.{}.attention.key_norm", "model.layers.{}.self_attn.k_norm"});
  return rules;
}

LanguageFamily qwen3_family() {
  return {.name = "qwen3",
          .model_types = {"qwen3"},
          .help = "Qwen 3 without experts",
          .config = read_qwen3,
          .weights = qwen3_weights,
          .ignored = {"rotary_emb.inv_freq"}};
}

}  // namespace detent
