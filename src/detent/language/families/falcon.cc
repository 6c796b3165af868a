#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// The perceptron beside attention, after a norm that both share, or each after its own; queries stand by
/// the head of keys that they share.
LanguageConfig read_falcon(const ConfigReader& json) {
  constexpr int64_t kContext = 2048;
  constexpr int64_t kTimesAsWide = 4;
  LanguageConfig config = common_config(json, "falcon", true);
  const auto key = [&](const char* now, const char* once) { return json.has(now) ? now : once; };
  read_sizes_as(json,
                {key("num_hidden_layers", "n_layer"), "hidden_size", key("num_attention_heads", "n_head")},
                config);
  const bool is_new = json.boolean("new_decoder_architecture", false);
  const bool has_one = json.boolean("multi_query", true);
  config.kv_heads = is_new    ? json.integer(key("num_kv_heads", "n_head_kv"), config.heads)
                    : has_one ? 1
                              : config.heads;
  config.context = json.integer("max_position_embeddings", kContext);
  config.intermediate = json.integer("ffn_hidden_size", kTimesAsWide * config.hidden);
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("layer_norm_epsilon", 1e-5);
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("activation", "gelu");
  config.qkv_bias = config.output_bias = config.perceptron_bias = json.boolean("bias", false);
  const bool has_two = is_new && json.integer("num_ln_in_parallel_attn", 2) == 2;
  if (has_two) {
    config.perceptron_place = PerceptronPlace::kBeside;
  } else if (is_new || json.boolean("parallel_attn", true)) {
    config.perceptron_place = PerceptronPlace::kBesideOneNorm;
  }
  if (!json.boolean("alibi", false)) {
    config.rotary = config.window_rotary = read_rotary(json, config);
    return config;
  }
  constexpr double kFalconSlopes = 8;
  config.distance_slopes = kFalconSlopes;
  config.slopes_of_places = true;
  return config;
}

/// Where each part has a norm of its own, these have other names.
std::vector<StoredName> falcon_weights() {
  const std::string layer = "transformer.h.{}.";
  const std::string qkv = layer + "self_attention.query_key_value";
  return {{"embed_tokens", "transformer.word_embeddings"},
          {"layers.{}.attention_norm", layer + "input_layernorm"},
          {"layers.{}.attention_norm", layer + "ln_attn"},
          {"layers.{}.attention.query", qkv, WeightPart::kQueryOfHeads},
          {"layers.{}.attention.key", qkv, WeightPart::kKeyOfHeads},
          {"layers.{}.attention.value", qkv, WeightPart::kValueOfHeads},
          {"layers.{}.attention.output", layer + "self_attention.dense"},
          {"layers.{}.perceptron_norm", layer + "post_attention_layernorm"},
          {"layers.{}.perceptron_norm", layer + "ln_mlp"},
          {"layers.{}.perceptron.up", layer + "mlp.dense_h_to_4h"},
          {"layers.{}.perceptron.down", layer + "mlp.dense_4h_to_h"},
          {"norm", "transformer.ln_f"},
          {"head", "lm_head"}};
}

}  // namespace

LanguageFamily falcon_family() {
  return {.name = "falcon",
          .model_types = {"falcon"},
          .help = "Falcon 1 and 2",
          .config = read_falcon,
          .weights = falcon_weights,
          .ignored = {"rotary_emb", "inv_freq"}};
}

}  // namespace detent
