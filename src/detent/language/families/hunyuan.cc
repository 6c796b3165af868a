#include <cmath>

#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Frequencies "dynamic" that have an alpha do not depend on the length: it makes theta greater.
Rotary read_turns_of_hunyuan(const ConfigReader& json, const LanguageConfig& config) {
  const auto scaling = json.table(json.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  const bool is_dynamic = scaling && scaling->text("rope_type", scaling->text("type", "")) == "dynamic";
  const double alpha = is_dynamic ? scaling->number("alpha", 0) : 0;
  if (alpha == 0) return read_rotary(json, config);
  if (alpha < 0 || config.head_size < 4) scaling->refuse("alpha", "expected a number above 0, of heads of 4");
  const auto size = static_cast<double>(config.head_size);
  const double theta = scaling->number("rope_theta", json.number("rope_theta", 10000));
  return rotary_of({.theta = theta * std::pow(alpha, size / (size - 2))}, config.head_size, config.context);
}

/// As Llama, with norms of each head's query and key after their rotation.
LanguageConfig read_hunyuan(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "hunyuan", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  config.qk_norm = config.qk_norm_turned = true;
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.rotary = config.window_rotary = read_turns_of_hunyuan(json, config);
  return config;
}

std::vector<StoredName> hunyuan_weights() {
  std::vector<StoredName> rules = llama_weights();
  rules.push_back({"layers.{}.attention.query_norm", "model.layers.{}.self_attn.query_layernorm"});
  rules.push_back({"layers.{}.attention.key_norm", "model.layers.{}.self_attn.key_layernorm"});
  return rules;
}

}  // namespace

LanguageFamily hunyuan_family() {
  return {.name = "hunyuan",
          .model_types = {"hunyuan_v1_dense"},
          .help = "Hunyuan without experts",
          .config = read_hunyuan,
          .weights = hunyuan_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
