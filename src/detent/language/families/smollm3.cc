#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// A list of 0 and 1, or all but each so many.
std::vector<bool> read_turns(const ConfigReader& json, int64_t layers, int64_t every) {
  if (every < 1) json.refuse("no_rope_layer_interval", "expected at least 1");
  const std::vector<int64_t> flags = json.integers("no_rope_layers");
  if (flags.empty()) return all_but_each(layers, every);
  return {flags.begin(), flags.end()};
}

/// As Llama; one layer in four does not turn.
LanguageConfig read_smollm3(const ConfigReader& json) {
  constexpr int64_t kEvery = 4;
  LanguageConfig config = common_config(json, "smollm3", true);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  config.turns = read_turns(json, config.layers, json.integer("no_rope_layer_interval", kEvery));
  if (json.has("sliding_window")) {
    std::vector<bool> windows = config.turns;
    windows.flip();
    if (!json.boolean("use_sliding_window", false)) windows.assign(windows.size(), false);
    config.window = json.integer("sliding_window");
    config.has_window = read_windows(json, config.layers, windows);
  }
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

}  // namespace

LanguageFamily smollm3_family() {
  return {.name = "smollm3",
          .model_types = {"smollm3"},
          .help = "SmolLM3",
          .config = read_smollm3,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
