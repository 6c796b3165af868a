#include <fmt/format.h>

#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

// Families whose routers pick experts by shares with a bias. Files may have layers after those of the
// network, which predict further tokens.

struct ExpertKeys {
  const char* count;
  const char* used;
  const char* shared;
};

/// As Llama, with experts from some layer on.
LanguageConfig read_chosen(const ConfigReader& json, const std::string& family, const ExpertKeys& keys) {
  LanguageConfig config = common_config(json, family, false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  Experts& experts = config.experts;
  experts.count = json.integer(keys.count, json.integer("num_local_experts", 0));
  if (experts.count < 1) json.refuse(keys.count, "expected at least 1");
  experts.used = json.integer(keys.used);
  experts.intermediate = json.integer("moe_intermediate_size");
  experts.choice_bias = true;
  const int64_t shared = json.integer(keys.shared, 0);
  if (shared < 0 || shared > experts.count) json.refuse(keys.shared, "expected 0 to the number of experts");
  experts.shared = shared * experts.intermediate;
  return config;
}

LanguageConfig read_by_sigmoid(const ConfigReader& json, const std::string& family, bool normalized) {
  LanguageConfig config =
      read_chosen(json, family, {"n_routed_experts", "num_experts_per_tok", "n_shared_experts"});
  Experts& experts = config.experts;
  experts.by_sigmoid = true;
  experts.normalized = json.boolean("norm_topk_prob", normalized);
  experts.scale = json.number("routed_scaling_factor", 1);
  experts.groups = json.integer("n_group", 1);
  experts.groups_used = json.integer("topk_group", 1);
  const int64_t first = json.integer("first_k_dense_replace", normalized ? 1 : 0);
  for (int64_t layer = 0; layer < config.layers; ++layer) experts.layers.push_back(layer >= first);
  return config;
}

/// A part of each head turns.
LanguageConfig read_glm4_moe(const ConfigReader& json) {
  constexpr double kShare = 0.5;
  LanguageConfig config = read_by_sigmoid(json, "glm4_moe", true);
  config.qkv_bias = json.boolean("attention_bias", false);
  config.qk_norm = json.boolean("use_qk_norm", false);
  config.rotary = config.window_rotary = read_rotary(json, config, "", 10000, kShare);
  return config;
}

/// Norms of each head's query and key; layers from max_window_layers on have a window.
LanguageConfig read_dots1(const ConfigReader& json) {
  constexpr int64_t kDotsWindow = 4096;
  LanguageConfig config = read_by_sigmoid(json, "dots1", false);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.qk_norm = true;
  const int64_t first = json.integer("max_window_layers", config.layers);
  std::vector<bool> windows;
  for (int64_t layer = 0; layer < config.layers; ++layer) windows.push_back(layer >= first);
  config.has_window = read_windows(json, config.layers, std::move(windows));
  config.window = json.integer("sliding_window", json.has("layer_types") ? 0 : kDotsWindow);
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

/// Pairs of neighbours turn; shares are softmax.
LanguageConfig read_ernie_moe(const ConfigReader& json) {
  constexpr double kErnieMoeTheta = 5e5;
  LanguageConfig config =
      read_chosen(json, "ernie4_5_moe", {"moe_num_experts", "moe_k", "moe_num_shared_experts"});
  config.tied_head = json.boolean("tie_word_embeddings", true);
  config.qkv_bias = config.output_bias = config.perceptron_bias = config.head_bias =
      json.boolean("use_bias", false);
  constexpr double kLeastSum = 1e-12;
  config.experts.least_sum = json.number("moe_norm_min", kLeastSum);
  const int64_t first = json.integer("moe_layer_start_index", 1);
  const int64_t last = json.integer("moe_layer_end_index", -1);
  const int64_t every = json.integer("moe_layer_interval", 1);
  if (every < 1) json.refuse("moe_layer_interval", "expected at least 1");
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const bool is_within = layer >= first && (last < 0 || layer <= last);
    config.experts.layers.push_back((layer + 1) % every == 0 && is_within);
  }
  config.turns_neighbours = true;
  config.rotary = config.window_rotary = read_rotary(json, config, "", kErnieMoeTheta);
  return config;
}

std::vector<StoredName> chosen_weights(const char* choice) {
  const std::string place = "model.layers.{}.mlp.";
  std::vector<StoredName> rules = qwen3_weights();
  rules.push_back({"layers.{}.experts.router", place + "gate"});
  rules.push_back({"layers.{}.experts.choice", place + choice + ".e_score_correction_bias"});
  for (const char* part : {"gate", "up", "down"}) {
    const std::string end = fmt::format(".{}_proj", part);
    rules.push_back({fmt::format("layers.{{}}.experts.{{}}.{}", part), place + "experts.{}" + end});
    rules.push_back({fmt::format("layers.{{}}.experts.shared.{}", part), place + "shared_experts" + end});
  }
  return rules;
}

}  // namespace

LanguageFamily glm4_moe_family() {
  return {.name = "glm4_moe",
          .model_types = {"glm4_moe"},
          .help = "GLM 4.5 to 4.7 of text",
          .config = read_glm4_moe,
          .weights = [] { return chosen_weights("gate"); },
          .ignored = {"rotary_emb", "model.layers.46.", "model.layers.92."}};
}

LanguageFamily dots1_family() {
  return {.name = "dots1",
          .model_types = {"dots1"},
          .help = "dots.llm1",
          .config = read_dots1,
          .weights = [] { return chosen_weights("gate"); },
          .ignored = {"rotary_emb"}};
}

LanguageFamily ernie4_5_moe_family() {
  return {.name = "ernie4_5_moe",
          .model_types = {"ernie4_5_moe"},
          .help = "ERNIE 4.5 of text with experts",
          .config = read_ernie_moe,
          .weights = [] { return chosen_weights("moe_statics"); },
          .ignored = {"rotary_emb", "mtp_"}};
}

}  // namespace detent
