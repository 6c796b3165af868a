#include "detent/tokenizers/chat/chat_template.h"

#include "detent/tokenizers/chat/template_syntax.h"

namespace detent {

ChatTemplate::ChatTemplate(std::string_view text, std::string name)
    : name_(std::move(name)), block_(std::make_unique<const TemplateBlock>(parse_template(text, name_))) {}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;

std::string ChatTemplate::render(const Table& variables) const {
  TemplateTable values;
  for (const TableEntry& entry : variables) values.emplace_back(entry.key, TemplateValue::from(entry.value));
  return evaluate_template(*block_, std::move(values), name_);
}

std::string ChatTemplate::render(const std::vector<ChatMessage>& messages, bool add_generation_prompt,
                                 Table variables) const {
  List list;
  for (const ChatMessage& message : messages)
    list.emplace_back(Table{{"role", message.role}, {"content", message.content}});
  variables["messages"] = std::move(list);
  variables["add_generation_prompt"] = add_generation_prompt;
  for (const char* absent : {"tools", "documents"})
    if (!variables.contains(absent)) variables[absent] = Value();
  return render(variables);
}

}  // namespace detent
