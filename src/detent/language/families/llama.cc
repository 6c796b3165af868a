#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Llama 2 and 3, SmolLM, TinyLlama: norms before, heads that turn, a gated perceptron.
LanguageConfig read_llama(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "llama", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

}  // namespace

LanguageFamily llama_family() {
  return {.name = "llama",
          .model_types = {"llama"},
          .help = "Llama 2 and 3, SmolLM, TinyLlama",
          .config = read_llama,
          .weights = llama_weights,
          .ignored = {"rotary_emb.inv_freq"}};
}

}  // namespace detent
