#include "detent/formats/named_formats.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "detent/core/error_fields.h"
#include "detent/formats/blocks/mx.h"

namespace detent {
namespace {

constexpr int64_t kLeastWidth = 2;
constexpr int64_t kMostWidth = 16;

/// Takes the digits that `text` begins with; false when there are none. Numbers beyond int64 count as its
/// largest.
bool take_number(std::string_view& text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.starts_with('-') || end == text.data()) return false;
  if (error == std::errc::result_out_of_range) number = std::numeric_limits<int64_t>::max();
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// "int8", "uint4_g128".
std::optional<NamedFormat> find_integer(std::string_view name, const std::string& where) {
  std::string_view rest = name;
  const bool is_signed = !take(rest, "u");
  int64_t width = 0;
  int64_t group_size = 0;
  if (!take(rest, "int") || !take_number(rest, width)) return std::nullopt;
  const bool in_groups = take(rest, "_g");
  if ((in_groups && !take_number(rest, group_size)) || !rest.empty()) return std::nullopt;
  if (width < kLeastWidth || width > kMostWidth) {
    fail_value(fmt::format("{}: format \"{}\"", where, name), fmt::format("{} bits", width),
               fmt::format("at least {} and at most {}", kLeastWidth, kMostWidth));
  }
  if (in_groups && group_size == 0)
    fail("{}: format \"{}\": got groups of 0, expected at least 1", where, name);

  NamedFormat named{std::string(name), "affine", {{"width", width}, {"signed", is_signed}}, {}};
  if (is_signed) named.defaults["symmetric"] = true;
  if (in_groups) {
    named.keys["granularity"] = "group";
    named.keys["group_size"] = group_size;
  }
  return named;
}

/// "mx_e4m3".
std::optional<NamedFormat> find_mx(std::string_view name) {
  std::string_view element = name;
  if (!take(element, "mx_")) return std::nullopt;
  const auto elements = enum_names(MxElement());
  if (std::ranges::find(elements, element) == elements.end()) return std::nullopt;
  return NamedFormat{std::string(name), "mx", {{"element", std::string(element)}}, {}};
}

/// "codebook16": so many values at equal distances from -1 to 1, which calibration moves to where the data
/// are.
std::optional<NamedFormat> find_codebook(std::string_view name, const std::string& where) {
  constexpr int64_t kMostEntries = 256;
  std::string_view rest = name;
  int64_t entries = 0;
  if (!take(rest, "codebook") || !take_number(rest, entries) || !rest.empty()) return std::nullopt;
  if (entries < 2 || entries > kMostEntries) {
    fail_value(fmt::format("{}: format \"{}\"", where, name), fmt::format("{} values", entries),
               fmt::format("at least 2 and at most {}", kMostEntries));
  }
  List values;
  for (int64_t i = 0; i < entries; ++i) {
    const double place = static_cast<double>(2 * i - (entries - 1)) / static_cast<double>(entries - 1);
    values.emplace_back(static_cast<double>(static_cast<float>(place)));
  }
  return NamedFormat{std::string(name), "codebook", {{"values", std::move(values)}}, {}};
}

}  // namespace

std::optional<NamedFormat> find_named_format(std::string_view name, const std::string& where) {
  if (std::optional<NamedFormat> mx = find_mx(name)) return mx;
  if (std::optional<NamedFormat> codebook = find_codebook(name, where)) return codebook;
  return find_integer(name, where);
}

Table NamedFormat::with(const Table& given, const std::string& where) const {
  Table all = keys;
  for (const auto& [key, value] : defaults) all[key] = value;
  for (const auto& [key, value] : given) {
    const Value* said = keys.find(key);
    if (said != nullptr && *said != value) {
      fail("{}: key \"{}\": got {}, but \"{}\" says {}; expected \"{}\" or {} with keys", where, key,
           value_text(value), name, value_text(*said), name, format);
    }
    all[key] = value;
  }
  return all;
}

const std::vector<NamedFormatHelp>& usual_named_formats() {
  static const std::vector<NamedFormatHelp> usual = {
      {"int8", "affine of 8 bits, symmetric; int2 to int16 likewise"},
      {"uint8", "affine of 8 bits, unsigned, with a zero point; uint2 to uint16 likewise"},
      {"int4", "affine of 4 bits, symmetric"},
      {"uint4", "affine of 4 bits, unsigned, with a zero point"},
      {"int4_g128", "int4 with a scale for each 128 elements of a channel; any width and size likewise"},
      {"mx_e4m3", "mx with elements e4m3; e5m2, e3m2, e2m3, e2m1, int8 likewise"},
      {"codebook16", "a codebook of 16 values, which calibration fits to the data; 2 to 256 likewise"},
  };
  return usual;
}

}  // namespace detent
