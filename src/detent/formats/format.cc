#include "detent/formats/format.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

#include "detent/core/error_fields.h"
#include "detent/core/name_pattern.h"
#include "detent/formats/kernel_environment.h"
#include "detent/formats/named_formats.h"

namespace detent {
namespace {

/// Calls visit(F{}) for every format F, in the order of the variant.
template <class Visitor>
void for_each_format(Visitor&& visit) {
  const auto expand = [&]<class... F>(std::type_identity<std::variant<F...>>) { (visit(F{}), ...); };
  expand(std::type_identity<AnyFormat>{});
}

constexpr double kMaxEnumerableBits = 16;

}  // namespace

Format::Format() = default;
Format::Format(const Format&) = default;
Format::Format(Format&&) noexcept = default;
Format& Format::operator=(const Format&) = default;
Format& Format::operator=(Format&&) noexcept = default;
Format::~Format() = default;

bool Format::operator==(const Format& other) const {
  return static_cast<const AnyFormat&>(*this) == static_cast<const AnyFormat&>(other);
}

std::string_view format_name(const Format& format) {
  return std::visit([]<class F>(const F&) -> std::string_view { return F::kName; }, format);
}

std::vector<std::pair<std::string, std::string>> format_aliases() {
  std::vector<std::pair<std::string, std::string>> aliases;
  for_each_format([&]<class F>(const F&) {
    for (const char* alias : F::kAliases) aliases.emplace_back(alias, F::kName);
  });
  return aliases;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for_each_format([&]<class F>(const F&) { names.emplace_back(F::kName); });
  for (const auto& [alias, name] : format_aliases()) names.push_back(alias);
  for (const NamedFormatHelp& named : usual_named_formats()) names.emplace_back(named.name);
  return names;
}

namespace {

[[noreturn]] void fail_unknown_format(std::string_view name, const std::string& where) {
  const std::vector<std::string> known = format_names();
  const std::string ours = format_called(name);
  if (ours.empty()) fail_unknown(where, "format", name, known);
  const std::string listed = listed_names(known, ours);
  const std::string message =
      fmt::format("unknown format \"{}\": did you mean \"{}\"? (known: {})", name, ours, listed);
  throw DetailedError(where.empty() ? message : fmt::format("{}: {}", where, message),
                      {.got = std::string(name), .allowed = listed});
}

/// `format` with those of `keys` that are its fields.
void read_own_fields(Format& format, const Table& keys, const std::string& where) {
  std::visit(
      [&]<class F>(F& alternative) {
        Table own;
        for (const std::string& name : field_names<F>()) {
          if (const Value* value = keys.find(name)) own[name] = *value;
        }
        read_fields(alternative, own, where);
      },
      format);
}

}  // namespace

Format make_format(std::string_view name, const std::string& where) {
  std::optional<Format> found;
  for_each_format([&]<class F>(const F& format) {
    if (name == F::kName || std::ranges::count(F::kAliases, name) > 0) found = format;
  });
  if (found) return *found;
  const std::optional<NamedFormat> named = find_named_format(name, where);
  if (!named) fail_unknown_format(name, where);
  Format format = make_format(named->format, where);
  read_own_fields(format, named->with({}, where), where);
  return format;
}

namespace {

template <class T>
bool is_within(const T& field, const Between& allowed) {
  const auto all = [&](const auto& elements) {
    return std::ranges::all_of(elements, [&](const auto& element) { return is_within(element, allowed); });
  };
  if constexpr (std::is_same_v<T, BlockSize>) {
    return !field.sizes.empty() &&
           std::ranges::all_of(field.sizes, [](int64_t size) { return size >= 1 || size == -1; });
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<size_t>(field) < enum_names(field).size();
  } else if constexpr (requires { field.has_value(); }) {
    return !field || is_within(*field, allowed);
  } else if constexpr (requires { field.begin(); }) {
    return all(field);
  } else {
    const auto number = static_cast<double>(field);
    return number >= allowed.low && number <= allowed.high;
  }
}

/// Whether all fields are in their ranges: what is asked at every call, and therefore makes no tables.
template <class F>
bool has_valid_fields(const F& format) {
  bool valid = true;
  auto visit = [&](const char* /*name*/, const auto& field, const char* /*help*/, Between allowed = {}) {
    valid = valid && is_within(field, allowed);
  };
  F::fields(format, visit);
  return valid;
}

}  // namespace

void validate(const Format& format, const std::string& where) {
  const DefaultFloatEnvironment environment;
  std::visit(
      [&]<class F>(const F& alternative) {
        if (!has_valid_fields(alternative)) {
          F checked;
          read_fields(checked, write_fields(alternative), where);  // says which
        }
        alternative.validate(where);
      },
      format);
}

Format parse_format(std::string_view text) {
  const DefaultFloatEnvironment environment;
  const std::string where = fmt::format("format \"{}\"", text);
  TextForm form = parse_text_form(text, where);
  if (const auto named = find_named_format(form.name, where))
    form = {named->format, named->with(form.keys, where)};
  Format format = make_format(form.name, where);
  std::visit([&](auto& alternative) { read_fields(alternative, form.keys, where); }, format);
  validate(format, where);
  return format;
}

std::string format_text(const Format& format) {
  const DefaultFloatEnvironment environment;
  return std::visit(
      []<class F>(const F& alternative) { return text_form(F::kName, write_changed_fields(alternative)); },
      format);
}

double bits_per_value(const Format& format) {
  return std::visit([](const auto& alternative) { return alternative.bits(); }, format);
}

std::optional<BlockSize> block_size(const Format& format) {
  return std::visit(
      []<class F>(const F& alternative) -> std::optional<BlockSize> {
        if constexpr (BlockFormat<F>) {
          return alternative.blocks();
        } else {
          return std::nullopt;
        }
      },
      format);
}

std::vector<std::string> ranged_format_names() {
  std::vector<std::string> names;
  for_each_format([&]<class F>(const F&) {
    if constexpr (RangedFormat<F>) names.emplace_back(F::kName);
  });
  return names;
}

bool has_range_per_channel(const Format& format) {
  return std::visit(
      []<class F>(const F&) {
        if constexpr (RangedFormat<F>) {
          return F::kRangePerChannel;
        } else {
          return false;
        }
      },
      format);
}

Format qparams_from_range(const Format& format, std::span<const Interval> ranges, ScaleForm form,
                          const std::string& where) {
  const DefaultFloatEnvironment environment;
  return std::visit(
      [&]<class F>(const F& alternative) -> Format {
        if constexpr (RangedFormat<F>) {
          return alternative.qparams_from_range(ranges, form);
        } else {
          fail("{}: {} has no parameters that depend on a range, expected one of {}", where, F::kName,
               fmt::join(ranged_format_names(), ", "));
        }
      },
      format);
}

std::vector<float> representable_values(const Format& format) {
  const DefaultFloatEnvironment environment;
  const std::string where = fmt::format("representable values of {}", format_text(format));
  if (bits_per_value(format) > kMaxEnumerableBits) {
    fail("{}: {} bits are too many, expected at most {}", where, bits_per_value(format), kMaxEnumerableBits);
  }
  validate(format, where);
  return std::visit([&](const auto& alternative) { return alternative.values(where); }, format);
}

}  // namespace detent
