#pragma once

#include <string>

#include "detent/core/error.h"

namespace detent {

/// The message of the Error that `action` throws; "" where it throws none.
std::string error_of(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace detent
