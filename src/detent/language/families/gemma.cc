#include <cmath>

#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

constexpr int64_t kGemmaHeadSize = 256;

/// The first files say "gelu" where the network had its approximation by tanh.
LanguageConfig read_gemma(const ConfigReader& json) {
  LanguageConfig config = common_gemma(json, "gemma");
  config.activation = json.activation("hidden_act", "gelu_pytorch_tanh");
  if (config.activation == Activation::kGelu) config.activation = Activation::kGeluTanh;
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

}  // namespace

LanguageConfig common_gemma(const ConfigReader& json, const std::string& family) {
  LanguageConfig config = common_config(json, family, true);
  read_sizes(json, config);
  config.head_size = json.integer("head_dim", kGemmaHeadSize);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.norm_adds_one = true;
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  json.expect("use_bidirectional_attention", false);
  config.embedding_scale =
      static_cast<double>(static_cast<float>(std::sqrt(static_cast<double>(config.hidden))));
  return config;
}

void read_gemma_windows(const ConfigReader& json, LanguageConfig& config, int64_t pattern) {
  constexpr int64_t kWindow = 4096;
  config.norm_place = NormPlace::kAround;
  config.activation = json.activation("hidden_activation", "gelu_pytorch_tanh");
  config.attention_scale = 1 / std::sqrt(json.number("query_pre_attn_scalar", kGemmaHeadSize));
  config.window = json.integer("sliding_window", kWindow);
  config.has_window = read_windows(json, config.layers, all_but_each(config.layers, pattern));
}

std::vector<StoredName> around_weights() {
  std::vector<StoredName> rules = llama_weights();
  const std::string layer = "model.layers.{}.";
  for (StoredName& rule : rules) {
    if (rule.name == "layers.{}.perceptron_norm") rule.stored = layer + "pre_feedforward_layernorm";
  }
  rules.push_back({"layers.{}.attention_post_norm", layer + "post_attention_layernorm"});
  rules.push_back({"layers.{}.perceptron_post_norm", layer + "post_feedforward_layernorm"});
  return rules;
}

LanguageFamily gemma_family() {
  return {.name = "gemma",
          .model_types = {"gemma"},
          .help = "Gemma 1",
          .config = read_gemma,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
