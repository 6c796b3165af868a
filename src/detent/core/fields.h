#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/error_fields.h"
#include "detent/core/log.h"
#include "detent/core/value.h"

namespace detent {

/// A struct lists its fields once and everything else derives from that list: reading and writing TOML and
/// JSON, the one-line text form, help, and the tables that commands print.
///
///     struct Fixed {
///       int width = 8;
///       std::optional<int> frac_width;
///       template <class Self, class Visitor>
///       static void fields(Self& self, Visitor& visit) {
///         visit("width", self.width, "bits a value", Between{1, 32});
///         visit("frac_width", self.frac_width, "bits after the binary point; NA: width / 2");
///       }
///     };
///
/// Field types: bool, int, int64_t, float, double, std::string, enums with `enum_names`, std::optional and
/// std::vector of these, and any T with `static std::string field_type()` (for help), `Value to_value()
/// const` and `static T from_value(const Value&, const std::string& where)`. An enum E declares `constexpr
/// auto enum_names(E)` that returns an array of names, the i-th for the value i.
///
/// Former names are still read, with a warning, if the struct lists them:

/// Allowed interval of a numeric field, both ends included. Without one, any finite number is. Of an enum,
/// the names up to the last one allowed.
struct Between {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
};
template <class Enum>
constexpr Between up_to(Enum last) {
  return {.low = 0, .high = static_cast<double>(last)};
}

struct FieldDescription {
  std::string name;
  std::string type;           // "integer", "boolean", "one of nearest, floor", ...
  std::string default_value;  // as value_text prints it
  std::string help;
  Between allowed;
  std::vector<std::string> former_names = {};
};

namespace field_detail {

template <class T>
concept Enum = std::is_enum_v<T>;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
concept Custom = requires(const T& field, const Value& value, const std::string& where) {
  { T::field_type() } -> std::same_as<std::string>;
  { field.to_value() } -> std::same_as<Value>;
  { T::from_value(value, where) } -> std::same_as<T>;
};

template <Enum T>
std::vector<std::string> allowed_names(const Between& allowed) {
  const auto names = enum_names(T{});
  const double last = std::min(allowed.high, static_cast<double>(names.size() - 1));
  return {names.begin(), names.begin() + static_cast<std::ptrdiff_t>(last) + 1};
}

template <class T>
std::string type_text(const Between& allowed = {}) {
  if constexpr (Custom<T>) {
    return T::field_type();
  } else if constexpr (std::is_same_v<T, bool>) {
    return "boolean";
  } else if constexpr (std::is_integral_v<T>) {
    return "integer";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "number";
  } else if constexpr (std::is_same_v<T, std::string>) {
    return "string";
  } else if constexpr (Enum<T>) {
    std::string text = "one of";
    for (const std::string& name : allowed_names<T>(allowed)) text += (text.size() > 6 ? ", " : " ") + name;
    return text;
  } else if constexpr (IsOptional<T>::value) {
    return type_text<typename T::value_type>(allowed) + " or NA";
  } else {
    static_assert(IsVector<T>::value, "not a field type");
    return "list of " + type_text<typename T::value_type>(allowed);
  }
}

template <class T>
Value to_value(const T& field) {
  if constexpr (Custom<T>) {
    return field.to_value();
  } else if constexpr (Enum<T>) {
    return Value(std::string(enum_name(field)));
  } else if constexpr (IsOptional<T>::value) {
    return field ? to_value(*field) : Value();
  } else if constexpr (IsVector<T>::value) {
    List list;
    for (const auto& element : field) list.push_back(to_value(element));
    return Value(std::move(list));
  } else if constexpr (std::is_same_v<T, float>) {
    return Value(static_cast<double>(field));
  } else {
    return Value(field);
  }
}

/// `where` begins the message and names file, table and key.
template <class T>
[[noreturn]] void wrong_type(const Value& value, const std::string& where, const Between& allowed = {}) {
  fail_value(where, value_text(value), type_text<T>(allowed), {}, fmt::format(" ({})", value.kind_name()));
}

template <class T>
void check_between(T field, const Between& allowed, const std::string& where) {
  const auto number = static_cast<double>(field);
  const bool is_finite = std::isfinite(number);
  if (is_finite && number >= allowed.low && number <= allowed.high) return;
  const std::string low = std::isinf(allowed.low) ? "" : fmt::format(" at least {}", allowed.low);
  const std::string high = std::isinf(allowed.high) ? "" : fmt::format(" at most {}", allowed.high);
  const bool is_bounded = !low.empty() && !high.empty();
  const std::string bounds = fmt::format("{}{}{}{}", is_finite || is_bounded ? "" : " a finite number", low,
                                         is_bounded ? " and" : "", high);
  fail_value(where, fmt::format("{}", field), bounds.substr(1));
}

template <class T>
void from_value(const Value& value, T& field, const Between& allowed, const std::string& where) {
  if constexpr (Custom<T>) {
    field = T::from_value(value, where);
  } else if constexpr (IsOptional<T>::value) {
    if (value.is_na()) {
      field.reset();
    } else {
      from_value(value, field.emplace(), allowed, where);
    }
  } else if constexpr (IsVector<T>::value) {
    const List* list = value.get_if<List>();
    T result;
    if (list == nullptr) {
      from_value(value, result.emplace_back(), allowed, where);  // one number n stands for [n]
    } else {
      for (const Value& element : *list) from_value(element, result.emplace_back(), allowed, where);
    }
    field = std::move(result);
  } else if constexpr (Enum<T>) {
    const std::string* name = value.get_if<std::string>();
    if (name == nullptr) wrong_type<T>(value, where, allowed);
    const std::vector<std::string> known = allowed_names<T>(allowed);
    const auto it = std::find(known.begin(), known.end(), *name);
    if (it == known.end()) fail_unknown(where, "value", *name, known);
    field = static_cast<T>(it - known.begin());
  } else if constexpr (std::is_floating_point_v<T>) {
    double scratch = 0;
    const double* number = value.number(scratch);
    if (number == nullptr) wrong_type<T>(value, where);
    check_between(*number, allowed, where);
    field = static_cast<T>(*number);
    if (!std::isfinite(field))
      fail_value(where, fmt::format("{}", *number),
                 fmt::format("a magnitude of at most {}", std::numeric_limits<T>::max()));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const int64_t* integer = value.get_if<int64_t>();
    if (integer == nullptr) wrong_type<T>(value, where);
    constexpr Between kRange{static_cast<double>(std::numeric_limits<T>::min()),
                             static_cast<double>(std::numeric_limits<T>::max())};
    check_between(*integer, {std::max(allowed.low, kRange.low), std::min(allowed.high, kRange.high)}, where);
    field = static_cast<T>(*integer);
  } else {
    const T* same = value.get_if<T>();
    if (same == nullptr) wrong_type<T>(value, where);
    field = *same;
  }
}

}  // namespace field_detail

template <class T>
std::span<const FormerName> former_names() {
  if constexpr (requires { T::kFormerNames; }) return T::kFormerNames;
  return {};
}

/// Present name of a field with a former name; `name` itself otherwise.
template <class T>
std::string present_name(const std::string& name) {
  for (const FormerName& field : former_names<T>()) {
    if (name == field.former) return field.present;
  }
  return name;
}

/// The names of T's fields, in order.
template <class T>
std::vector<std::string> field_names() {
  std::vector<std::string> names;
  T object;
  auto visit = [&](const char* name, auto&, const char*, Between = {}) { names.emplace_back(name); };
  T::fields(object, visit);
  return names;
}

/// For help and documentation: names, types, defaults, ranges.
template <class T>
std::vector<FieldDescription> describe_fields() {
  std::vector<FieldDescription> result;
  T object;
  auto visit = [&]<class F>(const char* name, F& field, const char* help, Between allowed = {}) {
    result.push_back({name, field_detail::type_text<F>(allowed), value_text(field_detail::to_value(field)),
                      help, field_detail::Enum<F> ? Between() : allowed});
    for (const FormerName& field_name : former_names<T>()) {
      if (result.back().name == field_name.present)
        result.back().former_names.emplace_back(field_name.former);
    }
  };
  T::fields(object, visit);
  return result;
}

/// Reads the keys of `table` into `object`; keys that are absent keep their value. Throws Error on a key that
/// is no field of T, on a value of the wrong type and on one out of range; `where` (file and table) begins
/// the message. Field types are checked one by one; relations between fields are the caller's to check.
template <class T>
void read_fields(T& object, const Table& table, const std::string& where) {
  const std::vector<std::string> known = field_names<T>();
  for (const auto& [key, value] : table) {
    const std::string name = present_name<T>(key);
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail_unknown(where, "key", key, known, {.key = key});
    }
    if (name == key) continue;
    if (table.contains(name)) fail("{}: got \"{}\" and \"{}\", which are the same", where, key, name);
    warn_of_former_name("key", key, name);
  }
  std::string now;
  auto visit = [&](const char* name, auto& field, const char*, Between allowed = {}) {
    for (const auto& [key, value] : table) {
      if (present_name<T>(key) != name) continue;
      now = key;
      field_detail::from_value(value, field, allowed, fmt::format("{}: key \"{}\"", where, key));
    }
  };
  about_key(now, [&] { T::fields(object, visit); });
}

/// All fields of `object`, in order.
template <class T>
Table write_fields(const T& object) {
  Table table;
  auto visit = [&](const char* name, const auto& field, const char*, Between = {}) {
    table[name] = field_detail::to_value(field);
  };
  T::fields(object, visit);
  return table;
}

/// The fields of `object` that differ from T's defaults, in order.
template <class T>
Table write_changed_fields(const T& object) {
  const Table defaults = write_fields(T{});
  Table table;
  for (const auto& [key, value] : write_fields(object)) {
    if (*defaults.find(key) != value) table[key] = value;
  }
  return table;
}

}  // namespace detent
