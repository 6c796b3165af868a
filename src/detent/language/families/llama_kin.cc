#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

constexpr int64_t kUsualHeadSize = 128;  // of files that do not say it

/// Keys of networks that are Llama but for a detail.
LanguageConfig read_kin(const ConfigReader& json, const std::string& family, double eps, double theta) {
  LanguageConfig config = common_config(json, family, false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", eps);
  config.activation = json.activation("hidden_act", "silu");
  config.rotary = config.window_rotary = read_rotary(json, config, "", theta);
  return config;
}

/// A plain perceptron of squared positive values.
LanguageConfig read_arcee(const ConfigReader& json) {
  LanguageConfig config = read_kin(json, "arcee", 1e-5, 10000);
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("hidden_act", "relu2");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  return config;
}

std::vector<StoredName> arcee_weights() {
  std::vector<StoredName> rules = llama_weights();
  std::erase_if(rules, [](const StoredName& rule) { return rule.name == "layers.{}.perceptron.gate"; });
  return rules;
}

/// Pairs of neighbours turn.
LanguageConfig read_ernie(const ConfigReader& json) {
  constexpr double kErnieTheta = 5e5;
  LanguageConfig config = read_kin(json, "ernie4_5", 1e-5, kErnieTheta);
  config.tied_head = json.boolean("tie_word_embeddings", true);
  config.head_size = json.integer("head_dim", kUsualHeadSize);
  config.qkv_bias = config.output_bias = config.perceptron_bias = json.boolean("use_bias", false);
  config.turns_neighbours = true;
  return config;
}

LanguageConfig read_helium(const ConfigReader& json) {
  constexpr double kHeliumTheta = 1e5;
  LanguageConfig config = read_kin(json, "helium", 1e-8, kHeliumTheta);
  config.head_size = json.integer("head_dim", kUsualHeadSize);
  config.qkv_bias = json.boolean("attention_bias", false);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  config.turns_neighbours = true;
  return config;
}

/// Biases of queries, keys and values, and others of what follows.
LanguageConfig read_seed_oss(const ConfigReader& json) {
  LanguageConfig config = read_kin(json, "seed_oss", 1e-6, 10000);
  config.head_size = json.integer("head_dim", kUsualHeadSize);
  config.qkv_bias = json.boolean("attention_bias", true);
  config.output_bias = json.boolean("attention_out_bias", false);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  return config;
}

/// As Llama, and every layer may have a window.
LanguageConfig read_mistral(const ConfigReader& json) {
  LanguageConfig config = common_config(json, "mistral", false);
  read_sizes(json, config);
  config.norm_eps = json.number("rms_norm_eps", 1e-6);
  config.activation = json.activation("hidden_act", "silu");
  config.window = json.integer("sliding_window", 0);
  config.rotary = config.window_rotary = read_rotary(json, config);
  return config;
}

/// As Mistral; layers may differ in having a window.
LanguageConfig read_ministral(const ConfigReader& json) {
  LanguageConfig config = read_mistral(json);
  config.family = "ministral";
  if (config.window > 0)
    config.has_window =
        read_windows(json, config.layers, std::vector<bool>(static_cast<size_t>(config.layers), true));
  return config;
}

/// As Mistral; queries grow with their positions.
LanguageConfig read_ministral3(const ConfigReader& json) {
  constexpr double kMinistral3Theta = 1e6;
  LanguageConfig config = common_config(json, "ministral3", false);
  read_sizes(json, config);
  config.head_size = json.integer("head_dim", kUsualHeadSize);
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  config.window = json.integer("sliding_window", 0);
  config.rotary = config.window_rotary = read_rotary(json, config, "", kMinistral3Theta);
  const auto parameters = json.table("rope_parameters");
  if (!parameters) fail("{}: there is no key \"rope_parameters\"", json.where());
  config.query_growth = parameters->number("llama_4_scaling_beta", 0);
  if (config.query_growth != 0)
    config.query_growth_from = parameters->integer("original_max_position_embeddings");
  return config;
}

/// A plain perceptron of an activation that learns, norms of each head's query and key.
LanguageConfig read_apertus(const ConfigReader& json) {
  constexpr double kApertusTheta = 12e6;
  LanguageConfig config = read_kin(json, "apertus", 1e-5, kApertusTheta);
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("hidden_act", "xielu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.qk_norm = true;
  if (json.has("rope_parameters") || json.has("rope_scaling")) return config;
  constexpr double kFactor = 8;
  constexpr int64_t kOriginal = 8192;
  config.rotary = config.window_rotary = rotary_of({.type = "llama3",
                                                    .theta = json.number("rope_theta", kApertusTheta),
                                                    .factor = kFactor,
                                                    .original_context = kOriginal},
                                                   config.head_size, config.context);
  return config;
}

std::vector<StoredName> apertus_weights() {
  const std::string layer = "model.layers.{}.";
  const std::string activation = layer + "mlp.act_fn.";
  std::vector<StoredName> rules = qwen3_weights();
  std::erase_if(rules, [](const StoredName& rule) { return rule.name == "layers.{}.perceptron.gate"; });
  for (StoredName& rule : rules) {
    if (rule.name == "layers.{}.attention_norm") rule.stored = layer + "attention_layernorm";
    if (rule.name == "layers.{}.perceptron_norm") rule.stored = layer + "feedforward_layernorm";
  }
  rules.push_back({"layers.{}.perceptron.activation.positive", activation + "alpha_p"});
  rules.push_back({"layers.{}.perceptron.activation.negative", activation + "alpha_n"});
  rules.push_back({"layers.{}.perceptron.activation.slope", activation + "beta"});
  rules.push_back({"layers.{}.perceptron.activation.least", activation + "eps"});
  return rules;
}

/// Windows in all layers but the first of each four.
LanguageConfig read_cwm(const ConfigReader& json) {
  constexpr int64_t kEvery = 4;
  constexpr int64_t kWindow = 8192;
  constexpr double kCwmTheta = 1e6;
  LanguageConfig config = read_kin(json, "cwm", 1e-5, kCwmTheta);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  config.window = json.integer("sliding_window", kWindow);
  std::vector<bool> windows;
  for (int64_t layer = 0; layer < config.layers; ++layer) windows.push_back(layer % kEvery != 0);
  config.has_window = read_windows(json, config.layers, std::move(windows));
  return config;
}

}  // namespace

LanguageFamily arcee_family() {
  return {.name = "arcee",
          .model_types = {"arcee"},
          .help = "Arcee AFM",
          .config = read_arcee,
          .weights = arcee_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily cwm_family() {
  return {.name = "cwm",
          .model_types = {"cwm"},
          .help = "Code World Model",
          .config = read_cwm,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily ernie4_5_family() {
  return {.name = "ernie4_5",
          .model_types = {"ernie4_5"},
          .help = "ERNIE 4.5 of text, without experts",
          .config = read_ernie,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily helium_family() {
  return {.name = "helium",
          .model_types = {"helium"},
          .help = "Helium",
          .config = read_helium,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily mistral_family() {
  return {.name = "mistral",
          .model_types = {"mistral"},
          .help = "Mistral, with or without a window",
          .config = read_mistral,
          .weights = llama_weights,
          .ignored = {"rotary_emb.inv_freq"}};
}

LanguageFamily ministral_family() {
  return {.name = "ministral",
          .model_types = {"ministral"},
          .help = "Ministral 8B",
          .config = read_ministral,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily ministral3_family() {
  return {.name = "ministral3",
          .model_types = {"ministral3"},
          .help = "Ministral 3 of text",
          .config = read_ministral3,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily apertus_family() {
  return {.name = "apertus",
          .model_types = {"apertus"},
          .help = "Apertus",
          .config = read_apertus,
          .weights = apertus_weights,
          .ignored = {"rotary_emb"}};
}

LanguageFamily seed_oss_family() {
  return {.name = "seed_oss",
          .model_types = {"seed_oss"},
          .help = "Seed-OSS",
          .config = read_seed_oss,
          .weights = llama_weights,
          .ignored = {"rotary_emb"}};
}

}  // namespace detent
