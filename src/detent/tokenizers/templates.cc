#include <algorithm>

#include "detent/core/error.h"
#include "detent/tokenizers/json_object.h"
#include "detent/tokenizers/tokenizer_pipeline.h"

namespace detent {
namespace {

int64_t checked_id(const Value& value, const std::string& name) {
  const auto* id = value.get_if<int64_t>();
  if (id == nullptr || *id < 0) fail("{}: an id expected, not {}", name, value_text(value));
  return *id;
}

/// The id of ["[SEP]", 102].
int64_t paired_id(const JsonObject& object, std::string_view key) {
  const List& pair = object.list(key);
  if (pair.size() != 2) fail("{}: a token and its id expected", object.at(key));
  return checked_id(pair[1], object.at(key));
}

TemplatePart sequence_part() { return {true, {}}; }

SequenceTemplate between(int64_t first, int64_t last) {
  return {TemplatePart{false, {first}}, sequence_part(), TemplatePart{false, {last}}};
}

SequenceTemplate template_of(const JsonObject& object) {
  SequenceTemplate parts;
  const JsonObject tokens = object.object("special_tokens");
  for (const Value& value : object.list("single")) {
    const JsonObject part(value, object.at("single"));
    if (part.find("Sequence") != nullptr) {
      const std::string which = part.object("Sequence").text("id");
      if (which != "A") fail("{}: sequence \"{}\" in what is for one sequence", part.name(), which);
      if (std::ranges::any_of(parts, &TemplatePart::is_sequence))
        fail("{}: a sequence that is there twice is not supported", object.name());
      parts.push_back(sequence_part());
      continue;
    }
    const std::string id = part.object("SpecialToken").text("id");
    const JsonObject token = tokens.object(id);
    TemplatePart& added = parts.emplace_back();
    for (const Value& number : token.list("ids")) added.ids.push_back(checked_id(number, token.at("ids")));
  }
  return parts;
}

void add_templates(const JsonObject& object, std::vector<SequenceTemplate>& templates) {
  const std::string type = object.type();
  if (type == "ByteLevel") return;  // about places in the text, which ids do not have
  if (type == "Sequence") {
    for (const Value& step : object.list("processors"))
      add_templates({step, object.at("processors")}, templates);
    return;
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    const int64_t first = paired_id(object, "cls");
    const int64_t last = paired_id(object, "sep");
    templates.push_back(between(first, last));
    return;
  }
  if (type != "TemplateProcessing")
    fail(
        "{}: the post-processor \"{}\" is not supported (supported: BertProcessing, ByteLevel, "
        "RobertaProcessing, Sequence, "
        "TemplateProcessing)",
        object.name(), type);
  templates.push_back(template_of(object));
}

}  // namespace

std::vector<SequenceTemplate> make_templates(const Value& value, const std::string& name) {
  std::vector<SequenceTemplate> templates;
  if (!value.is_na()) add_templates({value, name}, templates);
  return templates;
}

}  // namespace detent
