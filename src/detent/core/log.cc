#include "detent/core/log.h"

#include <unistd.h>

#include <array>
#include <mutex>
#include <set>
#include <string>

#include <fmt/format.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "detent/core/error.h"
#include "detent/core/text.h"

namespace detent {
namespace {

/// The message, of which parts may be from files.
class PrintableMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& target) override {
    const std::string text = printable({message.payload.data(), message.payload.size()});
    target.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PrintableMessage>();
  }
};

}  // namespace

void set_up_logging(const std::string& level) {
  const std::vector<std::string> levels = {"debug", "info", "warning", "error", "critical"};
  if (std::find(levels.begin(), levels.end(), level) == levels.end()) {
    throw Error(unknown_name_message("log level", level, levels));
  }
  const auto colour = wants_colour(STDERR_FILENO) ? spdlog::color_mode::always : spdlog::color_mode::never;
  auto logger = std::make_shared<spdlog::logger>(
      "detent", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(colour));
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PrintableMessage>('*').set_pattern("%^%-8l%$ %*");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

void log_line(LogLevel level, fmt::string_view format, fmt::format_args arguments) {
  constexpr std::array kLevels = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn};
  const auto own = kLevels.at(static_cast<size_t>(level));
  spdlog::logger& logger = *spdlog::default_logger_raw();
  if (logger.should_log(own)) logger.log(own, fmt::vformat(format, arguments));
}

void warn_once(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> given;
  const std::scoped_lock lock(mutex);
  if (given.insert(text).second) log_warning("{}", text);
}

void warn_of_former_name(std::string_view kind, std::string_view former, std::string_view present) {
  warn_once(fmt::format("the {} \"{}\" is now called \"{}\"", kind, former, present));
}

}  // namespace detent
