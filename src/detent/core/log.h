#pragma once

#include <string>
#include <string_view>

#include <fmt/core.h>

namespace detent {

enum class LogLevel { kDebug, kInfo, kWarning };

/// Sends log lines ("LEVEL    message", coloured where wants_colour says so) to standard error and sets the
/// level: one of debug, info, warning, error, critical. Throws Error on another name.
void set_up_logging(const std::string& level);

/// Logs a line to spdlog's default logger, formatted only if the level is enabled.
void log_line(LogLevel level, fmt::string_view format, fmt::format_args arguments);

template <class... Arguments>
void log_debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  log_line(LogLevel::kDebug, format, fmt::make_format_args(arguments...));
}
template <class... Arguments>
void log_info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  log_line(LogLevel::kInfo, format, fmt::make_format_args(arguments...));
}
template <class... Arguments>
void log_warning(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  log_line(LogLevel::kWarning, format, fmt::make_format_args(arguments...));
}

/// A warning that a process gives once, however often its cause is met.
void warn_once(const std::string& text);

/// A former name, still accepted, and the present one.
struct FormerName {
  const char* former;
  const char* present;
};

/// Warns that `kind` ("key", "pass", "option") `former` is called `present` now, once in a process.
void warn_of_former_name(std::string_view kind, std::string_view former, std::string_view present);

}  // namespace detent
