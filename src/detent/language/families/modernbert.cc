#include <algorithm>

#include <fmt/format.h>

#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// An encoder that turns: layer norms before, without biases, joined tensors, windows in two of three layers.
LanguageConfig read_modernbert(const ConfigReader& json) {
  constexpr int64_t kEvery = 3;
  constexpr int64_t kWindow = 128;
  constexpr double kGlobalTheta = 160000;
  constexpr double kThetaOfWindows = 10000;
  LanguageConfig config = common_config(json, "modernbert", true);
  read_sizes(json, config);
  config.is_causal = false;
  config.kv_heads = config.heads;
  config.norm = NormKind::kLayerNorm;
  config.norm_eps = json.number("norm_eps", 1e-5);
  config.norm_bias = json.boolean("norm_bias", false);
  config.first_norm = false;
  config.embedding_norm = true;
  config.activation = json.activation("hidden_activation", "gelu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.perceptron_bias = json.boolean("mlp_bias", false);
  config.head_layer = true;
  config.head_layer_bias = json.boolean("classifier_bias", false);
  config.head_activation = json.activation("classifier_activation", "gelu");
  config.head_bias = json.boolean("decoder_bias", true);
  config.window = json.integer("local_attention", kWindow) / 2;
  if (config.window < 1) json.refuse("local_attention", "expected at least 2");
  const int64_t every = json.integer("global_attn_every_n_layers", kEvery);
  if (every < 1) json.refuse("global_attn_every_n_layers", "expected at least 1");
  std::vector<bool> windows;
  for (int64_t layer = 0; layer < config.layers; ++layer) windows.push_back(layer % every != 0);
  config.has_window = read_windows(json, config.layers, std::move(windows));
  const double theta = json.number("global_rope_theta", kGlobalTheta);
  const double of_windows = json.number("local_rope_theta", kThetaOfWindows);
  if (json.has("rope_parameters")) {
    config.rotary = read_rotary(json, config, "full_attention", theta);
    config.window_rotary = read_rotary(json, config, "sliding_attention", of_windows);
  } else {
    config.rotary = rotary_of({.theta = theta}, config.head_size, config.context);
    config.window_rotary = rotary_of({.theta = of_windows}, config.head_size, config.context);
  }
  return config;
}

/// The same network of text before each token: half the window, a head with a layer of its own.
LanguageConfig read_modernbert_decoder(const ConfigReader& json) {
  LanguageConfig config = read_modernbert(json);
  config.family = "modernbert-decoder";
  config.is_causal = true;
  config.window = json.integer("sliding_window", config.window);
  if (config.window < 1) json.refuse("sliding_window", "expected at least 1");
  return config;
}

/// The layer and the norm of masked tokens, before labels too.
NetworkHead labels_behind_layer(HeadKind kind, const LanguageConfig& config) {
  return {.kind = kind,
          .layer = "head_layer",
          .layer_bias = config.head_layer_bias,
          .activation = config.head_activation,
          .norm = "head_norm"};
}

std::vector<HeadClass> modernbert_classes(const ConfigReader& json, const LanguageConfig& config) {
  NetworkHead of_sequence = labels_behind_layer(HeadKind::kSequenceLabels, config);
  const std::string pooling = json.text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") json.refuse("classifier_pooling", "expected cls or mean");
  if (pooling == "mean") of_sequence.pooling = TokenPooling::kMean;
  return {{"Model"},
          {"ForSequenceClassification", of_sequence},
          {"ForTokenClassification", labels_behind_layer(HeadKind::kTokenLabels, config)},
          {"ForMaskedLM", {.kind = HeadKind::kMaskedTokens}},
          {"ForQuestionAnswering", labels_behind_layer(HeadKind::kSpan, config)}};
}

std::vector<HeadClass> modernbert_decoder_classes(const ConfigReader& /*json*/,
                                                  const LanguageConfig& config) {
  NetworkHead of_sequence = labels_behind_layer(HeadKind::kSequenceLabels, config);
  of_sequence.pooling = TokenPooling::kLast;
  of_sequence.last_bias = config.head_layer_bias;
  return {{"Model"}, {"ForCausalLM"}, {"ForSequenceClassification", of_sequence}};
}

std::vector<StoredName> modernbert_weights() {
  const std::string layer = "model.layers.{}.";
  return {{"embed_tokens", "model.embeddings.tok_embeddings"},
          {"embed_norm", "model.embeddings.norm"},
          {"layers.{}.attention_norm", layer + "attn_norm"},
          {"layers.{}.attention.query", layer + "attn.Wqkv", WeightPart::kQuery},
          {"layers.{}.attention.key", layer + "attn.Wqkv", WeightPart::kKey},
          {"layers.{}.attention.value", layer + "attn.Wqkv", WeightPart::kValue},
          {"layers.{}.attention.output", layer + "attn.Wo"},
          {"layers.{}.perceptron_norm", layer + "mlp_norm"},
          {"layers.{}.perceptron.gate", layer + "mlp.Wi", WeightPart::kGate},
          {"layers.{}.perceptron.up", layer + "mlp.Wi", WeightPart::kUp},
          {"layers.{}.perceptron.down", layer + "mlp.Wo"},
          {"norm", "model.final_norm"},
          {"classifier", "classifier"},
          {"head_layer", "head.dense"},
          {"head_norm", "head.norm"},
          {"head", "decoder"}};
}

std::vector<StoredName> modernbert_decoder_weights() {
  std::vector<StoredName> rules = modernbert_weights();
  for (StoredName& rule : rules) {
    const bool is_joined =
        rule.part == WeightPart::kQuery || rule.part == WeightPart::kKey || rule.part == WeightPart::kValue;
    if (!is_joined) continue;
    const char* name = rule.part == WeightPart::kQuery ? "q" : rule.part == WeightPart::kKey ? "k" : "v";
    rule.stored = fmt::format("model.layers.{{}}.attn.{}_proj", name);
    rule.part = WeightPart::kWhole;
  }
  const auto head = std::ranges::find(rules, "head_layer", &StoredName::name);
  rules.insert(head, {{"head_layer", "lm_head.dense"}, {"head_norm", "lm_head.norm"}});
  return rules;
}

}  // namespace

LanguageFamily modernbert_decoder_family() {
  return {.name = "modernbert-decoder",
          .model_types = {"modernbert-decoder"},
          .help = "ModernBERT's decoder, Ettin",
          .config = read_modernbert_decoder,
          .weights = modernbert_decoder_weights,
          .ignored = {"rotary_emb"},
          .class_names = {"ModernBertDecoder"},
          .classes = modernbert_decoder_classes};
}

LanguageFamily modernbert_family() {
  return {.name = "modernbert",
          .model_types = {"modernbert"},
          .help = "ModernBERT, an encoder",
          .config = read_modernbert,
          .weights = modernbert_weights,
          .ignored = {"head.", "decoder.", "classifier.", "rotary_emb"},
          .class_names = {"ModernBert"},
          .classes = modernbert_classes};
}

}  // namespace detent
