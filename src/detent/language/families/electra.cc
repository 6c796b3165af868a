#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

/// As BERT; tokens may have a size of their own.
LanguageConfig read_electra(const ConfigReader& json) {
  constexpr int64_t kTokenSize = 128;
  LanguageConfig config = read_encoder(json, "electra");
  config.embedded_size = json.integer("embedding_size", kTokenSize);
  config.head_activation = Activation::kGelu;
  return config;
}

/// Choices by a summary, of which the file may say much.
NetworkHead electra_choice(const ConfigReader& json) {
  NetworkHead head = choice_head("summary", Activation::kGelu);
  json.expect("summary_type", "first");
  json.expect("summary_use_proj", true);
  json.expect("summary_proj_to_labels", false);
  head.activation = json.activation("summary_activation", "gelu");
  return head;
}

std::vector<HeadClass> electra_classes(const ConfigReader& json, const LanguageConfig& config) {
  std::vector<HeadClass> classes =
      usual_classes(sequence_head("classifier_layer", Activation::kGelu), electra_choice(json));
  classes.push_back({"ForPreTraining",
                     {.kind = HeadKind::kTokenScores,
                      .layer = "replaced_layer",
                      .activation = config.activation,
                      .last = "replaced",
                      .labels = 1}});
  return classes;
}

std::vector<StoredName> electra_weights() {
  std::vector<StoredName> rules = encoder_weights("electra.");
  const std::vector<StoredName> more = {{"project_in", "electra.embeddings_project"},
                                        {"classifier_layer", "classifier.dense"},
                                        {"classifier", "classifier.out_proj"},
                                        {"classifier", "classifier"},
                                        {"summary", "sequence_summary.summary"},
                                        {"answer_span", "qa_outputs"},
                                        {"replaced_layer", "discriminator_predictions.dense"},
                                        {"replaced", "discriminator_predictions.dense_prediction"},
                                        {"head_layer", "generator_predictions.dense"},
                                        {"head_norm", "generator_predictions.LayerNorm"},
                                        {"head", "generator_lm_head"}};
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

std::vector<std::string> electra_heads() {
  std::vector<std::string> heads = encoder_heads();
  heads.insert(heads.end(), {"discriminator_predictions.", "generator_predictions.", "generator_lm_head.",
                             "sequence_summary."});
  return heads;
}

}  // namespace

LanguageFamily electra_family() {
  return {.name = "electra",
          .model_types = {"electra"},
          .help = "ELECTRA, an encoder",
          .config = read_electra,
          .weights = electra_weights,
          .ignored = electra_heads(),
          .class_names = {"Electra"},
          .classes = electra_classes};
}

}  // namespace detent
