#pragma once

#include <cstdint>
#include <string>

#include "detent/core/value.h"

namespace detent {

/// "300k", "1.5M", "64KiB", "1200": bytes; k and M are thousands and millions.
struct ByteCount {
  int64_t bytes = 0;

  static std::string field_type() { return "bytes (300k, 1.5M, 64KiB)"; }
  Value to_value() const { return bytes; }
  static ByteCount from_value(const Value& value, const std::string& where);
  bool operator==(const ByteCount&) const = default;
};

/// "10m", "60s", "2ms", "1h30m".
struct TimeSpan {
  double seconds = 0;

  static std::string field_type() { return "time (90s, 10m, 1h30m, 2ms)"; }
  Value to_value() const { return std::to_string(seconds) + "s"; }
  static TimeSpan from_value(const Value& value, const std::string& where);
  bool operator==(const TimeSpan&) const = default;
};

}  // namespace detent
