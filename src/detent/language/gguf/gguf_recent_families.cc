#include "detent/core/error.h"
#include "detent/language/gguf/gguf_families.h"

namespace detent {

// Families of 2024 and later without experts.

LanguageConfig read_gguf_olmo(const GgufConfigReader& reader) {
  LanguageConfig config = read_centred(reader, "olmo");
  config.norm_weight = config.norm_bias = false;
  const double limit = reader.number("attention.clamp_kqv", 0);
  if (limit > 0) config.qkv_limit = limit;
  return config;
}

/// The 1 that norms add stands in the weights of such files.
LanguageConfig read_gguf_nemotron(const GgufConfigReader& reader) {
  LanguageConfig config = read_centred(reader, "nemotron");
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kSquaredRelu;
  return config;
}

LanguageConfig read_gguf_arcee(const GgufConfigReader& reader) {
  LanguageConfig config = read_llama_like(reader, "arcee");
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kSquaredRelu;
  return config;
}

LanguageConfig read_gguf_ernie(const GgufConfigReader& reader) {
  LanguageConfig config = read_llama_like(reader, "ernie4_5");
  config.turns_neighbours = true;
  return config;
}

LanguageConfig read_gguf_command_r(const GgufConfigReader& reader) {
  LanguageConfig config = read_centred(reader, "cohere");
  config.norm_bias = false;
  config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  config.logit_scale = reader.number("logit_scale", 1);
  config.turns_neighbours = true;
  config.qk_norm = config.qk_norm_by_head = reader.has_tensor("blk.0.attn_q_norm.weight");
  return config;
}

/// Layers without a window do not turn.
LanguageConfig read_gguf_cohere2(const GgufConfigReader& reader) {
  constexpr int64_t kEvery = 4;
  LanguageConfig config = read_gguf_command_r(reader);
  config.window = reader.integer("attention.sliding_window");
  config.has_window = config.turns = all_but_each(config.layers, kEvery);
  return config;
}

/// The same, where there are windows.
LanguageConfig read_gguf_exaone4(const GgufConfigReader& reader) {
  constexpr int64_t kEvery = 4;
  LanguageConfig config = read_llama_like(reader, "exaone4");
  config.norm_place = NormPlace::kAfterPart;
  config.qk_norm = true;
  if (config.window > 0) config.has_window = config.turns = all_but_each(config.layers, kEvery);
  return config;
}

/// The norm of the perceptron has another name.
std::vector<StoredName> gguf_post_normed_names(std::vector<StoredName> names) {
  for (StoredName& name : names) {
    if (name.name == "layers.{}.perceptron_norm") name.stored = "blk.{}.post_attention_norm";
  }
  return names;
}

}  // namespace detent
