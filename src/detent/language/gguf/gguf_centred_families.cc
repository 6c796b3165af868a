#include <cmath>

#include "detent/core/error.h"
#include "detent/language/gguf/gguf_families.h"

namespace detent {

// Families with layer norms, and positions in the scores or in a table.

LanguageConfig read_gguf_falcon(const GgufConfigReader& reader) {
  LanguageConfig config = read_centred(reader, "falcon");
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kGelu;
  const bool has_two = reader.has_tensor("blk.0.attn_norm_2.weight");
  config.perceptron_place = has_two ? PerceptronPlace::kBeside : PerceptronPlace::kBesideOneNorm;
  return config;
}

/// The first norm is that of the perceptron where there are two.
std::vector<StoredName> gguf_falcon_names() {
  std::vector<StoredName> names = joined_names(gguf_llama_names());
  std::erase_if(names, [](const StoredName& name) { return name.name.ends_with("_norm"); });
  names.push_back({"layers.{}.attention_norm", "blk.{}.attn_norm_2"});
  names.push_back({"layers.{}.attention_norm", "blk.{}.attn_norm"});
  names.push_back({"layers.{}.perceptron_norm", "blk.{}.attn_norm"});
  return names;
}

LanguageConfig read_gguf_mpt(const GgufConfigReader& reader) {
  LanguageConfig config = read_gguf_gpt2(reader);
  config.family = "mpt";
  config.activation = Activation::kGelu;
  config.positions = 0;
  config.norm_bias = reader.has_tensor("output_norm.bias");
  config.distance_slopes = reader.number("attention.max_alibi_bias");
  const double limit = reader.number("attention.clamp_kqv", 0);
  if (limit > 0) config.qkv_limit = limit;
  return config;
}

LanguageConfig read_gguf_bloom(const GgufConfigReader& reader) {
  constexpr double kSlopes = 8;
  LanguageConfig config = read_gguf_gpt2(reader);
  config.family = "bloom";
  config.positions = 0;
  config.embedding_norm = true;
  config.distance_slopes = kSlopes;
  return config;
}

std::vector<StoredName> gguf_bloom_names() {
  std::vector<StoredName> names = gguf_gpt2_names();
  names.push_back({"embed_norm", "token_embd_norm"});
  return names;
}

LanguageConfig read_gguf_starcoder(const GgufConfigReader& reader) {
  LanguageConfig config = read_gguf_gpt2(reader);
  config.family = "gpt_bigcode";
  return config;
}

/// An encoder; one layer in three has no window, the first of them.
LanguageConfig read_gguf_modern_bert(const GgufConfigReader& reader) {
  constexpr int64_t kEvery = 3;
  constexpr double kLocalTheta = 1e4;
  LanguageConfig config = read_centred(reader, "modernbert");
  config.is_causal = false;
  config.norm_bias = false;
  config.first_norm = reader.has_tensor("blk.0.attn_norm.weight");
  config.embedding_norm = true;
  config.tied_head = true;
  config.activation = Activation::kGelu;
  config.window = reader.integer("attention.sliding_window", 0) / 2;
  const int64_t every = reader.integer("attention.sliding_window_pattern", kEvery);
  if (every < 1)
    fail("{}: {} is {}, expected at least 1", reader.file().metadata.file(),
         reader.key("attention.sliding_window_pattern"), every);
  for (int64_t layer = 0; layer < config.layers; ++layer) config.has_window.push_back(layer % every != 0);
  RotaryScaling of_windows;
  of_windows.theta = reader.number("rope.freq_base_swa", kLocalTheta);
  config.window_rotary = rotary_of(of_windows, config.head_size, config.context);
  return config;
}

std::vector<StoredName> gguf_modern_bert_names() {
  std::vector<StoredName> names = gguf_phi3_names();
  names.push_back({"embed_norm", "token_embd_norm"});
  return names;
}

}  // namespace detent
