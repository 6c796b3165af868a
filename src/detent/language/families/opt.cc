#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Layer norms before each part or, in one size, after it; positions count what the mask has, from row 2 on.
LanguageConfig read_opt(const ConfigReader& json) {
  constexpr int64_t kOffset = 2;
  LanguageConfig config = common_config(json, "opt", true);
  read_sizes(json, config, "ffn_dim");
  config.positions = config.context + kOffset;
  config.position_offset = kOffset;
  config.position_count = PositionCount::kAttended;
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = 1e-5;
  const bool is_before = json.boolean("do_layer_norm_before", true);
  config.norm_place = is_before ? NormPlace::kBefore : NormPlace::kAfter;
  config.final_norm = is_before && !json.boolean("_remove_final_layer_norm", false);
  config.norm_weight = config.norm_bias = json.boolean("layer_norm_elementwise_affine", true);
  config.embedded_size = json.integer("word_embed_proj_dim", config.hidden);
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("activation_function", "relu");
  config.qkv_bias = config.output_bias = config.perceptron_bias = json.boolean("enable_bias", true);
  return config;
}

std::vector<StoredName> opt_weights() {
  const std::string layer = "model.decoder.layers.{}.";
  return {{"embed_tokens", "model.decoder.embed_tokens"},
          {"embed_positions", "model.decoder.embed_positions"},
          {"project_in", "model.decoder.project_in"},
          {"project_out", "model.decoder.project_out"},
          {"layers.{}.attention_norm", layer + "self_attn_layer_norm"},
          {"layers.{}.attention.query", layer + "self_attn.q_proj"},
          {"layers.{}.attention.key", layer + "self_attn.k_proj"},
          {"layers.{}.attention.value", layer + "self_attn.v_proj"},
          {"layers.{}.attention.output", layer + "self_attn.out_proj"},
          {"layers.{}.perceptron_norm", layer + "final_layer_norm"},
          {"layers.{}.perceptron.up", layer + "fc1"},
          {"layers.{}.perceptron.down", layer + "fc2"},
          {"norm", "model.decoder.final_layer_norm"},
          {"head", "lm_head"}};
}

}  // namespace

LanguageFamily opt_family() {
  return {.name = "opt", .model_types = {"opt"}, .help = "OPT", .config = read_opt, .weights = opt_weights};
}

}  // namespace detent
