#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/language/multiple_choice.h"
#include "detent/tokenizers/tokenizer.h"

namespace detent {

/// Questions, a JSON object a line: {"context": TEXT, "choices": [TEXT, ...], "answer": INDEX}, or with ids
/// of tokens,
/// {"context_ids": [...], "choice_ids": [[...], ...], "answer": INDEX}, where a token counts as a byte. A
/// choice is what the tokens of context and choice together have after as many as the context alone has;
/// blanks at the end of a context belong to its choices. Throws Error naming file and line; texts need a
/// tokenizer.
std::vector<Question> read_questions(const std::filesystem::path& path, const Tokenizer* tokenizer);

/// One of them; `where` begins messages.
Question question_of(const Value& object, const std::string& where, const Tokenizer* tokenizer);

}  // namespace detent
