#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

namespace detent {

class ConfigReader;  // families/config_reader.h

/// A class of transformers, and the head that it puts on the last hidden state.
struct HeadClass {
  std::string name;  // behind that of the family, as "ForMaskedLM"
  NetworkHead head = {};
};

/// One family of language models, a file each: what config.json says of it, and what its tensors are called.
struct LanguageFamily {
  std::string name;
  std::vector<std::string> model_types;  // of config.json
  std::string help;
  LanguageConfig (*config)(const ConfigReader& json);
  std::vector<StoredName> (*weights)();
  /// Parts of names of tensors that such files have besides, which the network does not need.
  std::vector<std::string> ignored = {};
  /// Beginnings of the names of its classes in transformers, as "Bert", and the rest of each; of decoders
  /// none.
  std::vector<std::string> class_names = {};
  std::vector<HeadClass> (*classes)(const ConfigReader& json, const LanguageConfig& config) = nullptr;
  /// A quant_method of config.json that its weights may have.
  std::string quantization = {};
};

LanguageFamily albert_family();
LanguageFamily apertus_family();
LanguageFamily arcee_family();
LanguageFamily bert_family();
LanguageFamily bitnet_family();
LanguageFamily bloom_family();
LanguageFamily codegen_family();
LanguageFamily cohere_family();
LanguageFamily cwm_family();
LanguageFamily deberta_v2_family();
LanguageFamily deepseek_v2_family();
LanguageFamily deepseek_v3_family();
LanguageFamily distilbert_family();
LanguageFamily dots1_family();
LanguageFamily electra_family();
LanguageFamily ernie4_5_family();
LanguageFamily ernie4_5_moe_family();
LanguageFamily eurobert_family();
LanguageFamily exaone4_family();
LanguageFamily falcon_family();
LanguageFamily gemma_family();
LanguageFamily gemma2_family();
LanguageFamily gemma3_family();
LanguageFamily gemma3_of_images_family();
LanguageFamily glm_family();
LanguageFamily glm4_moe_family();
LanguageFamily glm4_moe_lite_family();
LanguageFamily gpt2_family();
LanguageFamily gpt_bigcode_family();
LanguageFamily gpt_neo_family();
LanguageFamily gpt_neox_family();
LanguageFamily gpt_oss_family();
LanguageFamily gptj_family();
LanguageFamily granite_family();
LanguageFamily granitemoe_family();
LanguageFamily helium_family();
LanguageFamily hunyuan_family();
LanguageFamily lfm2_family();
LanguageFamily lfm2_moe_family();
LanguageFamily llama_family();
LanguageFamily minicpm3_family();
LanguageFamily ministral_family();
LanguageFamily ministral3_family();
LanguageFamily mistral_family();
LanguageFamily mixtral_family();
LanguageFamily modernbert_family();
LanguageFamily modernbert_decoder_family();
LanguageFamily mpnet_family();
LanguageFamily mpt_family();
LanguageFamily nemotron_family();
LanguageFamily nomic_bert_family();
LanguageFamily olmo_family();
LanguageFamily olmo2_family();
LanguageFamily olmoe_family();
LanguageFamily opt_family();
LanguageFamily persimmon_family();
LanguageFamily phi_family();
LanguageFamily phi3_family();
LanguageFamily qwen2_family();
LanguageFamily qwen2_moe_family();
LanguageFamily qwen3_family();
LanguageFamily qwen3_moe_family();
LanguageFamily roberta_family();
LanguageFamily seed_oss_family();
LanguageFamily smollm3_family();
LanguageFamily stablelm_family();
LanguageFamily starcoder2_family();
LanguageFamily t5_family();
LanguageFamily umt5_family();
LanguageFamily youtu_family();

std::span<const LanguageFamily> all_language_families();
/// Throws Error with the nearest known name.
const LanguageFamily& find_language_family(const std::string& name);
/// By the model_type of a config.json; nullptr where it is unknown.
const LanguageFamily* family_of_model_type(const std::string& model_type);

/// Name of the layer behind the pooling of sentence-transformers.
inline constexpr const char* kSentenceLayer = "sentence_layer";

/// Its rules for tensors, and those for heads that stand on any network.
std::vector<StoredName> weight_rules(const LanguageFamily& family);

// Heads, by the class that a file names first in `architectures`.

/// A class that the family does not have is refused by name. A file without classes has no head.
void read_head(const ConfigReader& json, const LanguageFamily& family, LanguageConfig& config);
/// Labels of the first token, through a layer of that name and an activation.
NetworkHead sequence_head(const std::string& layer, Activation activation);
/// One label of a sequence that is one of several choices.
NetworkHead choice_head(const std::string& layer, Activation activation);
/// Without a head, with labels of sequences or tokens, masked tokens, answers.
std::vector<HeadClass> usual_classes(const NetworkHead& of_sequence, const NetworkHead& of_choice);
/// As BERT's: labels by the pooler.
std::vector<HeadClass> classes_with_pooler(const ConfigReader& json, const LanguageConfig& config);
/// As RoBERTa's: labels by a layer of the head's own.
std::vector<HeadClass> classes_with_layer(const ConfigReader& json, const LanguageConfig& config);
/// Tensors of the heads that stand on BERT, or RoBERTa.
std::vector<StoredName> bert_head_weights(const std::string& prefix);
std::vector<StoredName> roberta_head_weights(const std::string& prefix);

// Encoders: layer norms after each part, a norm of the embedding.

LanguageConfig read_encoder(const ConfigReader& json, const std::string& family);
/// Positions count tokens other than the padding `pad`, from the row after that of the padding on
/// (RoBERTa).
LanguageConfig read_unpadded_encoder(const ConfigReader& json, const std::string& family, int64_t pad);
std::vector<StoredName> encoder_weights(const std::string& prefix);
/// Names of heads that stand on an encoder.
std::vector<std::string> encoder_heads();

// Gemma 1 to 3: norms that multiply by 1 + weight, a scaled embedding and a tied head.

LanguageConfig common_gemma(const ConfigReader& json, const std::string& family);
/// Which layers have a window, and scores scaled by a number of its own (Gemma 2 and 3).
void read_gemma_windows(const ConfigReader& json, LanguageConfig& config, int64_t pattern);
/// Names of tensors with norms around (Gemma 2 and 3).
std::vector<StoredName> around_weights();

/// Names of tensors with norms after each part, and of queries and keys (OLMo 2, EXAONE 4).
std::vector<StoredName> behind_weights();

// Experts, and which layers have them.

/// Keys of config.json that count experts.
struct ExpertKeys {
  const char* count = "n_routed_experts";
  const char* used = "num_experts_per_tok";
  const char* shared = "n_shared_experts";
};

/// How many experts there are, a token uses and all tokens share, and their size. Throws Error on counts
/// below 1.
void read_experts(const ConfigReader& json, LanguageConfig& config, const ExpertKeys& keys);
/// mlp_layer_types, or all layers from first_k_dense_replace (`first` where it is missing) on. Files may have
/// layers after those of the network, which predict further tokens.
void read_sparse_layers(const ConfigReader& json, LanguageConfig& config, int64_t first);

/// Defaults of families whose routers have sigmoids.
struct SigmoidExperts {
  int64_t first_layer = 1;
  double scale = 1;
  bool normalized = true;
};

/// Experts are picked by sigmoids with a bias, in the groups whose greatest two sum up to most (DeepSeek V3,
/// arXiv:2412.19437).
void read_sigmoid_experts(const ConfigReader& json, LanguageConfig& config, const SigmoidExperts& defaults);

// Families whose kin have experts.

LanguageConfig read_qwen2(const ConfigReader& json);
LanguageConfig read_qwen3(const ConfigReader& json);
LanguageConfig read_granite(const ConfigReader& json);
std::vector<StoredName> qwen3_weights();

/// Layers from max_window_layers on have a window where use_sliding_window says so.
void read_qwen_windows(const ConfigReader& json, LanguageConfig& config);

}  // namespace detent
