#include <cmath>

#include "detent/core/error.h"
#include "detent/language/gguf/gguf_families.h"

namespace detent {
namespace {

/// `normalized` is not in the file: llama.cpp knows it by the architecture.
LanguageConfig with_experts(const GgufConfigReader& reader, LanguageConfig config, const char* family,
                            bool normalized) {
  Experts& experts = config.experts;
  experts.count = reader.integer("expert_count", 0);
  if (experts.count == 0) return config;
  config.family = family;
  experts.used = reader.integer("expert_used_count");
  experts.intermediate = reader.integer("expert_feed_forward_length", config.intermediate);
  experts.normalized = normalized;
  for (int64_t layer = 0; layer < config.layers; ++layer)
    experts.layers.push_back(reader.has_tensor(fmt::format("blk.{}.ffn_gate_inp.weight", layer)));
  return config;
}

/// In files before 2024 each expert has tensors of its own.
std::vector<StoredName> expert_names(std::vector<StoredName> names) {
  names.push_back({"layers.{}.experts.router", "blk.{}.ffn_gate_inp"});
  for (const char* part : {"gate", "up", "down"}) {
    const std::string name = fmt::format("layers.{{}}.experts.{{}}.{}", part);
    names.push_back({name, fmt::format("blk.{{}}.ffn_{}_exps.{{}}", part)});
    names.push_back({name, fmt::format("blk.{{}}.ffn_{}.{{}}", part)});
    names.push_back(
        {fmt::format("layers.{{}}.experts.shared.{}", part), fmt::format("blk.{{}}.ffn_{}_shexp", part)});
  }
  names.push_back({"layers.{}.experts.shared_router", "blk.{}.ffn_gate_inp_shexp"});
  return names;
}

}  // namespace

LanguageConfig read_gguf_llama(const GgufConfigReader& reader) {
  return with_experts(reader, read_llama_like(reader, "llama"), "mixtral", true);
}

LanguageConfig read_gguf_granite_moe(const GgufConfigReader& reader) {
  LanguageConfig config = with_experts(reader, read_gguf_granite(reader), "granitemoe", true);
  config.experts.shared = reader.integer("expert_shared_feed_forward_length", 0);
  return config;
}

LanguageConfig read_gguf_qwen2_moe(const GgufConfigReader& reader) {
  LanguageConfig config = with_experts(reader, read_llama_like(reader, "qwen2"), "qwen2_moe", false);
  config.experts.shared = reader.integer("expert_shared_feed_forward_length", config.intermediate);
  config.experts.shared_gate = true;
  return config;
}

LanguageConfig read_gguf_qwen3_moe(const GgufConfigReader& reader) {
  LanguageConfig config = with_experts(reader, read_llama_like(reader, "qwen3"), "qwen3_moe", true);
  config.qk_norm = true;
  return config;
}

LanguageConfig read_gguf_olmoe(const GgufConfigReader& reader) {
  LanguageConfig config = with_experts(reader, read_llama_like(reader, "olmo2"), "olmoe", false);
  config.qk_norm_of_all = true;
  return config;
}

/// The first of each two layers has a window.
LanguageConfig read_gguf_gpt_oss(const GgufConfigReader& reader) {
  constexpr double kGateSlope = 1.702;
  constexpr double kGateLimit = 7;
  LanguageConfig config = with_experts(reader, read_llama_like(reader, "gpt_oss"), "gpt_oss", true);
  config.experts.has_biases = true;
  config.experts.gate = {.slope = kGateSlope, .limit = kGateLimit};
  config.sinks = true;
  if (config.window > 0) config.has_window = all_but_each(config.layers, 2);
  return config;
}

namespace {

/// Keys and values out of one short row of each token. Files since 2025 state the sizes of heads in keys of
/// their own, beside those of the row.
LanguageConfig read_gguf_latent(const GgufConfigReader& reader, const char* family) {
  LanguageConfig config = read_llama_like(reader, family);
  LatentAttention& latent = config.latent;
  latent.rank = reader.integer("attention.kv_lora_rank");
  latent.query_rank =
      reader.has_tensor("blk.0.attn_q_a.weight") ? reader.integer("attention.q_lora_rank") : 0;
  latent.turning = 2 * std::ssize(config.rotary.frequencies);
  latent.bias = reader.has_tensor("blk.0.attn_kv_a_mqa.bias");
  config.head_size = reader.integer("attention.key_length_mla", reader.integer("attention.key_length"));
  config.value_size = reader.integer("attention.value_length_mla", reader.integer("attention.value_length"));
  config.kv_heads = config.heads;
  config.qkv_bias = false;
  return config;
}

/// As YaRN scales scores a second time, llama.cpp leaves out the first.
void read_gguf_mscale(const GgufConfigReader& reader, LanguageConfig& config) {
  config.rotary.factor = config.window_rotary.factor = reader.number("rope.scaling.attn_factor", 1);
  const double logarithm = std::log(reader.number("rope.scaling.factor", 1));
  const double stretched =
      1 + reader.number("rope.scaling.yarn_log_multiplier", 0) * std::max(logarithm, 0.0);
  config.attention_scale = stretched * stretched / std::sqrt(static_cast<double>(config.head_size));
}

}  // namespace

/// DeepSeek V2 has shares by softmax, V3 by sigmoid.
LanguageConfig read_gguf_deepseek2(const GgufConfigReader& reader) {
  constexpr int64_t kSoftmax = 1;
  constexpr int64_t kSigmoid = 2;
  LanguageConfig config = with_experts(reader, read_gguf_latent(reader, "deepseek_v2"), "deepseek_v2", false);
  config.turns_neighbours = true;
  read_gguf_mscale(reader, config);
  Experts& experts = config.experts;
  if (experts.count == 0) return config;
  const int64_t gating = reader.integer("expert_gating_func", kSoftmax);
  if (gating != 0 && gating != kSoftmax && gating != kSigmoid)
    fail("{}: {} is {}, expected {} (softmax) or {} (sigmoid)", reader.file().metadata.file(),
         reader.key("expert_gating_func"), gating, kSoftmax, kSigmoid);
  experts.by_sigmoid = gating == kSigmoid;
  experts.group_shares = experts.by_sigmoid ? 2 : 1;
  experts.groups = std::max<int64_t>(reader.integer("expert_group_count", 1), 1);
  experts.groups_used = std::max<int64_t>(reader.integer("expert_group_used_count", 1), 1);
  experts.normalized = reader.flag("expert_weights_norm", false);
  experts.shared = reader.integer("expert_shared_count", 0) * experts.intermediate;
  const double scale = reader.number("expert_weights_scale", 1);
  if (scale != 0) experts.scale = scale;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (reader.has_tensor(fmt::format("blk.{}.exp_probs_b.bias", layer))) experts.choice_bias = true;
  }
  return config;
}

