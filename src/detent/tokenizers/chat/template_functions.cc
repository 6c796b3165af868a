#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/tokenizers/chat/template_syntax.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

constexpr size_t kLargestText = size_t{1} << 26;

const std::string& expect_text(const TemplateValue& value, std::string_view who) {
  if (value.text() == nullptr) fail("{} expects a text, not {}", who, value.kind());
  return *value.text();
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) fail("replacing an empty text is not supported");
  std::string result;
  size_t last = 0;
  for (size_t i = text.find(from); i != std::string::npos; i = text.find(from, last)) {
    result.append(text, last, i - last);
    result += to;
    last = i + from.size();
    if (result.size() > kLargestText) fail("a text becomes too large");
  }
  return result.append(text, last);
}

std::string uppercase(std::string_view text) {
  std::string result(text);
  for (char& byte : result) {
    if (static_cast<unsigned char>(byte) >= 0x80)
      fail("upper case of characters outside ASCII is not supported");
    if (byte >= 'a' && byte <= 'z') byte = static_cast<char>(byte - ('a' - 'A'));
  }
  return result;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return "";
  const size_t first = character_length(text[0]);
  return uppercase(text.substr(0, first)) + lowercase(text.substr(first));
}

/// Each run of letters begins with a capital.
std::string titled(std::string_view text) {
  std::string result;
  bool in_word = false;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const bool is_letter = properties_of(next_character(text, i)).category <= Category::kLo;
    const std::string_view character = text.substr(begin, i - begin);
    result += !is_letter ? std::string(character) : in_word ? lowercase(character) : uppercase(character);
    in_word = is_letter;
  }
  return result;
}

TemplateValue split(const std::string& text, const TemplateValue& separator, const TemplateValue& most) {
  TemplateList parts;
  const int64_t limit = most.integer() == nullptr || *most.integer() < 0 ? INT64_MAX : *most.integer();
  if (separator.is_undefined() || separator.is_none()) {
    if (limit != INT64_MAX) fail("split without a separator but with a limit is not supported");
    std::string word;
    for (const char32_t code : to_characters(text)) {
      if (!is_python_space(code)) {
        append_character(word, code);
      } else if (!word.empty()) {
        parts.push_back(TemplateValue::of(std::exchange(word, "")));
      }
    }
    if (!word.empty()) parts.push_back(TemplateValue::of(word));
    return TemplateValue::of(std::move(parts));
  }
  const std::string& by = expect_text(separator, "split");
  if (by.empty()) fail("split expects a separator that is not empty");
  size_t last = 0;
  for (size_t i = text.find(by); i != std::string::npos && std::ssize(parts) < limit;
       i = text.find(by, last)) {
    parts.push_back(TemplateValue::of(text.substr(last, i - last)));
    last = i + by.size();
  }
  parts.push_back(TemplateValue::of(text.substr(last)));
  return TemplateValue::of(std::move(parts));
}

bool begins_or_ends(const std::string& text, const TemplateValue& with, bool begins) {
  const auto matches = [&](const TemplateValue& part) {
    const std::string& wanted = expect_text(part, begins ? "startswith" : "endswith");
    return begins ? text.starts_with(wanted) : text.ends_with(wanted);
  };
  if (const TemplateList* several = with.list()) return std::ranges::any_of(*several, matches);
  return matches(with);
}

TemplateValue pair_list(const TemplateTable& table) {
  TemplateList pairs;
  for (const auto& [key, value] : table)
    pairs.push_back(TemplateValue::of(TemplateList{TemplateValue::of(key), value}));
  return TemplateValue::of(std::move(pairs));
}

TemplateValue call_table_method(const std::string& method, TemplateTable& table,
                                const TemplateArguments& arguments) {
  if (method == "items") return pair_list(table);
  TemplateList result;
  if (method == "get") {
    const TemplateValue* found = find_key(table, expect_text(arguments.get(0, "key"), "get"));
    const TemplateValue otherwise = arguments.get(1, "default");
    return found != nullptr ? *found : otherwise.is_undefined() ? TemplateValue::none() : otherwise;
  }
  if (method == "keys") {
    for (const auto& entry : table) result.push_back(TemplateValue::of(entry.first));
    return TemplateValue::of(std::move(result));
  }
  if (method == "values") {
    for (const auto& entry : table) result.push_back(entry.second);
    return TemplateValue::of(std::move(result));
  }
  fail("the method \"{}\" of a dict is not supported (supported: get, items, keys, values)", method);
}

