#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

constexpr double kTheta = 1e6;
constexpr double kWindowTheta = 1e4;

/// Frequencies of layers with a window are never stretched.
Rotary read_window_rotary(const ConfigReader& json, const LanguageConfig& config) {
  if (json.has("rope_parameters")) return read_rotary(json, config, "sliding_attention", kWindowTheta);
  return rotary_of({.theta = json.number("rope_local_base_freq", kWindowTheta)}, config.head_size,
                   config.context);
}

/// As Gemma 2, with norms of heads; five of six layers have a window and turn faster. Scores have no cap:
/// transformers does not apply "attn_logit_softcapping" in this family, whatever the file says.
LanguageConfig read_gemma3(const ConfigReader& json, const std::string& family) {
  constexpr int64_t kPattern = 6;
  LanguageConfig config = common_gemma(json, family);
  const int64_t pattern =
      json.integer("sliding_window_pattern", json.integer("_sliding_window_pattern", kPattern));
  if (pattern < 1) json.refuse("sliding_window_pattern", "expected at least 1");
  read_gemma_windows(json, config, pattern);
  config.qk_norm = true;
  config.logit_cap = json.optional_number("final_logit_softcapping");
  config.rotary = read_rotary(json, config, "full_attention", kTheta);
  config.window_rotary = read_window_rotary(json, config);
  return config;
}

/// The text part of a network that takes images too. The files leave out what is as in the one of 4B.
LanguageConfig read_gemma3_of_images(const ConfigReader& json) {
  const auto given = json.table("text_config");
  if (!given) fail("{}: there is no key \"text_config\"", json.where());
  const Table text = given->completed({{"vocab_size", 262208},
                                       {"num_attention_heads", 8},
                                       {"num_key_value_heads", 4},
                                       {"max_position_embeddings", 131072}});
  LanguageConfig config = read_gemma3(ConfigReader(text, given->where()), "gemma3_of_images");
  if (json.has("eos_token_id")) config.eos = json.integers("eos_token_id");
  return config;
}

std::vector<StoredName> gemma3_weights() {
  std::vector<StoredName> rules = around_weights();
  rules.push_back({"layers.{}.attention.query_norm", "model.layers.{}.self_attn.q_norm"});
  rules.push_back({"layers.{}.attention.key_norm", "model.layers.{}.self_attn.k_norm"});
  return rules;
}

std::vector<StoredName> gemma3_weights_of_images() {
  std::vector<StoredName> rules = gemma3_weights();
  for (StoredName& rule : rules) rule.stored.insert(0, "language_model.");
  return rules;
}

}  // namespace

LanguageFamily gemma3_family() {
  return {.name = "gemma3",
          .model_types = {"gemma3_text"},
          .help = "Gemma 3 of text",
          .config = [](const ConfigReader& json) { return read_gemma3(json, "gemma3"); },
          .weights = gemma3_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily gemma3_of_images_family() {
  return {.name = "gemma3_of_images",
          .model_types = {"gemma3"},
          .help = "Gemma 3 of text and images, the part of text",
          .config = read_gemma3_of_images,
          .weights = gemma3_weights_of_images,
          .ignored = {"rotary_emb", "vision_tower.", "multi_modal_projector."}};
}

}  // namespace detent
