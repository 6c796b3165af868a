#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Norms after each part and of each head's query and key. Where some layers have windows, the others do not
/// turn.
LanguageConfig read_exaone4(const ConfigReader& json) {
  constexpr int64_t kEvery = 4;
  LanguageConfig config = common_config(json, "exaone4", false);
  read_sizes(json, config);
  config.norm_place = NormPlace::kAfterPart;
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  config.qk_norm = true;
  config.rotary = config.window_rotary = read_rotary(json, config);
  config.window = json.integer("sliding_window", 0);
  if (config.window == 0) return config;
  const bool is_listed = json.has("layer_types");
  const int64_t every = is_listed ? kEvery : json.integer("sliding_window_pattern", kEvery);
  if (every < 1) json.refuse("sliding_window_pattern", "expected at least 1");
  config.has_window = read_windows(json, config.layers, all_but_each(config.layers, every));
  config.turns = config.has_window;
  return config;
}

}  // namespace

LanguageFamily exaone4_family() {
  return {.name = "exaone4",
          .model_types = {"exaone4"},
          .help = "EXAONE 4.0",
          .config = read_exaone4,
          .weights = behind_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
