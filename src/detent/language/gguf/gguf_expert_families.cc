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

std::vector<StoredName> gguf_gpt_oss_names() {
  std::vector<StoredName> names = gguf_post_normed_names(gguf_expert_names());
  names.push_back({"layers.{}.attention.sink", "blk.{}.attn_sinks"});
  return names;
}

std::vector<StoredName> gguf_expert_names() { return expert_names(gguf_llama_names()); }

std::vector<StoredName> gguf_normed_expert_names() { return expert_names(gguf_qwen3_names()); }

}  // namespace detent
