#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Norms around, soft caps of scores and logits, a window in every other layer.
LanguageConfig read_gemma2(const ConfigReader& json) {
  LanguageConfig config = common_gemma(json, "gemma2");
  read_gemma_windows(json, config, 2);
  config.score_cap = json.optional_number("attn_logit_softcapping");
  config.logit_cap = json.optional_number("final_logit_softcapping");
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

}  // namespace

LanguageFamily gemma2_family() {
  return {.name = "gemma2",
          .model_types = {"gemma2"},
          .help = "Gemma 2",
          .config = read_gemma2,
          .weights = around_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
