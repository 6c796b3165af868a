#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

// Positions by slopes of distances in the scores.

constexpr int64_t kSlopingWidth = 4;
constexpr double kUsualSlopes = 8;

/// Layer norms before, no rotation, a plain perceptron.
LanguageConfig read_sloping(const ConfigReader& json, const std::string& family, const SizeKeys& keys) {
  LanguageConfig config = common_config(json, family, true);
  read_sizes_as(json, keys, config);
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("layer_norm_epsilon", 1e-5);
  config.perceptron = PerceptronKind::kPlain;
  config.intermediate = kSlopingWidth * config.hidden;
  config.distance_slopes = kUsualSlopes;
  return config;
}

/// A norm of the embedding; queries, keys and values of each head stand together.
LanguageConfig read_bloom(const ConfigReader& json) {
  constexpr int64_t kContext = 2048;
  const char* heads = json.has("n_head") ? "n_head" : "num_attention_heads";
  const char* hidden = json.has("hidden_size") ? "hidden_size" : "n_embed";
  LanguageConfig config = read_sloping(json, "bloom", {"n_layer", hidden, heads});
  config.context = json.integer("seq_length", kContext);
  config.embedding_norm = true;
  config.activation = Activation::kGeluTanh;
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  json.expect("apply_residual_connection_post_layernorm", false);
  return config;
}

std::vector<StoredName> bloom_weights() {
  const std::string layer = "transformer.h.{}.";
  const std::string qkv = layer + "self_attention.query_key_value";
  return {{"embed_tokens", "transformer.word_embeddings"},
          {"embed_norm", "transformer.word_embeddings_layernorm"},
          {"layers.{}.attention_norm", layer + "input_layernorm"},
          {"layers.{}.attention.query", qkv, WeightPart::kQueryOfHeads},
          {"layers.{}.attention.key", qkv, WeightPart::kKeyOfHeads},
          {"layers.{}.attention.value", qkv, WeightPart::kValueOfHeads},
          {"layers.{}.attention.output", layer + "self_attention.dense"},
          {"layers.{}.perceptron_norm", layer + "post_attention_layernorm"},
          {"layers.{}.perceptron.up", layer + "mlp.dense_h_to_4h"},
          {"layers.{}.perceptron.down", layer + "mlp.dense_4h_to_h"},
          {"norm", "transformer.ln_f"},
          {"head", "lm_head"}};
}

/// No biases, not even of norms.
LanguageConfig read_mpt(const ConfigReader& json) {
  constexpr int64_t kContext = 2048;
  LanguageConfig config = read_sloping(json, "mpt", {"n_layers", "d_model", "n_heads"});
  config.context = json.integer("max_seq_len", kContext);
  config.intermediate = json.integer("expansion_ratio", kSlopingWidth) * config.hidden;
  config.activation = Activation::kGelu;
  config.norm_bias = false;
  json.expect("no_bias", true);
  json.expect("logit_scale", Value());
  const auto attention = json.table("attn_config");
  if (!attention) return config;
  attention->expect("alibi", true);
  attention->expect("qk_ln", false);
  attention->expect("prefix_lm", false);
  attention->expect("attn_type", std::string("multihead_attention"));
  config.qkv_limit = attention->optional_number("clip_qkv");
  config.attention_scale = attention->number("softmax_scale", 0);
  config.distance_slopes = attention->number("alibi_bias_max", kUsualSlopes);
  return config;
}

std::vector<StoredName> mpt_weights() {
  const std::string layer = "transformer.blocks.{}.";
  return {{"embed_tokens", "transformer.wte"},
          {"layers.{}.attention_norm", layer + "norm_1"},
          {"layers.{}.attention.query", layer + "attn.Wqkv", WeightPart::kQuery},
          {"layers.{}.attention.key", layer + "attn.Wqkv", WeightPart::kKey},
          {"layers.{}.attention.value", layer + "attn.Wqkv", WeightPart::kValue},
          {"layers.{}.attention.output", layer + "attn.out_proj"},
          {"layers.{}.perceptron_norm", layer + "norm_2"},
          {"layers.{}.perceptron.up", layer + "ffn.up_proj"},
          {"layers.{}.perceptron.down", layer + "ffn.down_proj"},
          {"norm", "transformer.norm_f"},
          {"head", "lm_head"}};
}

}  // namespace

LanguageFamily bloom_family() {
  return {.name = "bloom",
          .model_types = {"bloom"},
          .help = "BLOOM",
          .config = read_bloom,
          .weights = bloom_weights};
}

LanguageFamily mpt_family() {
  return {.name = "mpt", .model_types = {"mpt"}, .help = "MPT", .config = read_mpt, .weights = mpt_weights};
}

}  // namespace detent
