#include <cmath>

#include <fmt/format.h>

#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

// Families whose keys and values come out of one short row of each token.

/// Scores are scaled again where YaRN stretches the positions.
double scale_of_scores(const ConfigReader& json, int64_t head_size) {
  const double scale = 1 / std::sqrt(static_cast<double>(head_size));
  const auto given = json.table("rope_parameters");
  const auto table = given ? given : json.table("rope_scaling");
  if (!table || table->text("rope_type", table->text("type", "default")) == "default") return scale;
  const double of_all = table->number("mscale_all_dim", 0);
  if (of_all == 0) return scale;
  const double stretched = yarn_magnitude(table->number("factor"), of_all);
  return scale * stretched * stretched;
}

/// As Llama, but for its heads: `head_dim` of such files is the number of elements that turn.
LanguageConfig read_latent(const ConfigReader& json, const std::string& family, double eps, bool is_tied) {
  constexpr int64_t kMostElements = int64_t{1} << 20;
  LanguageConfig config = common_config(json, family, is_tied);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", eps);
  config.activation = json.activation("hidden_act", "silu");
  LatentAttention& latent = config.latent;
  latent.rank = json.integer("kv_lora_rank");
  latent.query_rank = json.integer("q_lora_rank", 0);
  latent.turning = json.integer("qk_rope_head_dim");
  for (const char* key :
       {"kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"}) {
    if (json.has(key) && (json.integer(key) < 1 || json.integer(key) > kMostElements))
      json.refuse(key, fmt::format("expected 1 to {}", kMostElements));
  }
  latent.bias = config.output_bias = json.boolean("attention_bias", false);
  config.head_size = latent.turning;
  config.rotary = config.window_rotary = read_rotary(json, config);
  config.turns_neighbours = json.boolean("rope_interleave", true);
  config.head_size = latent.turning + json.integer("qk_nope_head_dim");
  config.value_size = json.integer("v_head_dim");
  config.attention_scale = scale_of_scores(json, config.head_size);
  return config;
}

/// Shares are softmax. Of groups the greatest share counts.
LanguageConfig read_deepseek_v2(const ConfigReader& json) {
  LanguageConfig config = read_latent(json, "deepseek_v2", 1e-6, false);
  json.expect("mlp_bias", false);
  json.expect("scoring_func", "softmax");
  json.expect("norm_topk_prob", false);
  config.turns_neighbours = true;
  read_experts(json, config, {});
  read_sparse_layers(json, config, 0);
  config.experts.scale = json.number("routed_scaling_factor", 1);
  Experts& experts = config.experts;
  experts.normalized = false;
  const std::string method = json.text("topk_method", "greedy");
  if (method == "greedy") return config;
  if (method != "group_limited_greedy")
    json.refuse("topk_method", "expected \"greedy\" or \"group_limited_greedy\"");
  experts.groups = json.integer("n_group");
  experts.groups_used = json.integer("topk_group");
  experts.group_shares = 1;
  return config;
}

/// Files that name the size of what turns twice.
void check_head_dim(const ConfigReader& json, const LanguageConfig& config) {
  if (json.integer("head_dim", config.latent.turning) != config.latent.turning)
    json.refuse("head_dim", fmt::format("expected qk_rope_head_dim, {}", config.latent.turning));
}

LanguageConfig read_deepseek_v3(const ConfigReader& json) {
  constexpr int64_t kFirst = 3;
  constexpr double kThirdScale = 2.5;
  LanguageConfig config = read_latent(json, "deepseek_v3", 1e-6, false);
  check_head_dim(json, config);
  read_sigmoid_experts(json, config, {.first_layer = kFirst, .scale = kThirdScale});
  return config;
}

LanguageConfig read_glm4_moe_lite(const ConfigReader& json) {
  LanguageConfig config = read_latent(json, "glm4_moe_lite", 1e-5, false);
  constexpr double kLiteScale = 1.8;
  read_sigmoid_experts(json, config, {.scale = kLiteScale});
  return config;
}

