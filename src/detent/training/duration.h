#pragma once

#include <charconv>
#include <string>

#include "detent/core/error.h"
#include "detent/core/value.h"

namespace detent {

/// A length of time as text: whole numbers, each with its unit ("90s", "10m", "1h30m", "2d").
struct Duration {
  int64_t seconds = 0;

  bool operator==(const Duration&) const = default;

  static std::string field_type() { return "duration such as 30s, 10m or 1h30m"; }
  Value to_value() const { return fmt::format("{}s", seconds); }
  static Duration from_value(const Value& value, const std::string& where) {
    const std::string* text = value.get_if<std::string>();
    const int64_t seconds = text == nullptr ? 0 : parse(*text);
    if (seconds <= 0) {
      fail("{}: got {}, expected whole numbers with a unit s, m, h or d: 30s, 10m, 1h30m", where,
           value_text(value));
    }
    return {seconds};
  }

 private:
  /// 0 on text that is none.
  static int64_t parse(const std::string& text) {
    constexpr int64_t kMost = 1'000'000'000;
    int64_t sum = 0;
    const char* const end = text.data() + text.size();
    for (const char* next = text.data(); next != end;) {
      int64_t number = 0;
      const auto [unit, error] = std::from_chars(next, end, number);
      if (error != std::errc() || unit == end || number < 0 || number > kMost) return 0;
      const int64_t seconds = *unit == 's'   ? 1
                              : *unit == 'm' ? 60
                              : *unit == 'h' ? 3600
                              : *unit == 'd' ? 86400
                                             : 0;
      if (seconds == 0) return 0;
      sum += number * seconds;
      next = unit + 1;
    }
    return sum;
  }
};

}  // namespace detent
