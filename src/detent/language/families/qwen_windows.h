#pragma once

#include "detent/language/language_config.h"

namespace detent {

class ConfigReader;

/// Layers from max_window_layers on have a window where use_sliding_window says so.
void read_qwen_windows(const ConfigReader& json, LanguageConfig& config);

}  // namespace detent
