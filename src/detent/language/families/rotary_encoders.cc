#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

// Encoders that turn, with windows in no layer.

/// Llama that sees both sides.
LanguageConfig read_eurobert(const ConfigReader& json) {
  constexpr double kEuroTheta = 250000;
  LanguageConfig config = common_config(json, "eurobert", false);
  read_sizes(json, config);
  config.is_causal = false;
  config.norm_eps = json.number("rms_norm_eps", 1e-5);
  config.activation = json.activation("hidden_act", "silu");
  config.qkv_bias = config.output_bias = json.boolean("attention_bias", false);
  config.perceptron_bias = config.head_bias = json.boolean("mlp_bias", false);
  config.rotary = config.window_rotary = read_rotary(json, config, "", kEuroTheta);
  return config;
}

/// Norms after each part, gated perceptrons, no biases but of norms. Files before transformers 5 have the
/// keys of GPT-2.
LanguageConfig read_nomic_bert(const ConfigReader& json) {
  constexpr double kNomicTheta = 1000;
  LanguageConfig config = common_config(json, "nomic_bert", true);
  const bool is_old = json.has("n_embd");
  if (is_old) {
    read_sizes_as(json, {"n_layer", "n_embd", "n_head"}, config);
    config.intermediate = json.integer("n_inner");
    config.context = json.integer("n_positions");
    json.expect("qkv_proj_bias", false);
    json.expect("mlp_fc1_bias", false);
    json.expect("mlp_fc2_bias", false);
    json.expect("prenorm", false);
    json.expect("use_rms_norm", false);
    json.expect("activation_function", "swiglu");
    json.expect("rotary_emb_fraction", 1.0);
    json.expect("rotary_emb_interleaved", false);
    json.expect("rotary_emb_scale_base", Value());
    json.expect("moe_every_n_layers", int64_t{0});
  } else {
    read_sizes(json, config);
    config.activation = json.activation("hidden_act", "silu");
  }
  config.is_causal = false;
  config.kv_heads = config.heads;
  config.norm = NormKind::kLayerNorm;
  config.norm_place = NormPlace::kAfter;
  config.norm_eps = json.number(is_old ? "layer_norm_epsilon" : "layer_norm_eps", 1e-12);
  config.final_norm = false;
  config.embedding_norm = true;
  config.token_types = json.integer("type_vocab_size", 2);
  config.head_layer = config.head_layer_bias = config.head_bias = true;
  config.head_activation = config.activation;
  config.rotary = config.window_rotary =
      read_rotary(json, config, "", json.number("rotary_emb_base", kNomicTheta));
  return config;
}

std::vector<HeadClass> eurobert_classes(const ConfigReader& json, const LanguageConfig& /*config*/) {
  NetworkHead of_sequence = sequence_head("classifier_layer", Activation::kGelu);
  const std::string pooling = json.text("classifier_pooling", "late");
  if (pooling != "bos" && pooling != "mean" && pooling != "late")
    json.refuse("classifier_pooling", "expected bos, mean or late");
  if (pooling == "mean") of_sequence.pooling = TokenPooling::kMean;
  if (pooling == "late") of_sequence.pooling = TokenPooling::kMeanOfLogits;
  return {{"Model"},
          {"ForSequenceClassification", of_sequence},
          {"ForTokenClassification", {.kind = HeadKind::kTokenLabels}},
          {"ForMaskedLM", {.kind = HeadKind::kMaskedTokens}}};
}

std::vector<StoredName> eurobert_weights() {
  std::vector<StoredName> rules = llama_weights();
  rules.push_back({"classifier_layer", "dense"});
  rules.push_back({"classifier", "classifier"});
  return rules;
}

std::vector<HeadClass> nomic_bert_classes(const ConfigReader& json, const LanguageConfig& config) {
  std::vector<HeadClass> classes = classes_with_pooler(json, config);
  std::erase_if(classes, [](const HeadClass& known) {
    return known.name == "ForMultipleChoice" || known.name == "ForQuestionAnswering";
  });
  return classes;
}

std::vector<StoredName> nomic_bert_weights() {
  const std::string prefix = "nomic_bert.";
  const std::string layer = prefix + "layers.{}.";
  const std::string old = prefix + "encoder.layers.{}.";
  return {{"embed_tokens", prefix + "embeddings.word_embeddings"},
          {"embed_types", prefix + "embeddings.token_type_embeddings"},
          {"embed_norm", prefix + "embeddings.LayerNorm"},
          {"embed_norm", prefix + "emb_ln"},
          {"layers.{}.attention.query", layer + "self_attn.q_proj"},
          {"layers.{}.attention.query", old + "attn.Wqkv", WeightPart::kQuery},
          {"layers.{}.attention.key", layer + "self_attn.k_proj"},
          {"layers.{}.attention.key", old + "attn.Wqkv", WeightPart::kKey},
          {"layers.{}.attention.value", layer + "self_attn.v_proj"},
          {"layers.{}.attention.value", old + "attn.Wqkv", WeightPart::kValue},
          {"layers.{}.attention.output", layer + "self_attn.o_proj"},
          {"layers.{}.attention.output", old + "attn.out_proj"},
          {"layers.{}.attention_norm", layer + "post_attention_layernorm"},
          {"layers.{}.attention_norm", old + "norm1"},
          {"layers.{}.perceptron.gate", layer + "mlp.gate_proj"},
          {"layers.{}.perceptron.gate", old + "mlp.fc12"},
          {"layers.{}.perceptron.up", layer + "mlp.up_proj"},
          {"layers.{}.perceptron.up", old + "mlp.fc11"},
          {"layers.{}.perceptron.down", layer + "mlp.down_proj"},
          {"layers.{}.perceptron.down", old + "mlp.fc2"},
          {"layers.{}.perceptron_norm", layer + "post_mlp_layernorm"},
          {"layers.{}.perceptron_norm", old + "norm2"},
          {"pooler", prefix + "pooler.dense"},
          {"classifier", "classifier"},
          {"head_layer", "cls.predictions.transform.dense"},
          {"head_norm", "cls.predictions.transform.layer_norm"},
          {"head", "cls.predictions.decoder"},
          {"head", "cls.predictions"}};
}

}  // namespace

LanguageFamily eurobert_family() {
  return {.name = "eurobert",
          .model_types = {"eurobert"},
          .help = "EuroBERT, an encoder",
          .config = read_eurobert,
          .weights = eurobert_weights,
          .ignored = {"rotary_emb", "lm_head.", "classifier.", "dense."},
          .class_names = {"EuroBert"},
          .classes = eurobert_classes};
}

LanguageFamily nomic_bert_family() {
  return {.name = "nomic_bert",
          .model_types = {"nomic_bert"},
          .help = "NomicBERT and its text embeddings, an encoder",
          .config = read_nomic_bert,
          .weights = nomic_bert_weights,
          .ignored = {"rotary_emb", "cls.", "pooler.", "classifier.", "qa_outputs."},
          .class_names = {"NomicBert"},
          .classes = nomic_bert_classes};
}

}  // namespace detent
