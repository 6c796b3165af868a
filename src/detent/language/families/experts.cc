#include <algorithm>
#include <array>

#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// How many experts there are, and how many each token uses.
void read_expert_counts(const ConfigReader& json, LanguageConfig& config, const char* count) {
  config.experts.count = json.integer(count, json.integer("num_local_experts", 0));
  if (config.experts.count < 1) json.refuse(count, "expected at least 1");
  config.experts.used = json.integer("num_experts_per_tok");
  config.experts.intermediate = config.intermediate;
}

/// Every so many layers have experts, but for those that `mlp_only_layers` names.
std::vector<bool> layers_with_experts(const ConfigReader& json, int64_t layers) {
  const int64_t every = json.integer("decoder_sparse_step", 1);
  if (every < 1) json.refuse("decoder_sparse_step", "expected at least 1");
  const std::vector<int64_t> without = json.integers("mlp_only_layers");
  std::vector<bool> with;
  for (int64_t layer = 0; layer < layers; ++layer)
    with.push_back((layer + 1) % every == 0 && std::ranges::find(without, layer) == without.end());
  return with;
}

/// As Mistral, with experts in each layer.
LanguageConfig read_mixtral(const ConfigReader& json) {
  constexpr double kMixtralTheta = 1e6;
  LanguageConfig config = common_config(json, "mixtral", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  config.window = json.integer("sliding_window", 0);
  config.rotary = config.window_rotary = read_rotary(json, config, "", kMixtralTheta);
  read_expert_counts(json, config, "num_local_experts");
  return config;
}

/// Keys of experts, beside those of the family without.
LanguageConfig read_qwen_experts(const ConfigReader& json, LanguageConfig config, const std::string& family) {
  config.family = family;
  read_expert_counts(json, config, "num_experts");
  config.experts.intermediate = json.integer("moe_intermediate_size");
  config.experts.normalized = json.boolean("norm_topk_prob", false);
  config.experts.layers = layers_with_experts(json, config.layers);
  return config;
}

/// As Qwen 2, with an expert that takes all tokens.
LanguageConfig read_qwen2_moe(const ConfigReader& json) {
  LanguageConfig config = read_qwen_experts(json, read_qwen2(json), "qwen2_moe");
  config.qkv_bias = json.boolean("qkv_bias", true);
  config.experts.shared = json.integer("shared_expert_intermediate_size");
  config.experts.shared_gate = true;
  return config;
}

LanguageConfig read_qwen3_moe(const ConfigReader& json) {
  LanguageConfig config = read_qwen_experts(json, read_qwen3(json), "qwen3_moe");
  config.has_window = {};  // none or all, whatever max_window_layers says
  if (json.has("head_dim")) return config;
  config.head_size = config.hidden / config.heads;
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

/// Norms before, and of all queries and keys together.
LanguageConfig read_olmoe(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "olmoe", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.qk_norm_of_all = true;
  config.qkv_limit = json.optional_number("clip_qkv");
  config.rotary = config.window_rotary = read_rotary(json, config);
  read_expert_counts(json, config, "num_experts");
  config.experts.normalized = json.boolean("norm_topk_prob", false);
  return config;
}

/// As Granite; the weights of all experts are one tensor.
LanguageConfig read_granite_moe(const ConfigReader& json) {
  LanguageConfig config = read_granite(json);
  config.family = "granitemoe";
  config.perceptron_bias = false;
  read_expert_counts(json, config, "num_local_experts");
  config.experts.shared = json.integer("shared_intermediate_size", 0);
  return config;
}

/// Names without experts, and those of experts that have three layers each.
std::vector<StoredName> expert_weights(std::vector<StoredName> rules, const std::string& place,
                                       const std::array<const char*, 3>& names) {
  const std::string expert = place + ".experts.{}.";
  rules.push_back({"layers.{}.experts.router", place + ".gate"});
  rules.push_back({"layers.{}.experts.{}.gate", expert + names[0]});
  rules.push_back({"layers.{}.experts.{}.up", expert + names[1]});
  rules.push_back({"layers.{}.experts.{}.down", expert + names[2]});
  return rules;
}

std::vector<StoredName> mixtral_weights() {
  return expert_weights(llama_weights(), "model.layers.{}.block_sparse_moe", {"w1", "w3", "w2"});
}

std::vector<StoredName> qwen3_moe_weights() {
  return expert_weights(qwen3_weights(), "model.layers.{}.mlp", {"gate_proj", "up_proj", "down_proj"});
}

std::vector<StoredName> qwen2_moe_weights() {
  const std::string place = "model.layers.{}.mlp";
  std::vector<StoredName> rules =
      expert_weights(llama_weights(), place, {"gate_proj", "up_proj", "down_proj"});
  rules.push_back({"layers.{}.experts.shared_router", place + ".shared_expert_gate"});
  rules.push_back({"layers.{}.experts.shared.gate", place + ".shared_expert.gate_proj"});
  rules.push_back({"layers.{}.experts.shared.up", place + ".shared_expert.up_proj"});
  rules.push_back({"layers.{}.experts.shared.down", place + ".shared_expert.down_proj"});
  return rules;
}

std::vector<StoredName> granite_moe_weights() {
  const std::string place = "model.layers.{}.block_sparse_moe.";
  std::vector<StoredName> rules = llama_weights();
  rules.push_back({"layers.{}.experts.router", place + "router.layer"});
  rules.push_back({"layers.{}.experts.{}.gate", place + "input_linear.{}", WeightPart::kGate});
  rules.push_back({"layers.{}.experts.{}.up", place + "input_linear.{}", WeightPart::kUp});
  rules.push_back({"layers.{}.experts.{}.down", place + "output_linear.{}"});
  const std::string shared = "model.layers.{}.shared_mlp.";
  rules.push_back({"layers.{}.experts.shared.gate", shared + "input_linear", WeightPart::kGate});
  rules.push_back({"layers.{}.experts.shared.up", shared + "input_linear", WeightPart::kUp});
  rules.push_back({"layers.{}.experts.shared.down", shared + "output_linear"});
  return rules;
}

}  // namespace

LanguageFamily mixtral_family() {
  return {.name = "mixtral",
          .model_types = {"mixtral"},
          .help = "Mixtral",
          .config = read_mixtral,
          .weights = mixtral_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily qwen2_moe_family() {
  return {.name = "qwen2_moe",
          .model_types = {"qwen2_moe"},
          .help = "Qwen 1.5 and 2 with experts",
          .config = read_qwen2_moe,
          .weights = qwen2_moe_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily qwen3_moe_family() {
  return {.name = "qwen3_moe",
          .model_types = {"qwen3_moe"},
          .help = "Qwen 3 with experts",
          .config = read_qwen3_moe,
          .weights = qwen3_moe_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily olmoe_family() {
  return {.name = "olmoe",
          .model_types = {"olmoe"},
          .help = "OLMoE",
          .config = read_olmoe,
          .weights = qwen3_moe_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily granitemoe_family() {
  return {.name = "granitemoe",
          .model_types = {"granitemoe", "granitemoeshared"},
          .help = "Granite 3 with experts",
          .config = read_granite_moe,
          .weights = granite_moe_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
