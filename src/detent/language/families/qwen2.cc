#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
/// As Llama, with biases of queries, keys and values.
LanguageConfig read_qwen2(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "qwen2", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = true;
  read_qwen_windows(json, config);
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

void read_qwen_windows(const ConfigReader& json, LanguageConfig& config) {
  constexpr int64_t kWindow = 4096;
  constexpr int64_t kFirstLayer = 28;
  if (!json.boolean("use_sliding_window", false)) return;
  config.window = json.integer("sliding_window", kWindow);
  const int64_t first = json.integer("max_window_layers", kFirstLayer);
  std::vector<bool> from_first;
  for (int64_t layer = 0; layer < config.layers; ++layer) from_first.push_back(layer >= first);
  config.has_window = read_windows(json, config.layers, std::move(from_first));
}

LanguageFamily qwen2_family() {
  return {.name = "qwen2",
          .model_types = {"qwen2"},
          .help = "Qwen 1.5, 2 and 2.5",
          .config = read_qwen2,
          .weights = llama_weights,
          .ignored = {"rotary_emb.inv_freq"}};
}

}  // namespace detent
