#pragma once

#include <string>

#include <spdlog/spdlog.h>

namespace detent {

/// Sends log lines ("LEVEL    message", coloured where wants_colour says so) to standard error and sets the
/// level: one of debug, info, warning, error, critical. Throws Error on another name.
void set_up_logging(const std::string& level);

}  // namespace detent
