#pragma once

#include <regex>
#include <string>

#include "detent/core/error.h"

namespace detent {

/// A regular expression for names of nodes or parameters, which must match the whole name. Throws Error,
/// beginning with `where`, on text that is none.
inline std::regex name_pattern(const std::string& text, const std::string& where) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    fail("{}: \"{}\" is no regular expression: {}", where, text, error.what());
  }
}

}  // namespace detent