TemplateValue call_text_method(const std::string& method, const std::string& text,
                               const TemplateArguments& arguments) {
  const TemplateValue first = arguments.get(0, "");
  if (method == "strip" || method == "lstrip" || method == "rstrip") {
    const std::string characters = first.is_undefined() || first.is_none() ? "" : expect_text(first, method);
    if (first.text() != nullptr && characters.empty()) return TemplateValue::of(text);
    return TemplateValue::of(stripped(text, characters, method != "rstrip", method != "lstrip"));
  }
  if (method == "startswith" || method == "endswith")
    return TemplateValue::of(begins_or_ends(text, first, method == "startswith"));
  if (method == "split") return split(text, arguments.get(0, "sep"), arguments.get(1, "maxsplit"));
  if (method == "replace")
    return TemplateValue::of(
        replaced(text, expect_text(first, method), expect_text(arguments.get(1, ""), method)));
  if (method == "upper") return TemplateValue::of(uppercase(text));
  if (method == "lower") return TemplateValue::of(lowercase(text));
  if (method == "title") return TemplateValue::of(titled(text));
  if (method == "capitalize") return TemplateValue::of(capitalized(text));
  if (method == "find") {
    const size_t place = text.find(expect_text(first, method));
    return TemplateValue::of(place == std::string::npos ? int64_t{-1}
                                                        : std::ssize(to_characters(text.substr(0, place))));
  }
  if (method == "join") {
    std::string result;
    std::string_view separator;
    for (const TemplateValue& entry : entries_of(first)) {
      result += std::exchange(separator, text);
      result += expect_text(entry, method);
    }
    return TemplateValue::of(result);
  }
  fail(
      "the method \"{}\" of a text is not supported (supported: capitalize, endswith, find, join, lower, "
      "lstrip, replace, rstrip, "
      "split, startswith, strip, title, upper)",
      method);
}

/// selectattr, rejectattr: the entries whose attribute passes a test, or is true.
TemplateValue selected(const TemplateArguments& arguments, bool by_attribute, bool wanted) {
  TemplateList result;
  const size_t test_place = by_attribute ? 2 : 1;
  for (const TemplateValue& entry : entries_of(arguments.values[0])) {
    TemplateArguments call;
    call.values.push_back(by_attribute ? attribute_of(entry, expect_text(arguments.get(0, ""), "selectattr"))
                                       : entry);
    bool passes = call.values[0].is_true();
    if (arguments.values.size() > test_place) {
      call.values.insert(call.values.end(),
                         arguments.values.begin() + static_cast<std::ptrdiff_t>(test_place) + 1,
                         arguments.values.end());
      passes = apply_test(expect_text(arguments.values[test_place], "selectattr"), call);
    }
    if (passes == wanted) result.push_back(entry);
  }
  return TemplateValue::of(std::move(result));
}

TemplateValue mapped(const TemplateArguments& arguments) {
  TemplateList result;
  const TemplateValue attribute = arguments.get(SIZE_MAX, "attribute");
  for (const TemplateValue& entry : entries_of(arguments.values[0])) {
    result.push_back(attribute.is_undefined()
                         ? apply_filter(expect_text(arguments.get(0, ""), "map"), {{entry}, {}})
                         : attribute_of(entry, expect_text(attribute, "map")));
  }
  return TemplateValue::of(std::move(result));
}

TemplateValue joined(const TemplateArguments& arguments) {
  const TemplateValue between = arguments.get(0, "d");
  const TemplateValue attribute = arguments.get(1, "attribute");
  const std::string text = to_text(between);
  std::string result;
  std::string_view separator;
  for (const TemplateValue& entry : entries_of(arguments.values[0])) {
    result += std::exchange(separator, text);
    result += to_text(attribute.is_undefined() ? entry : attribute_of(entry, expect_text(attribute, "join")));
  }
  return TemplateValue::of(result);
}

