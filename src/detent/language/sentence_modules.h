#pragma once

#include <filesystem>

#include "detent/language/language_config.h"

namespace detent {

/// Parts that a folder of sentence-transformers puts on the last hidden state, by its modules.json: pooling,
/// a layer and normalization become the head, in the place of the one of `architectures`, which that library
/// leaves out too. Nothing where there is no such file, or no pooling in it. Throws Error naming file and key
/// on other modules, and on other kinds of pooling than of the first token, the last one and the mean.
void read_sentence_modules(const std::filesystem::path& folder, LanguageConfig& config);

}  // namespace detent
