#pragma once

#include <optional>
#include <string>

#include "detent/checkpoints/gguf/gguf_metadata.h"
#include "detent/tokenizers/tokenizer.h"
#include "detent/tokenizers/vocabulary.h"

namespace detent {

/// The keys tokenizer.ggml.*; missing ones have llama.cpp's defaults. Throws Error naming file
/// and key on a missing key, lists that differ in length, and a model of tokenizers that is none of gpt2,
/// llama, t5 and bert.
Vocabulary read_gguf_vocabulary(const GgufMetadata& metadata);

Tokenizer read_gguf_tokenizer(const GgufMetadata& metadata);

/// The template of chats; nothing where there is none.
std::optional<std::string> gguf_chat_template(const GgufMetadata& metadata);

}  // namespace detent
