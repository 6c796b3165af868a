#include "detent/cli/commands/field_flags.h"

#include <algorithm>
#include <charconv>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/option_fields.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/text.h"

namespace detent {
namespace {

template <class T>
Value number_or_text(const std::string& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool complete = error == std::errc() && end == text.data() + text.size();
  return complete ? Value(number) : Value(text);
}

/// The pass refuses, with its own words, what stays text though it should be something else.
Value parse_option(const FieldDescription& field, const std::string& text) {
  if (field.type.ends_with("or NA") && text == "NA") return {};
  if (field.type.starts_with("integer")) return number_or_text<int64_t>(text);
  if (field.type.starts_with("number")) return number_or_text<double>(text);
  if (field.type == "boolean" && (text == "true" || text == "false")) return Value(text == "true");
  if (!field.type.starts_with("list of")) return Value(text);
  List list;
  for (const std::string& part : parts_of(text)) list.emplace_back(part);
  return list;
}

/// By its name or a former one.
bool is_given(const CLI::App& app, const FieldDescription& field) {
  for (const std::string& former : field.former_names) {
    if (app.count(option_flag(former)) == 0) continue;
    if (app.count(option_flag(field.name)) > 0)
      throw UsageError(
          fmt::format("got {} and {}, which are the same", option_flag(field.name), option_flag(former)));
    warn_of_former_name("option", option_flag(former), option_flag(field.name));
    return true;
  }
  return app.count(option_flag(field.name)) > 0;
}

}  // namespace

std::vector<std::string> parts_of(const std::string& text) {
  return text.empty() ? std::vector<std::string>() : text_parts(text, ',');
}

FieldFlags::FieldFlags(std::vector<FieldDescription> fields)
    : fields_(std::move(fields)), texts_(fields_.size()) {}

void FieldFlags::bind(CLI::App& app, std::string_view command, const std::string& group) {
  for (size_t i = 0; i < fields_.size(); ++i) {
    app.add_option(option_flag(fields_[i].name), texts_[i], flag_meaning(fields_[i]))
        ->option_text("VALUE")
        ->join(',')
        ->group(is_usual(command, fields_[i].name) ? group : std::string(kRareOptions) + group);
    for (const std::string& former : fields_[i].former_names) {
      app.add_option(option_flag(former), texts_[i])->join(',')->group("");  // not in the help
    }
  }
}

Table FieldFlags::given(const CLI::App& app) const {
  Table values;
  for (size_t i = 0; i < fields_.size(); ++i) {
    if (is_given(app, fields_[i])) values[fields_[i].name] = parse_option(fields_[i], texts_[i]);
  }
  return values;
}

Value with_whole_formats(const Value& value) {
  const auto* list = value.get_if<List>();
  if (list == nullptr) return value;
  List formats;
  for (const Value& part : *list) {
    const std::string& text = *part.get_if<std::string>();
    const bool is_key = text.find('=') != std::string::npos && text.find(':') == std::string::npos;
    if (is_key && !formats.empty()) {
      formats.back() = Value(*formats.back().get_if<std::string>() + "," + text);
    } else {
      formats.push_back(part);
    }
  }
  return formats;
}

std::string about_flags(const std::string& message, const std::string& where) {
  const std::string begin = where + ": key \"";
  const size_t end = message.find('"', begin.size());
  if (!message.starts_with(begin) || end == std::string::npos) return message;
  return option_flag(message.substr(begin.size(), end - begin.size())) + message.substr(end + 1);
}

}  // namespace detent
