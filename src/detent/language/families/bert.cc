#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {

LanguageConfig read_encoder(const ConfigReader& json, const std::string& family) {
  LanguageConfig config = common_config(json, family, true);
  read_sizes(json, config);
  config.is_causal = false;
  config.kv_heads = config.heads;
  config.norm = NormKind::kLayerNorm;
  config.norm_place = NormPlace::kAfter;
  config.norm_eps = json.number("layer_norm_eps", 1e-12);
  config.final_norm = false;
  config.embedding_norm = true;
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("hidden_act", "gelu");
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  config.positions = config.context;
  config.token_types = json.integer("type_vocab_size", 2);
  config.head_layer = config.head_layer_bias = config.head_bias = true;
  config.head_activation = config.activation;
  json.expect("is_decoder", false);
  json.expect("add_cross_attention", false);
  json.expect("position_embedding_type", "absolute");
  return config;
}

std::vector<StoredName> encoder_weights(const std::string& prefix) {
  const std::string layer = prefix + "encoder.layer.{}.";
  return {{"embed_tokens", prefix + "embeddings.word_embeddings"},
          {"embed_positions", prefix + "embeddings.position_embeddings"},
          {"embed_types", prefix + "embeddings.token_type_embeddings"},
          {"embed_norm", prefix + "embeddings.LayerNorm"},
          {"layers.{}.attention.query", layer + "attention.self.query"},
          {"layers.{}.attention.key", layer + "attention.self.key"},
          {"layers.{}.attention.value", layer + "attention.self.value"},
          {"layers.{}.attention.output", layer + "attention.output.dense"},
          {"layers.{}.attention_norm", layer + "attention.output.LayerNorm"},
          {"layers.{}.perceptron.up", layer + "intermediate.dense"},
          {"layers.{}.perceptron.down", layer + "output.dense"},
          {"layers.{}.perceptron_norm", layer + "output.LayerNorm"}};
}

std::vector<std::string> encoder_heads() {
  return {"pooler.", "cls.", "lm_head.", "classifier.", "qa_outputs.", "position_ids"};
}

namespace {

std::vector<HeadClass> bert_classes(const ConfigReader& json, const LanguageConfig& config) {
  std::vector<HeadClass> classes = classes_with_pooler(json, config);
  NetworkHead next = sequence_head("pooler", Activation::kTanh);
  next.last = "next_sentence";
  next.labels = 2;
  NetworkHead both = next;
  both.kind = HeadKind::kMaskedTokensAndLabels;
  both.result = "seq_relationship_logits";
  classes.push_back({"ForNextSentencePrediction", next});
  classes.push_back({"ForPreTraining", both});
  return classes;
}

std::vector<StoredName> bert_weights() {
  std::vector<StoredName> rules = encoder_weights("bert.");
  for (StoredName& rule : bert_head_weights("bert.")) rules.push_back(std::move(rule));
  return rules;
}

}  // namespace

LanguageFamily bert_family() {
  return {.name = "bert",
          .model_types = {"bert"},
          .help = "BERT and MiniLM, encoders",
          .config = [](const ConfigReader& json) { return read_encoder(json, "bert"); },
          .weights = bert_weights,
          .ignored = encoder_heads(),
          .class_names = {"Bert"},
          .classes = bert_classes};
}

}  // namespace detent
