#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As BERT with tokens of a size of their own; all layers have the same weights.
LanguageConfig read_albert(const ConfigReader& json) {
  constexpr int64_t kTokenSize = 128;
  LanguageConfig config = read_encoder(json, "albert");
  config.embedded_size = json.integer("embedding_size", kTokenSize);
  config.projects_embedding = true;
  config.activation = config.head_activation = json.activation("hidden_act", "gelu_new");
  json.expect("num_hidden_groups", int64_t{1});
  json.expect("inner_group_num", int64_t{1});
  return config;
}

std::vector<HeadClass> albert_classes(const ConfigReader& json, const LanguageConfig& config) {
  std::vector<HeadClass> classes = classes_with_pooler(json, config);
  NetworkHead both = sequence_head("pooler", Activation::kTanh);
  both.kind = HeadKind::kMaskedTokensAndLabels;
  both.last = "sentence_order";
  both.result = "sop_logits";
  classes.push_back({"ForPreTraining", both});
  return classes;
}

std::vector<StoredName> albert_weights() {
  const std::string embeddings = "albert.embeddings.";
  const std::string layer = "albert.encoder.albert_layer_groups.0.albert_layers.0.";
  return {{"embed_tokens", embeddings + "word_embeddings"},
          {"embed_positions", embeddings + "position_embeddings"},
          {"embed_types", embeddings + "token_type_embeddings"},
          {"embed_norm", embeddings + "LayerNorm"},
          {"project_in", "albert.encoder.embedding_hidden_mapping_in"},
          {"layers.{}.attention.query", layer + "attention.query"},
          {"layers.{}.attention.key", layer + "attention.key"},
          {"layers.{}.attention.value", layer + "attention.value"},
          {"layers.{}.attention.output", layer + "attention.dense"},
          {"layers.{}.attention_norm", layer + "attention.LayerNorm"},
          {"layers.{}.perceptron.up", layer + "ffn"},
          {"layers.{}.perceptron.down", layer + "ffn_output"},
          {"layers.{}.perceptron_norm", layer + "full_layer_layer_norm"},
          {"pooler", "albert.pooler"},
          {"classifier", "classifier"},
          {"sentence_order", "sop_classifier.classifier"},
          {"answer_span", "qa_outputs"},
          {"head_layer", "predictions.dense"},
          {"head_norm", "predictions.LayerNorm"},
          {"head", "predictions.decoder"},
          {"head", "predictions"}};
}

}  // namespace

LanguageFamily albert_family() {
  std::vector<std::string> heads = encoder_heads();
  heads.insert(heads.end(), {"predictions.", "sop_classifier."});
  return {.name = "albert",
          .model_types = {"albert"},
          .help = "ALBERT, an encoder",
          .config = read_albert,
          .weights = albert_weights,
          .ignored = heads,
          .class_names = {"Albert"},
          .classes = albert_classes};
}

}  // namespace detent
