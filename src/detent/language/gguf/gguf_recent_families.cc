#include <algorithm>

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

/// Layers without heads of keys convolve.
LanguageConfig read_gguf_lfm2(const GgufConfigReader& reader) {
  constexpr const char* kHeads = "attention.head_count_kv";
  LanguageConfig config = read_llama_like(reader, "lfm2");
  config.qk_norm = true;
  const int64_t width = reader.integer("shortconv.l_cache");
  const GgufEntry* entry = reader.file().metadata.find(reader.key(kHeads));
  if (width < 1 || entry == nullptr || entry->type != GgufType::kArray)
    fail("{}: {} is {}, expected 1 or more, and {} of each layer", reader.file().metadata.file(),
         reader.key("shortconv.l_cache"), width, reader.key(kHeads));
  config.short_convolution = {
      .width = width, .bias = reader.has_tensor("blk.0.shortconv.conv.bias"), .layers = {}};
  for (const int64_t heads : reader.file().metadata.integers(entry->key))
    config.short_convolution.layers.push_back(heads == 0);
  return config;
}

std::vector<StoredName> gguf_lfm2_names() {
  std::vector<StoredName> names = gguf_qwen3_names();
  const auto norm = std::ranges::find(names, "norm", &StoredName::name);
  names.insert(norm,
               {"norm", "token_embd_norm"});  // so in files of llama.cpp, which norms the last state by it
  names.push_back({"layers.{}.convolution.input", "blk.{}.shortconv.in_proj"});
  names.push_back({"layers.{}.convolution.taps", "blk.{}.shortconv.conv"});
  names.push_back({"layers.{}.convolution.output", "blk.{}.shortconv.out_proj"});
  return names;
}

/// The norm of the perceptron has another name.
std::vector<StoredName> gguf_post_normed_names(std::vector<StoredName> names) {
  for (StoredName& name : names) {
    if (name.name == "layers.{}.perceptron_norm") name.stored = "blk.{}.post_attention_norm";
  }
  return names;
}

}  // namespace detent
