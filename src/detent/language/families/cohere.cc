#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Norms without bias, the perceptron beside attention; pairs of neighbours turn. Layers of Cohere 2 have
/// windows, but for one in four, which does not turn.
LanguageConfig read_cohere(const ConfigReader& json) {
  constexpr int64_t kEvery = 4;
  constexpr int64_t kWindow = 4096;
  constexpr double kTheta = 5e5;
  constexpr double kLogitScale = 0.0625;
  LanguageConfig config = common_config(json, "cohere", true);
  read_sizes(json, config);
  config.norm = NormKind::kLayerNorm;
  config.norm_bias = false;
  config.norm_eps = json.number("layer_norm_eps", 1e-5);
  config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.logit_scale = json.number("logit_scale", kLogitScale);
  config.qk_norm = config.qk_norm_by_head = json.boolean("use_qk_norm", false);
  config.turns_neighbours = true;
  config.rotary = config.window_rotary = read_rotary(json, config, "", kTheta);
  if (json.text("model_type", "") != "cohere2") return config;
  const int64_t every = json.integer("sliding_window_pattern", kEvery);
  if (every < 1) json.refuse("sliding_window_pattern", "expected at least 1");
  config.window = json.integer("sliding_window", kWindow);
  config.has_window = read_windows(json, config.layers, all_but_each(config.layers, every));
  config.turns = config.has_window;
  return config;
}

}  // namespace

LanguageFamily cohere_family() {
  return {.name = "cohere",
          .model_types = {"cohere", "cohere2"},
          .help = "Command R and Command R7B",
          .config = read_cohere,
          .weights = qwen3_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
