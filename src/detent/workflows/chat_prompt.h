#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/tokenizers/chat/chat_template.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// What the template makes of messages, with the tokenizer's own bos_token and eos_token;
/// `add_generation_prompt`: and what an answer begins with.
std::string chat_text(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                      const Tokenizer& tokenizer, bool add_generation_prompt = true);

/// The tokens of that, with no others around.
std::vector<int64_t> chat_tokens(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                                 const Tokenizer& tokenizer);

}  // namespace detent
