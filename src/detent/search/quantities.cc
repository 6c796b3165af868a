#include "detent/search/options.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

using Unit = std::pair<std::string_view, double>;
constexpr std::array kByteUnits = {Unit{"", 1},          Unit{"B", 1},           Unit{"k", 1e3},
                                   Unit{"kB", 1e3},      Unit{"M", 1e6},         Unit{"MB", 1e6},
                                   Unit{"G", 1e9},       Unit{"GB", 1e9},        Unit{"KiB", 1024},
                                   Unit{"MiB", 1048576}, Unit{"GiB", 1073741824}};
constexpr std::array kTimeUnits = {Unit{"us", 1e-6}, Unit{"ms", 1e-3}, Unit{"s", 1}, Unit{"m", 60},
                                   Unit{"h", 3600}};

/// A number with its unit, taken off the beginning of `text`; nothing where there is none.
template <size_t kCount>
std::optional<double> take(std::string_view& text, const std::array<Unit, kCount>& units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !(number >= 0)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  const size_t letters = std::min(text.find_first_of("0123456789."), text.size());
  for (const auto& [name, factor] : units) {
    if (text.substr(0, letters) != name) continue;
    text.remove_prefix(letters);
    return number * factor;
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const Value& value, const std::string& where, const std::string& expected) {
  fail("{}: got {}, expected {}", where, value_text(value), expected);
}

}  // namespace

ByteCount ByteCount::from_value(const Value& value, const std::string& where) {
  double scratch = 0;
  if (const double* number = value.number(scratch)) {
    if (!(*number >= 0 && *number < 9e18)) refuse(value, where, field_type());
    return {static_cast<int64_t>(*number)};
  }
  const auto* text = value.get_if<std::string>();
  if (text == nullptr) refuse(value, where, field_type());
  std::string_view rest = *text;
  const std::optional<double> bytes = take(rest, kByteUnits);
  if (!bytes || !rest.empty() || *bytes >= 9e18) refuse(value, where, field_type());
  return {static_cast<int64_t>(std::floor(*bytes))};
}

TimeSpan TimeSpan::from_value(const Value& value, const std::string& where) {
  const auto* text = value.get_if<std::string>();
  if (text == nullptr) refuse(value, where, field_type());
  TimeSpan span;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::optional<double> seconds = take(rest, kTimeUnits);
    if (!seconds) refuse(value, where, field_type());
    span.seconds += *seconds;
  }
  if (!(span.seconds > 0)) refuse(value, where, field_type());
  return span;
}

}  // namespace detent
