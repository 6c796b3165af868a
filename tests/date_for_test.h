#pragma once

#include <ctime>
#include <string>

namespace detent {

/// Today as YYYY-MM-DD, which the default names of projects end in.
inline std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::localtime(&now));
  return text;
}

}  // namespace detent
