#pragma once

#include <string>
#include <vector>

#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

namespace detent {

class ConfigReader;

// Encoders: layer norms after each part, a norm of the embedding, no head.

LanguageConfig read_encoder(const ConfigReader& json, const std::string& family);
/// Positions count tokens other than the padding, from the row after that of the padding on (RoBERTa).
LanguageConfig read_unpadded_encoder(const ConfigReader& json, const std::string& family);
std::vector<StoredName> encoder_weights(const std::string& prefix);
/// What is stored of heads that stand on an encoder.
std::vector<std::string> encoder_heads();

}  // namespace detent
