#include "detent/workflows/chat_prompt.h"

#include <string>
#include <utility>

namespace detent {

std::string chat_text(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                      const Tokenizer& tokenizer, bool add_generation_prompt) {
  Table variables;
  const SpecialTokens& special = tokenizer.special_tokens();
  for (const auto& [name, id] :
       {std::pair("bos_token", special.begin_of_sequence), std::pair("eos_token", special.end_of_sequence)})
    variables[name] = id ? tokenizer.token(*id) : std::string();
  return chat_template.render(messages, add_generation_prompt, variables);
}

std::vector<int64_t> chat_tokens(const ChatTemplate& chat_template, const std::vector<ChatMessage>& messages,
                                 const Tokenizer& tokenizer) {
  return tokenizer.encode(chat_text(chat_template, messages, tokenizer), false);
}

}  // namespace detent
