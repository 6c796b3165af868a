#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As Llama, and every layer may have a window.
LanguageConfig read_mistral(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "mistral", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.activation = json.activation("hidden_act", "silu");
  config.window = json.integer("sliding_window", 0);
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

}  // namespace

LanguageFamily mistral_family() {
  return {.name = "mistral",
          .model_types = {"mistral"},
          .help = "Mistral, with or without a window",
          .config = read_mistral,
          .weights = llama_weights,
          .ignored = {"rotary_emb.inv_freq"}};
}

}  // namespace detent
