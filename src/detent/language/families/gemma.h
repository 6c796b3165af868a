#pragma once

#include <string>
#include <vector>

#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

namespace detent {

class ConfigReader;

/// What Gemma 1 to 3 have in common: norms that multiply by 1 + weight, a scaled embedding and a tied head.
LanguageConfig common_gemma(const ConfigReader& json, const std::string& family);
/// Which layers have a window, and scores scaled by a number of its own (Gemma 2 and 3).
void read_gemma_windows(const ConfigReader& json, LanguageConfig& config, int64_t pattern);
/// Names of tensors with norms around (Gemma 2 and 3).
std::vector<StoredName> around_weights();

}  // namespace detent
