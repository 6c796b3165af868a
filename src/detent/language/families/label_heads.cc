#include <algorithm>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

int64_t label_count(const ConfigReader& json) {
  constexpr int64_t kUsualLabels = 2;
  constexpr int64_t kMostLabels = 1 << 20;
  const auto names = json.table("id2label");
  const int64_t labels = names ? std::ssize(names->keys()) : json.integer("num_labels", kUsualLabels);
  if (labels < 1 || labels > kMostLabels)
    json.refuse(names ? "id2label" : "num_labels", fmt::format("expected 1 to {} labels", kMostLabels));
  return labels;
}

/// Names of labels 0, 1 and so on; empty where the file counts otherwise.
std::vector<std::string> label_names(const ConfigReader& json) {
  const auto table = json.table("id2label");
  if (!table) return {};
  std::vector<std::string> names;
  const auto count = std::ssize(table->keys());
  for (int64_t label = 0; label < count; ++label) {
    const Value* name = table->value(fmt::format("{}", label));
    if (name == nullptr || name->get_if<std::string>() == nullptr) return {};
    names.push_back(*name->get_if<std::string>());
  }
  return names;
}

/// Labels of the last token other than padding, or of each token, without layers before.
std::vector<HeadClass> decoder_classes(const ConfigReader& json, const LanguageConfig& /*config*/) {
  NetworkHead of_sequence{
      .kind = HeadKind::kSequenceLabels, .pooling = TokenPooling::kLast, .last_bias = false};
  NetworkHead of_tokens{.kind = HeadKind::kTokenLabels,
                        .last_bias = json.boolean("token_classification_bias", true)};
  return {{"ForCausalLM"},
          {"LMHeadModel"},
          {"ForConditionalGeneration"},
          {"Model"},
          {"ForSequenceClassification", std::move(of_sequence)},
          {"ForTokenClassification", std::move(of_tokens)}};
}

/// Classes of decoders by the ends of their names alone: files of other libraries have other beginnings.
const HeadClass* find_class(const std::string& name, const LanguageFamily& family,
                            const std::vector<HeadClass>& classes) {
  const auto is_it = [&](const HeadClass& known) {
    if (family.class_names.empty()) {
      const bool is_bare = known.name == "Model";
      const bool has_head = name.find("For") != std::string::npos || name.find("Head") != std::string::npos;
      return name.ends_with(known.name) && !(is_bare && has_head);
    }
    return std::ranges::any_of(family.class_names,
                               [&](const std::string& begin) { return name == begin + known.name; });
  };
  const auto found = std::ranges::find_if(classes, is_it);
  return found == classes.end() ? nullptr : &*found;
}

[[noreturn]] void refuse_class(const ConfigReader& json, const std::string& name,
                               const LanguageFamily& family, const std::vector<HeadClass>& classes) {
  const auto begin = std::ranges::find_if(family.class_names,
                                          [&](const std::string& known) { return name.starts_with(known); });
  const std::string first = family.class_names.empty()          ? "..."
                            : begin == family.class_names.end() ? family.class_names.front()
                                                                : *begin;
  std::vector<std::string> names;
  for (const HeadClass& known : classes) names.push_back(first + known.name);
  json.refuse("architectures", fmt::format("expected {}", fmt::join(names, ", ")));
}

}  // namespace

void read_head(const ConfigReader& json, const LanguageFamily& family, LanguageConfig& config) {
  if (!json.has("architectures")) return;
  const std::vector<std::string> names = json.texts("architectures");
  if (names.empty()) return;
  const auto read = family.classes == nullptr ? decoder_classes : family.classes;
  const std::vector<HeadClass> classes = read(json, config);
  const HeadClass* known = find_class(names.front(), family, classes);
  if (known == nullptr) refuse_class(json, names.front(), family, classes);
  NetworkHead& head = config.head = known->head;
  if (head.kind == HeadKind::kNone || head.kind == HeadKind::kMaskedTokens || head.labels > 0) return;
  head.labels = label_count(json);
  if (head.kind != HeadKind::kSpan) head.names = label_names(json);
}

NetworkHead sequence_head(const std::string& layer, Activation activation) {
  return {.kind = HeadKind::kSequenceLabels, .layer = layer, .activation = activation};
}

NetworkHead choice_head(const std::string& layer, Activation activation) {
  NetworkHead head = sequence_head(layer, activation);
  head.labels = 1;
  return head;
}

std::vector<HeadClass> usual_classes(const NetworkHead& of_sequence, const NetworkHead& of_choice) {
  return {{"Model"},
          {"ForSequenceClassification", of_sequence},
          {"ForMultipleChoice", of_choice},
          {"ForTokenClassification", {.kind = HeadKind::kTokenLabels}},
          {"ForMaskedLM", {.kind = HeadKind::kMaskedTokens}},
          {"ForQuestionAnswering", {.kind = HeadKind::kSpan, .last = "answer_span"}}};
}

std::vector<HeadClass> classes_with_pooler(const ConfigReader& /*json*/, const LanguageConfig& /*config*/) {
  return usual_classes(sequence_head("pooler", Activation::kTanh), choice_head("pooler", Activation::kTanh));
}

std::vector<HeadClass> classes_with_layer(const ConfigReader& /*json*/, const LanguageConfig& /*config*/) {
  return usual_classes(sequence_head("classifier_layer", Activation::kTanh),
                       choice_head("pooler", Activation::kTanh));
}

std::vector<StoredName> bert_head_weights(const std::string& prefix) {
  return {{"pooler", prefix + "pooler.dense"},
          {"classifier", "classifier"},
          {"next_sentence", "cls.seq_relationship"},
          {"answer_span", "qa_outputs"},
          {"head_layer", "cls.predictions.transform.dense"},
          {"head_norm", "cls.predictions.transform.LayerNorm"},
          {"head", "cls.predictions.decoder"},
          {"head", "cls.predictions"}};
}

std::vector<StoredName> roberta_head_weights(const std::string& prefix) {
  return {{"pooler", prefix + "pooler.dense"},
          {"classifier_layer", "classifier.dense"},
          {"classifier", "classifier.out_proj"},
          {"classifier", "classifier"},
          {"answer_span", "qa_outputs"},
          {"head_layer", "lm_head.dense"},
          {"head_norm", "lm_head.layer_norm"},
          {"head", "lm_head.decoder"},
          {"head", "lm_head"}};
}

std::vector<StoredName> weight_rules(const LanguageFamily& family) {
  std::vector<StoredName> rules = family.weights();
  rules.push_back({kSentenceLayer, std::string(kSentenceLayer) + ".linear"});
  if (!family.class_names.empty()) return rules;
  rules.push_back({"classifier", "score"});
  rules.push_back({"classifier", "classifier"});
  return rules;
}

}  // namespace detent
