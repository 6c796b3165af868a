#include "detent/core/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include "detent/core/error.h"

namespace detent {

void set_up_logging(const std::string& level) {
  const std::vector<std::string> levels = {"debug", "info", "warning", "error", "critical"};
  if (std::find(levels.begin(), levels.end(), level) == levels.end()) {
    throw Error(unknown_name_message("log level", level, levels));
  }
  auto logger =
      std::make_shared<spdlog::logger>("detent", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  logger->set_pattern("%^%-8l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace detent
