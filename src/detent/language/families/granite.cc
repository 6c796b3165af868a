#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
/// As Llama, with multipliers of the embedding, of what each part adds, of scores and of logits.
LanguageConfig read_granite(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "granite", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  config.embedding_scale = json.number("embedding_multiplier", 1);
  config.residual_scale = json.number("residual_multiplier", 1);
  config.attention_scale = json.number("attention_multiplier", 1);
  config.logit_scale = 1 / json.number("logits_scaling", 1);
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

LanguageFamily granite_family() {
  return {.name = "granite",
          .model_types = {"granite"},
          .help = "Granite 3 of text, without experts",
          .config = read_granite,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