LanguageConfig read_youtu(const ConfigReader& json) {
  LanguageConfig config = read_latent(json, "youtu", 1e-6, true);
  check_head_dim(json, config);
  return config;
}

/// Scaled embeddings, sums and logits; halves of the elements turn.
LanguageConfig read_minicpm3(const ConfigReader& json) {
  constexpr double kMiniEmbedding = 12;
  constexpr double kMiniDepth = 1.4;
  constexpr double kMiniWidth = 256;
  LanguageConfig config = read_latent(json, "minicpm3", 1e-5, true);
  config.turns_neighbours = false;
  config.perceptron_bias = json.boolean("mlp_bias", false);
  config.embedding_scale = json.number("scale_emb", kMiniEmbedding);
  config.residual_scale =
      json.number("scale_depth", kMiniDepth) / std::sqrt(static_cast<double>(config.layers));
  config.logit_scale = json.number("dim_model_base", kMiniWidth) / static_cast<double>(config.hidden);
  return config;
}

std::vector<StoredName> latent_weights() {
  const std::string layer = "model.layers.{}.";
  const std::string attention = layer + "self_attn.";
  std::vector<StoredName> rules = llama_weights();
  std::erase_if(rules, [](const StoredName& rule) {
    return rule.name == "layers.{}.attention.key" || rule.name == "layers.{}.attention.value";
  });
  rules.push_back({"layers.{}.attention.query", attention + "q_b_proj"});
  rules.push_back({"layers.{}.attention.query_latent", attention + "q_a_proj"});
  rules.push_back({"layers.{}.attention.query_latent_norm", attention + "q_a_layernorm"});
  rules.push_back({"layers.{}.attention.latent", attention + "kv_a_proj_with_mqa", WeightPart::kLatent});
  rules.push_back({"layers.{}.attention.latent_norm", attention + "kv_a_layernorm"});
  rules.push_back(
      {"layers.{}.attention.turning_key", attention + "kv_a_proj_with_mqa", WeightPart::kTurningKey});
  rules.push_back({"layers.{}.attention.key", attention + "kv_b_proj", WeightPart::kKeyOfLatent});
  rules.push_back({"layers.{}.attention.value", attention + "kv_b_proj", WeightPart::kValueOfLatent});
  rules.push_back({"layers.{}.experts.router", layer + "mlp.gate"});
  rules.push_back({"layers.{}.experts.choice", layer + "mlp.gate.e_score_correction_bias"});
  for (const char* part : {"gate", "up", "down"}) {
    const std::string end = fmt::format(".{}_proj", part);
    rules.push_back(
        {fmt::format("layers.{{}}.experts.{{}}.{}", part), fmt::format("{}mlp.experts.{{}}{}", layer, end)});
    rules.push_back({fmt::format("layers.{{}}.experts.shared.{}", part),
                     fmt::format("{}mlp.shared_experts{}", layer, end)});
  }
  return rules;
}

}  // namespace

LanguageFamily deepseek_v2_family() {
  return {.name = "deepseek_v2",
          .model_types = {"deepseek_v2"},
          .help = "DeepSeek V2",
          .config = read_deepseek_v2,
          .weights = latent_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily deepseek_v3_family() {
  return {.name = "deepseek_v3",
          .model_types = {"deepseek_v3", "kimi_k2"},
          .help = "DeepSeek V3 and R1, Kimi K2",
          .config = read_deepseek_v3,
          .weights = latent_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily glm4_moe_lite_family() {
  return {.name = "glm4_moe_lite",
          .model_types = {"glm4_moe_lite"},
          .help = "GLM 4.7 Flash",
          .config = read_glm4_moe_lite,
          .weights = latent_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily youtu_family() {
  return {.name = "youtu",
          .model_types = {"youtu"},
          .help = "Youtu-LLM",
          .config = read_youtu,
          .weights = latent_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily minicpm3_family() {
  return {.name = "minicpm3",
          .model_types = {"minicpm3"},
          .help = "MiniCPM 3",
          .config = read_minicpm3,
          .weights = latent_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
