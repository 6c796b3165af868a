#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/value.h"

namespace detent {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

struct TemplateBlock;

/// A chat template: Jinja as Hugging Face's library runs it (trim_blocks, lstrip_blocks), as far as templates
/// of language models go. There are: for with if, else, break and continue; if; set, also of blocks and of
/// namespaces; expressions with attributes, items, slices, calls, comparisons, `in`, tests and filters. What
/// else there is (macros, includes, other filters) throws Error that names it with its line.
class ChatTemplate {
 public:
  /// `name` begins messages.
  ChatTemplate(std::string_view text, std::string name);
  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;

  /// The text for these variables. Throws Error where the template raises one, and where it does not end
  /// within what chats need.
  std::string render(const Table& variables) const;

  /// With `messages`, `add_generation_prompt` and what else `variables` has (bos_token, eos_token, ...).
  std::string render(const std::vector<ChatMessage>& messages, bool add_generation_prompt,
                     Table variables = {}) const;

 private:
  std::string name_;
  std::unique_ptr<const TemplateBlock> block_;
};

}  // namespace detent