/// Scales are not in the file: llama.cpp knows them by the architecture.
LanguageConfig read_gguf_minicpm3(const GgufConfigReader& reader) {
  constexpr double kMiniEmbeddingScale = 12;
  constexpr double kMiniResidual = 1.4;
  constexpr double kMiniHidden = 256;
  LanguageConfig config = read_gguf_latent(reader, "minicpm3");
  config.embedding_scale = kMiniEmbeddingScale;
  config.residual_scale = kMiniResidual / std::sqrt(static_cast<double>(config.layers));
  config.logit_scale = kMiniHidden / static_cast<double>(config.hidden);
  return config;
}

std::vector<StoredName> gguf_latent_names() {
  std::vector<StoredName> names = gguf_expert_names();
  std::erase_if(names, [](const StoredName& name) {
    return name.name == "layers.{}.attention.key" || name.name == "layers.{}.attention.value";
  });
  names.push_back({"layers.{}.attention.query", "blk.{}.attn_q_b"});
  names.push_back({"layers.{}.attention.query_latent", "blk.{}.attn_q_a"});
  names.push_back({"layers.{}.attention.query_latent_norm", "blk.{}.attn_q_a_norm"});
  names.push_back({"layers.{}.attention.latent", "blk.{}.attn_kv_a_mqa", WeightPart::kLatent});
  names.push_back({"layers.{}.attention.latent_norm", "blk.{}.attn_kv_a_norm"});
  names.push_back({"layers.{}.attention.turning_key", "blk.{}.attn_kv_a_mqa", WeightPart::kTurningKey});
  names.push_back({"layers.{}.attention.key", "blk.{}.attn_kv_b", WeightPart::kKeyOfLatent});
  names.push_back({"layers.{}.attention.key", "blk.{}.attn_k_b", WeightPart::kTransposedHeads});
  names.push_back({"layers.{}.attention.value", "blk.{}.attn_kv_b", WeightPart::kValueOfLatent});
  names.push_back({"layers.{}.attention.value", "blk.{}.attn_v_b"});
  names.push_back({"layers.{}.experts.choice", "blk.{}.exp_probs_b.bias"});
  return names;
}

std::vector<StoredName> gguf_gpt_oss_names() {
  std::vector<StoredName> names = gguf_post_normed_names(gguf_expert_names());
  names.push_back({"layers.{}.attention.sink", "blk.{}.attn_sinks"});
  return names;
}

std::vector<StoredName> gguf_expert_names() { return expert_names(gguf_llama_names()); }

std::vector<StoredName> gguf_normed_expert_names() { return expert_names(gguf_qwen3_names()); }

}  // namespace detent
