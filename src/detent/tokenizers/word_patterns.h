#pragma once

#include <string>
#include <string_view>

#include "detent/tokenizers/text_steps.h"

namespace detent {

/// How byte-level BPE of a family prepares text, where only its name is known.
struct WordRules {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool ignore_merges = false;
};

/// By the names of GGUF's tokenizer.ggml.pre; throws Error with those that are known.
WordRules word_rules(std::string_view pre_tokenizer, const std::string& name);

}  // namespace detent
