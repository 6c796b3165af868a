#pragma once

#include <string>

#include "detent/core/value.h"

namespace detent {

/// "batch_size = 128, got 64" for the first setting that differs, "passes.gptq.percdamp = ..." in a table;
/// empty where none does. What one of them does not have is NA.
std::string settings_difference(const Table& saved, const Table& now);

}  // namespace detent
