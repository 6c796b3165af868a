#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As Llama, with norms before the last layers of attention and of the perceptron. Weights that are packed
/// are refused by their quantization_config.
LanguageConfig read_bitnet(const ConfigReader& json) {
  constexpr double kBitnetTheta = 5e5;

  LanguageConfig config = common_config(json, "bitnet", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "relu2");
  config.inner_norms = true;
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.rotary = config.window_rotary = read_rotary(json, config, "", kBitnetTheta);
  return config;
}

std::vector<StoredName> bitnet_weights() {
  std::vector<StoredName> rules = llama_weights();
  rules.push_back({"layers.{}.attention.output_norm", "model.layers.{}.self_attn.attn_sub_norm"});
  rules.push_back({"layers.{}.perceptron.down_norm", "model.layers.{}.mlp.ffn_sub_norm"});
  return rules;
}

}  // namespace

LanguageFamily bitnet_family() {
  return {.name = "bitnet",
          .model_types = {"bitnet"},
          .help = "BitNet b1.58 with weights in floats",
          .config = read_bitnet,
          .weights = bitnet_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
