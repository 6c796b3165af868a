#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// Every other layer has a window, softmax counts a sink of each head, experts have biases and clamped gates.
LanguageConfig read_gpt_oss(const ConfigReader& json) {
  constexpr int64_t kOssWindow = 128;
  constexpr double kOssTheta = 150000;
  constexpr double kSlope = 1.702;
  constexpr double kLimit = 7;
  LanguageConfig config = common_config(json, "gpt_oss", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  json.expect("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", true);
  config.sinks = true;
  config.window = json.integer("sliding_window", kOssWindow);
  std::vector<bool> windows;
  for (int64_t layer = 0; layer < config.layers; ++layer) windows.push_back(layer % 2 == 0);
  config.has_window = read_windows(json, config.layers, std::move(windows));
  config.experts = {
      .count = json.integer("num_local_experts"),
      .used = json.integer("num_experts_per_tok", json.integer("experts_per_token", 4)),
      .intermediate = config.intermediate,
      .has_biases = true,
      .gate = {.slope = json.number("swiglu_alpha", kSlope), .limit = json.number("swiglu_limit", kLimit)}};
  if (!(config.experts.gate.slope > 0)) json.refuse("swiglu_alpha", "expected a number above 0");
  if (!(config.experts.gate.limit > 0)) json.refuse("swiglu_limit", "expected a number above 0");
  config.rotary = config.window_rotary = read_rotary(json, config, "", kOssTheta);
  return config;
}

/// Experts are stored as [in, out], with rows of gate and up in turn, or in MXFP4 as [out, in].
std::vector<StoredName> gpt_oss_weights() {
  const std::string layer = "model.layers.{}.";
  const std::string joined = layer + "mlp.experts.{}.gate_up_proj";
  const std::string down = layer + "mlp.experts.{}.down_proj";
  std::vector<StoredName> rules = llama_weights();
  std::erase_if(rules, [](const StoredName& rule) { return rule.name.starts_with("layers.{}.perceptron."); });
  rules.push_back({"layers.{}.attention.sink", layer + "self_attn.sinks"});
  rules.push_back({"layers.{}.experts.router", layer + "mlp.router"});
  rules.push_back({"layers.{}.experts.{}.gate", joined, WeightPart::kGateOfPairs, true});
  rules.push_back({"layers.{}.experts.{}.gate", joined + "_blocks", WeightPart::kGateOfPairs});
  rules.push_back({"layers.{}.experts.{}.up", joined, WeightPart::kUpOfPairs, true});
  rules.push_back({"layers.{}.experts.{}.up", joined + "_blocks", WeightPart::kUpOfPairs});
  rules.push_back({"layers.{}.experts.{}.down", down, WeightPart::kWhole, true});
  rules.push_back({"layers.{}.experts.{}.down", down + "_blocks"});
  return rules;
}

}  // namespace

LanguageFamily gpt_oss_family() {
  return {.name = "gpt_oss",
          .model_types = {"gpt_oss"},
          .help = "GPT-OSS",
          .config = read_gpt_oss,
          .weights = gpt_oss_weights,
          .ignored = {"rotary_emb"},
          .quantization = "mxfp4"};
}

}  // namespace detent
