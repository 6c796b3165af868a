#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Two thirds, times a factor, in whole blocks, unless the file says that the size is as it stands.
int64_t adjusted_size(const ConfigReader& json, int64_t size) {
  constexpr int64_t kBlock = 256;
  constexpr double kMostFactor = 1024;
  if (!json.boolean("block_auto_adjust_ff_dim", true) || size < 1 || size > INT32_MAX) return size;
  const double factor = json.number("block_ffn_dim_multiplier", 1);
  const int64_t block = json.integer("block_multiple_of", kBlock);
  if (!(factor > 0 && factor <= kMostFactor))
    json.refuse("block_ffn_dim_multiplier", "expected a number above 0 and at most 1024");
  if (block < 1 || block > INT32_MAX) json.refuse("block_multiple_of", "expected at least 1");
  const int64_t two_thirds = 2 * size / 3;
  const auto scaled = static_cast<int64_t>(factor * static_cast<double>(two_thirds));
  return (scaled + block - 1) / block * block;
}

std::vector<bool> convolving_layers(const ConfigReader& json, int64_t layers) {
  std::vector<bool> convolving(static_cast<size_t>(layers), false);
  if (json.has("layer_types")) {
    const std::vector<std::string> types = json.texts("layer_types");
    if (std::ssize(types) != layers)
      fail("{}: \"layer_types\" has {} entries for {} layers", json.where(), types.size(), layers);
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i] != "conv" && types[i] != "full_attention")
        json.refuse("layer_types", "expected entries conv and full_attention");
      convolving[i] = types[i] == "conv";
    }
  } else if (json.has("full_attn_idxs")) {
    const std::vector<int64_t> attending = json.integers("full_attn_idxs");
    for (int64_t layer = 0; layer < layers; ++layer)
      convolving[static_cast<size_t>(layer)] = std::ranges::find(attending, layer) == attending.end();
  }
  return convolving;
}

/// Convolutions of a few tokens in most layers, attention with norms of heads in the others.
LanguageConfig read_lfm2_layers(const ConfigReader& json, const std::string& family) {
  constexpr double kUsualTheta = 1000000;
  constexpr int64_t kWidth = 3;
  LanguageConfig config = common_config(json, family, true);
  config.tied_head = json.boolean("tie_embedding", config.tied_head);
  read_sizes(json, config, json.has("block_ff_dim") ? "block_ff_dim" : "intermediate_size");
  config.norm_eps = json.number("norm_eps", 1e-5);
  config.qk_norm = true;
  config.short_convolution = {.width = json.integer("conv_L_cache", kWidth),
                              .bias = json.boolean("conv_bias", false),
                              .layers = convolving_layers(json, config.layers)};
  if (config.short_convolution.width < 1) json.refuse("conv_L_cache", "expected at least 1");
  if (std::ranges::find(config.short_convolution.layers, false) == config.short_convolution.layers.end())
    fail("{}: no layer has attention, expected one at least", json.where());
  config.rotary = config.window_rotary = read_rotary(json, config, "", kUsualTheta);
  return config;
}

LanguageConfig read_lfm2(const ConfigReader& json) {
  LanguageConfig config = read_lfm2_layers(json, "lfm2");
  config.intermediate = adjusted_size(json, config.intermediate);
  return config;
}

/// Experts by sigmoids, with a bias where they are picked, after some layers without.
LanguageConfig read_lfm2_moe(const ConfigReader& json) {
  constexpr int64_t kDenseLayers = 2;
  constexpr double kAddedToSum = 1e-6;
  LanguageConfig config = read_lfm2_layers(json, "lfm2_moe");
  read_experts(json, config, {.count = "num_experts", .shared = "num_shared_experts"});
  Experts& experts = config.experts;
  experts.by_sigmoid = true;
  experts.choice_bias = json.boolean("use_expert_bias", true);
  experts.normalized = json.boolean("norm_topk_prob", true);
  experts.scale = json.number("routed_scaling_factor", 1);
  experts.added_to_sum = kAddedToSum;
  const int64_t first = json.integer("num_dense_layers", kDenseLayers);
  for (int64_t layer = 0; layer < config.layers; ++layer) experts.layers.push_back(layer >= first);
  return config;
}

std::vector<StoredName> lfm2_weights() {
  const std::string layer = "model.layers.{}.";
  return {{"embed_tokens", "model.embed_tokens"},
          {"layers.{}.attention_norm", layer + "operator_norm"},
          {"layers.{}.convolution.input", layer + "conv.in_proj"},
          {"layers.{}.convolution.taps", layer + "conv.conv"},
          {"layers.{}.convolution.output", layer + "conv.out_proj"},
          {"layers.{}.attention.query", layer + "self_attn.q_proj"},
          {"layers.{}.attention.key", layer + "self_attn.k_proj"},
          {"layers.{}.attention.value", layer + "self_attn.v_proj"},
          {"layers.{}.attention.output", layer + "self_attn.out_proj"},
          {"layers.{}.attention.query_norm", layer + "self_attn.q_layernorm"},
          {"layers.{}.attention.key_norm", layer + "self_attn.k_layernorm"},
          {"layers.{}.perceptron_norm", layer + "ffn_norm"},
          {"layers.{}.perceptron.gate", layer + "feed_forward.w1"},
          {"layers.{}.perceptron.up", layer + "feed_forward.w3"},
          {"layers.{}.perceptron.down", layer + "feed_forward.w2"},
          {"norm", "model.embedding_norm"},
          {"head", "lm_head"}};
}

std::vector<StoredName> lfm2_moe_weights() {
  const std::string place = "model.layers.{}.feed_forward.";
  std::vector<StoredName> rules = lfm2_weights();
  const std::vector<StoredName> more = {{"layers.{}.experts.router", place + "gate"},
                                        {"layers.{}.experts.choice", place + "expert_bias"},
                                        {"layers.{}.experts.{}.gate", place + "experts.{}.w1"},
                                        {"layers.{}.experts.{}.up", place + "experts.{}.w3"},
                                        {"layers.{}.experts.{}.down", place + "experts.{}.w2"}};
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

}  // namespace

LanguageFamily lfm2_moe_family() {
  return {.name = "lfm2_moe",
          .model_types = {"lfm2_moe"},
          .help = "LFM2 with experts",
          .config = read_lfm2_moe,
          .weights = lfm2_moe_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily lfm2_family() {
  return {.name = "lfm2",
          .model_types = {"lfm2"},
          .help = "LFM2 without experts",
          .config = read_lfm2,
          .weights = lfm2_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
