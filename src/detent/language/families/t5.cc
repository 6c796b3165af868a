#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// The encoder of T5 and its kin: RMS norms before, biases of scores by distance, scores that nothing scales.
LanguageConfig read_t5(const ConfigReader& json, const std::string& family) {
  constexpr int64_t kT5Context = 512;
  constexpr int64_t kHeadElements = 64;
  constexpr int64_t kBuckets = 32;
  LanguageConfig config = common_config(json, family, true);
  constexpr int64_t kMostLayers = 4096;
  config.layers = json.integer("num_layers");
  if (config.layers < 1 || config.layers > kMostLayers) json.refuse("num_layers", "expected 1 to 4096");
  config.hidden = json.integer("d_model");
  config.heads = config.kv_heads = json.integer("num_heads");
  if (config.heads < 1) json.refuse("num_heads", "expected at least 1");
  config.is_causal = false;
  config.head_size = json.integer("d_kv", kHeadElements);
  config.intermediate = json.integer("d_ff");
  config.context = json.integer("n_positions", kT5Context);
  config.norm_eps = json.number("layer_norm_epsilon", 1e-6);
  config.attention_scale = 1;
  config.distances = json.integer("relative_attention_num_buckets", kBuckets);
  config.most_distance = json.integer("relative_attention_max_distance", config.most_distance);
  const bool is_first = json.text("model_type", "t5") == "t5";
  const std::string kind = json.text("feed_forward_proj", is_first ? "relu" : "gated-gelu");
  constexpr std::string_view kGated = "gated-";
  const bool is_gated = kind.starts_with(kGated);
  config.perceptron = is_gated ? PerceptronKind::kGated : PerceptronKind::kPlain;
  const Value name = kind == "gated-gelu" ? "gelu_new" : is_gated ? kind.substr(kGated.size()) : kind;
  const Table act{{"feed_forward_proj", name}};
  config.activation = ConfigReader(act, json.where()).activation("feed_forward_proj", "relu");
  return config;
}

LanguageConfig read_t5_of_one_table(const ConfigReader& json) { return read_t5(json, "t5"); }

LanguageConfig read_umt5(const ConfigReader& json) {
  LanguageConfig config = read_t5(json, "umt5");
  config.distances_by_layer = true;
  return config;
}

std::vector<HeadClass> t5_classes(const ConfigReader& /*json*/, const LanguageConfig& /*config*/) {
  return {{"EncoderModel"}, {"Model"}, {"ForConditionalGeneration"}, {"WithLMHeadModel"}};
}

std::vector<StoredName> t5_weights() {
  const std::string attention = "encoder.block.{}.layer.0.";
  const std::string perceptron = "encoder.block.{}.layer.1.";
  return {{"embed_tokens", "shared"},
          {"embed_tokens", "encoder.embed_tokens"},
          {"layers.{}.attention_norm", attention + "layer_norm"},
          {"layers.{}.attention.query", attention + "SelfAttention.q"},
          {"layers.{}.attention.key", attention + "SelfAttention.k"},
          {"layers.{}.attention.value", attention + "SelfAttention.v"},
          {"layers.{}.attention.output", attention + "SelfAttention.o"},
          {"layers.{}.attention.distance_bias", attention + "SelfAttention.relative_attention_bias"},
          {"distance_bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias"},
          {"layers.{}.perceptron_norm", perceptron + "layer_norm"},
          {"layers.{}.perceptron.gate", perceptron + "DenseReluDense.wi_0"},
          {"layers.{}.perceptron.up", perceptron + "DenseReluDense.wi_1"},
          {"layers.{}.perceptron.up", perceptron + "DenseReluDense.wi"},
          {"layers.{}.perceptron.down", perceptron + "DenseReluDense.wo"},
          {"norm", "encoder.final_layer_norm"}};
}

}  // namespace

LanguageFamily t5_family() {
  return {.name = "t5",
          .model_types = {"t5", "mt5"},
          .help = "T5, FLAN-T5 and mT5: the encoder",
          .config = read_t5_of_one_table,
          .weights = t5_weights,
          .ignored = {"decoder.", "lm_head.", "encoder.embed_tokens"},
          .class_names = {"T5", "MT5"},
          .classes = t5_classes};
}

LanguageFamily umt5_family() {
  return {.name = "umt5",
          .model_types = {"umt5"},
          .help = "UMT5: the encoder",
          .config = read_umt5,
          .weights = t5_weights,
          .ignored = {"decoder.", "lm_head.", "encoder.embed_tokens"},
          .class_names = {"UMT5"},
          .classes = t5_classes};
}

}  // namespace detent
