#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Layer norms before, learned positions, weights stored as [in, out].
LanguageConfig read_gpt2(const ConfigReader& json) {
  constexpr int64_t kTimesAsWide = 4;
  LanguageConfig config = common_config(json, "gpt2", true);
  read_sizes_as(json, {"n_layer", "n_embd", "n_head"}, config);
  config.intermediate = json.integer("n_inner", kTimesAsWide * config.hidden);
  config.context = config.positions = json.integer("n_positions", json.integer("n_ctx", 1024));
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("layer_norm_epsilon", 1e-5);
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("activation_function", "gelu_new");
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  config.divides_by_layer = json.boolean("scale_attn_by_inverse_layer_idx", false);
  json.expect("add_cross_attention", false);
  if (!json.boolean("scale_attn_weights", true)) config.attention_scale = 1;
  return config;
}

std::vector<StoredName> gpt2_weights() {
  const std::string layer = "transformer.h.{}.";
  const std::string qkv = layer + "attn.c_attn";
  return {{"embed_tokens", "transformer.wte"},
          {"embed_positions", "transformer.wpe"},
          {"layers.{}.attention_norm", layer + "ln_1"},
          {"layers.{}.attention.query", qkv, WeightPart::kQuery, true},
          {"layers.{}.attention.key", qkv, WeightPart::kKey, true},
          {"layers.{}.attention.value", qkv, WeightPart::kValue, true},
          {"layers.{}.attention.output", layer + "attn.c_proj", WeightPart::kWhole, true},
          {"layers.{}.perceptron_norm", layer + "ln_2"},
          {"layers.{}.perceptron.up", layer + "mlp.c_fc", WeightPart::kWhole, true},
          {"layers.{}.perceptron.down", layer + "mlp.c_proj", WeightPart::kWhole, true},
          {"norm", "transformer.ln_f"},
          {"head", "lm_head"}};
}

}  // namespace

LanguageFamily gpt2_family() {
  return {.name = "gpt2",
          .model_types = {"gpt2"},
          .help = "GPT-2",
          .config = read_gpt2,
          .weights = gpt2_weights,
          .ignored = {".attn.bias", ".attn.masked_bias"}};
}

}  // namespace detent