TemplateValue to_integer(const TemplateValue& value) {
  double number = 0;
  if (value.number(number)) {
    constexpr double kLargest = 9e15;
    return TemplateValue::of(std::fabs(number) < kLargest ? static_cast<int64_t>(number) : int64_t{0});
  }
  if (value.text() == nullptr) return TemplateValue::of(int64_t{0});
  const std::string text = stripped(*value.text(), "", true, true);
  const bool is_number =
      !text.empty() && text.find_first_not_of("0123456789", text[0] == '-' ? 1 : 0) == std::string::npos;
  return TemplateValue::of(is_number ? static_cast<int64_t>(std::strtoll(text.c_str(), nullptr, 10))
                                     : int64_t{0});
}

/// As jinja2 does it: the first line stays, empty lines stay empty.
std::string indented(const std::string& text, const TemplateArguments& arguments) {
  const TemplateValue width = arguments.get(0, "width");
  const bool first = arguments.get(1, "first").is_true();
  const bool blank = arguments.get(2, "blank").is_true();
  const int64_t count = width.integer() == nullptr ? 4 : std::clamp<int64_t>(*width.integer(), 0, 1000);
  const std::string space(static_cast<size_t>(count), ' ');
  std::string result = first ? space : "";
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    const bool empty_next = i + 1 == text.size() || text[i + 1] == '\n';
    if (text[i] == '\n' && (blank || !empty_next)) result += space;
  }
  return result;
}

}  // namespace

TemplateValue TemplateArguments::get(size_t index, std::string_view name) const {
  for (const auto& [key, value] : named)
    if (key == name) return value;
  return index < values.size() - 1 ? values[index + 1] : TemplateValue::undefined(std::string(name));
}

TemplateList entries_of(const TemplateValue& value) {
  if (const TemplateList* list = value.list()) return *list;
  TemplateList entries;
  if (const TemplateTable* table = value.table()) {
    for (const auto& entry : *table) entries.push_back(TemplateValue::of(entry.first));
  } else if (const std::string* text = value.text()) {
    for (const char32_t code : to_characters(*text))
      entries.push_back(TemplateValue::of(to_utf8({&code, 1})));
  } else if (!value.is_undefined()) {
    fail("{} has no entries to go through", value.kind());
  }
  return entries;
}

int64_t length_of(const TemplateValue& value) {
  if (value.text() != nullptr) return std::ssize(to_characters(*value.text()));
  if (value.list() != nullptr) return std::ssize(*value.list());
  if (value.table() != nullptr) return std::ssize(*value.table());
  if (value.is_undefined()) return 0;
  fail("{} has no length", value.kind());
}

bool contains(const TemplateValue& whole, const TemplateValue& part) {
  if (whole.text() != nullptr) return whole.text()->find(expect_text(part, "in")) != std::string::npos;
  if (whole.table() != nullptr)
    return part.text() != nullptr && find_key(*whole.table(), *part.text()) != nullptr;
  const TemplateList entries = entries_of(whole);
  return std::ranges::find(entries, part) != entries.end();
}

TemplateValue attribute_of(const TemplateValue& value, std::string_view name) {
  if (const auto* table = value.table()) {
    const TemplateValue* found = find_key(*value.table(), name);
    if (found != nullptr) return *found;
    static_cast<void>(table);
  }
  if (value.is_undefined()) fail("\"{}\" is asked of what is undefined", name);
  return TemplateValue::undefined(std::string(name));
}

TemplateValue call_method(const std::string& method, const TemplateArguments& arguments) {
  const TemplateValue& subject = arguments.values[0];
  if (subject.text() != nullptr) return call_text_method(method, *subject.text(), arguments);
  if (subject.table() != nullptr) return call_table_method(method, *subject.table(), arguments);
  fail("the method \"{}\" of {} is not supported", method, subject.kind());
}

