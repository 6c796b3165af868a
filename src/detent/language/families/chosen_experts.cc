#include <fmt/format.h>

#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

// Families whose routers pick experts by shares with a bias.

/// As Llama, but for its experts.
LanguageConfig read_chosen(const ConfigReader& json, const std::string& family) {
  LanguageConfig config = common_config(json, family, false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  return config;
}

int64_t read_count(const ConfigReader& json, const char* key) {
  const int64_t count = json.integer(key, 0);
  if (count < 0 || count > INT16_MAX) json.refuse(key, fmt::format("expected 0 to {}", INT16_MAX));
  return count;
}

/// A part of each head turns.
LanguageConfig read_glm4_moe(const ConfigReader& json) {
  constexpr double kShare = 0.5;
  LanguageConfig config = read_chosen(json, "glm4_moe");
  read_sigmoid_experts(json, config, {});
  config.qkv_bias = json.boolean("attention_bias", false);
  config.qk_norm = json.boolean("use_qk_norm", false);
  config.rotary = config.window_rotary = read_rotary(json, config, "", 10000, kShare);
  return config;
}

/// Norms of each head's query and key; layers from max_window_layers on have a window.
LanguageConfig read_dots1(const ConfigReader& json) {
  constexpr int64_t kDotsWindow = 4096;
  LanguageConfig config = read_chosen(json, "dots1");
  read_sigmoid_experts(json, config, {.first_layer = 0, .normalized = false});
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
  LanguageConfig config = read_chosen(json, "ernie4_5_moe");
  read_experts(json, config, {"moe_num_experts", "moe_k", "moe_num_shared_experts"});
  config.experts.choice_bias = true;
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
    rules.push_back(
        {fmt::format("layers.{{}}.experts.{{}}.{}", part), fmt::format("{}experts.{{}}{}", place, end)});
    rules.push_back(
        {fmt::format("layers.{{}}.experts.shared.{}", part), fmt::format("{}shared_experts{}", place, end)});
  }
  return rules;
}

}  // namespace

void read_experts(const ConfigReader& json, LanguageConfig& config, const ExpertKeys& keys) {
  Experts& experts = config.experts;
  experts.count = json.integer(keys.count, json.integer("num_local_experts", 0));
  if (experts.count < 1) json.refuse(keys.count, "expected at least 1");
  experts.used = json.integer(keys.used);
  experts.intermediate = json.integer("moe_intermediate_size");
  experts.shared = read_count(json, keys.shared) * experts.intermediate;
}

void read_sparse_layers(const ConfigReader& json, LanguageConfig& config, int64_t first) {
  json.expect("moe_layer_freq", 1);
  config.further_layers = read_count(json, "num_nextn_predict_layers");
  std::vector<bool>& sparse = config.experts.layers;
  if (json.has("mlp_layer_types")) {
    for (const std::string& type : json.texts("mlp_layer_types")) {
      if (type != "dense" && type != "sparse")
        json.refuse("mlp_layer_types", "expected \"dense\" or \"sparse\" for each layer");
      sparse.push_back(type == "sparse");
    }
    return;
  }
  const int64_t begin = json.integer("first_k_dense_replace", first);
  for (int64_t layer = 0; layer < config.layers; ++layer) sparse.push_back(layer >= begin);
}

void read_sigmoid_experts(const ConfigReader& json, LanguageConfig& config, const SigmoidExperts& defaults) {
  json.expect("scoring_func", "sigmoid");
  json.expect("topk_method", "noaux_tc");
  read_experts(json, config, {});
  read_sparse_layers(json, config, defaults.first_layer);
  Experts& experts = config.experts;
  experts.by_sigmoid = experts.choice_bias = true;
  experts.normalized = json.boolean("norm_topk_prob", defaults.normalized);
  experts.scale = json.number("routed_scaling_factor", defaults.scale);
  experts.groups = json.integer("n_group", 1);
  experts.groups_used = json.integer("topk_group", 1);
}

LanguageFamily glm4_moe_family() {
  return {.name = "glm4_moe",
          .model_types = {"glm4_moe"},
          .help = "GLM 4.5 to 4.7 of text",
          .config = read_glm4_moe,
          .weights = [] { return chosen_weights("gate"); },
          .ignored = {"rotary_emb"}};
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
