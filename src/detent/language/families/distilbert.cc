#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As BERT, without types of tokens.
LanguageConfig read_distilbert(const ConfigReader& json) {
  constexpr int64_t kMostLayers = 4096;
  LanguageConfig config = common_config(json, "distilbert", true);
  config.layers = json.integer("n_layers");
  if (config.layers < 1 || config.layers > kMostLayers)
    json.refuse("n_layers", fmt::format("expected 1 to {}", kMostLayers));
  config.hidden = json.integer("dim");
  config.heads = json.integer("n_heads");
  if (config.heads < 1 || config.hidden % config.heads != 0)
    json.refuse("n_heads", fmt::format("expected a divisor of dim, {}", config.hidden));
  config.kv_heads = config.heads;
  config.head_size = config.hidden / config.heads;
  config.intermediate = json.integer("hidden_dim");
  config.context = config.positions = json.integer("max_position_embeddings");
  config.is_causal = false;
  config.norm = NormKind::kLayerNorm;
  config.norm_place = NormPlace::kAfter;
  config.norm_eps = 1e-12;
  config.final_norm = false;
  config.embedding_norm = true;
  config.perceptron = PerceptronKind::kPlain;
  config.activation = json.activation("activation", "gelu");
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  config.head_layer = config.head_layer_bias = config.head_bias = true;
  config.head_activation = config.activation;
  return config;
}

std::vector<HeadClass> distilbert_classes(const ConfigReader& /*json*/, const LanguageConfig& /*config*/) {
  return usual_classes(sequence_head("classifier_layer", Activation::kRelu),
                       choice_head("classifier_layer", Activation::kRelu));
}

std::vector<StoredName> distilbert_weights() {
  const std::string layer = "distilbert.transformer.layer.{}.";
  return {{"embed_tokens", "distilbert.embeddings.word_embeddings"},
          {"embed_positions", "distilbert.embeddings.position_embeddings"},
          {"embed_norm", "distilbert.embeddings.LayerNorm"},
          {"layers.{}.attention.query", layer + "attention.q_lin"},
          {"layers.{}.attention.key", layer + "attention.k_lin"},
          {"layers.{}.attention.value", layer + "attention.v_lin"},
          {"layers.{}.attention.output", layer + "attention.out_lin"},
          {"layers.{}.attention_norm", layer + "sa_layer_norm"},
          {"layers.{}.perceptron.up", layer + "ffn.lin1"},
          {"layers.{}.perceptron.down", layer + "ffn.lin2"},
          {"layers.{}.perceptron_norm", layer + "output_layer_norm"},
          {"classifier_layer", "pre_classifier"},
          {"classifier", "classifier"},
          {"answer_span", "qa_outputs"},
          {"head_layer", "vocab_transform"},
          {"head_norm", "vocab_layer_norm"},
          {"head", "vocab_projector"}};
}

}  // namespace

LanguageFamily distilbert_family() {
  return {.name = "distilbert",
          .model_types = {"distilbert"},
          .help = "DistilBERT, an encoder",
          .config = read_distilbert,
          .weights = distilbert_weights,
          .ignored = {"vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "pre_classifier.",
                      "classifier.", "qa_outputs.", "position_ids"},
          .class_names = {"DistilBert"},
          .classes = distilbert_classes};
}

}  // namespace detent
