#include "detent/cli/option_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "detent/core/error.h"

namespace detent {
namespace {

template <class T>
struct Inner {
  using Type = T;
};
template <class T>
struct Inner<std::optional<T>> {
  using Type = T;
};

template <class T>
std::optional<Value> parse_number(const std::string& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return Value(number);
}

template <class T>
Value parse_text(const std::string& text) {
  if (field_detail::IsOptional<T>::value && (text == "NA" || text == "None")) return Value();
  using Type = typename Inner<T>::Type;
  if constexpr (field_detail::IsVector<Type>::value) {
    List list;
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      list.push_back(parse_text<typename Type::value_type>(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    return list;
  } else if constexpr (std::is_same_v<Type, bool>) {
    if (text == "true" || text == "false") return Value(text == "true");
  } else if constexpr (std::is_integral_v<Type>) {
    return parse_number<int64_t>(text).value_or(Value(text));
  } else if constexpr (std::is_floating_point_v<Type>) {
    return parse_number<double>(text).value_or(Value(text));
  }
  return Value(text);
}

}  // namespace

std::string option_flag(std::string name) {
  std::ranges::replace(name, '_', '-');
  return "--" + name;
}

const std::vector<OptionField>& option_fields() {
  static const std::vector<OptionField> kFields = [] {
    std::vector<OptionField> fields;
    RunOptions options;
    auto visit = [&]<class F>(const char* name, F& field, const char* help, Between allowed = {}) {
      const std::string default_text = option_text(field_detail::to_value(field));
      fields.push_back(
          {name, option_flag(name),
           field_meaning({name, field_detail::type_text<F>(allowed), default_text, help, allowed}),
           std::is_same_v<F, bool>, parse_text<F>});
    };
    RunOptions::fields(options, visit);
    return fields;
  }();
  return kFields;
}

const OptionField& option_field(const std::string& name) {
  const auto found = std::ranges::find(option_fields(), name, &OptionField::name);
  DETENT_CHECK(found != option_fields().end(), "no option \"{}\"", name);
  return *found;
}

void set_option(RunOptions& options, const std::string& name, const Value& value, const std::string& where) {
  bool found = false;
  auto visit = [&](const char* field_name, auto& field, const char*, Between allowed = {}) {
    if (name != field_name) return;
    found = true;
    field_detail::from_value(value, field, allowed, where);
  };
  RunOptions::fields(options, visit);
  DETENT_CHECK(found, "no option \"{}\"", name);
}

void set_flag(RunOptions& options, const std::string& name, const Value& value) {
  try {
    set_option(options, name, value, option_field(name).flag);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

std::string option_text(const Value& value) {
  const std::string* text = value.get_if<std::string>();
  return text != nullptr ? *text : value_text(value);
}

std::string bounds_text(const Between& allowed) {
  // Limits that only guard against overflow tell the reader nothing.
  constexpr double kTooLargeToMention = 1e9;
  if (std::isinf(allowed.low)) return "";
  if (allowed.high >= kTooLargeToMention) return fmt::format(", at least {}", allowed.low);
  return fmt::format(", {} to {}", allowed.low, allowed.high);
}

std::string field_meaning(const FieldDescription& field) {
  return fmt::format("{} ({}{}; default {})", field.help, field.type, bounds_text(field.allowed),
                     field.default_value);
}

std::string flag_meaning(FieldDescription field) {
  std::erase(field.default_value, '"');
  return field_meaning(field);
}

}  // namespace detent