TemplateValue apply_filter(const std::string& filter, const TemplateArguments& arguments) {
  const TemplateValue& subject = arguments.values[0];
  if (filter == "trim")
    return TemplateValue::of(stripped(to_text(subject), to_text(arguments.get(0, "chars")), true, true));
  if (filter == "length" || filter == "count") return TemplateValue::of(length_of(subject));
  if (filter == "upper") return TemplateValue::of(uppercase(to_text(subject)));
  if (filter == "lower") return TemplateValue::of(lowercase(to_text(subject)));
  if (filter == "capitalize") return TemplateValue::of(capitalized(to_text(subject)));
  if (filter == "title") return TemplateValue::of(titled(to_text(subject)));
  if (filter == "string") return TemplateValue::of(to_text(subject));
  if (filter == "safe") return subject;
  if (filter == "int") return to_integer(subject);
  if (filter == "list") return TemplateValue::of(entries_of(subject));
  if (filter == "join") return joined(arguments);
  if (filter == "map") return mapped(arguments);
  if (filter == "indent") return TemplateValue::of(indented(to_text(subject), arguments));
  if (filter == "select" || filter == "reject") return selected(arguments, false, filter == "select");
  if (filter == "selectattr" || filter == "rejectattr")
    return selected(arguments, true, filter == "selectattr");
  if (filter == "replace")
    return TemplateValue::of(
        replaced(to_text(subject), to_text(arguments.get(0, "old")), to_text(arguments.get(1, "new"))));
  if (filter == "items")
    return subject.table() == nullptr ? TemplateValue::of(TemplateList{}) : pair_list(*subject.table());
  if (filter == "default" || filter == "d") {
    const bool empty =
        subject.is_undefined() || (arguments.get(1, "boolean").is_true() && !subject.is_true());
    const TemplateValue otherwise = arguments.get(0, "default_value");
    return !empty ? subject : otherwise.is_undefined() ? TemplateValue::of(std::string()) : otherwise;
  }
  if (filter == "first" || filter == "last") {
    const TemplateList entries = entries_of(subject);
    if (entries.empty()) return TemplateValue::undefined(filter);
    return filter == "first" ? entries.front() : entries.back();
  }
  if (filter == "tojson") {
    const TemplateValue indent = arguments.get(SIZE_MAX, "indent");
    return TemplateValue::of(
        to_json(subject, indent.integer() == nullptr ? -1 : std::clamp<int64_t>(*indent.integer(), 0, 100)));
  }
  fail(
      "the filter \"{}\" is not supported (supported: capitalize, count, default, first, indent, int, items, "
      "join, last, length, "
      "list, lower, map, reject, rejectattr, replace, safe, select, selectattr, string, title, tojson, trim, "
      "upper)",
      filter);
}

bool apply_test(const std::string& test, const TemplateArguments& arguments) {
  const TemplateValue& subject = arguments.values[0];
  if (test == "defined") return !subject.is_undefined();
  if (test == "undefined") return subject.is_undefined();
  if (test == "none") return subject.is_none();
  if (test == "string") return subject.text() != nullptr;
  if (test == "boolean") return subject.boolean() != nullptr;
  if (test == "true") return subject.boolean() != nullptr && *subject.boolean();
  if (test == "false") return subject.boolean() != nullptr && !*subject.boolean();
  if (test == "integer") return subject.integer() != nullptr;
  if (test == "float") return subject.floating() != nullptr;
  double number = 0;
  if (test == "number") return subject.number(number);
  if (test == "mapping") return subject.table() != nullptr;
  if (test == "sequence" || test == "iterable")
    return subject.text() != nullptr || subject.list() != nullptr || subject.table() != nullptr ||
           subject.is_undefined();
  if (test == "odd" || test == "even") {
    if (subject.integer() == nullptr)
      fail("the test \"{}\" expects an integer, not {}", test, subject.kind());
    return (*subject.integer() % 2 != 0) == (test == "odd");
  }
  if (test == "eq" || test == "equalto") return subject == arguments.get(0, "");
  if (test == "ne") return !(subject == arguments.get(0, ""));
  if (test == "in") return contains(arguments.get(0, ""), subject);
  fail(
      "the test \"{}\" is not supported (supported: boolean, defined, eq, equalto, even, false, float, in, "
      "integer, iterable, "
      "mapping, ne, none, number, odd, sequence, string, true, undefined)",
      test);
}

}  // namespace detent
