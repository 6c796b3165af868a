#include "detent/cli/language_model.h"

#include <algorithm>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/json.h"

namespace detent {
namespace {

/// One line of the file.
class QuestionReader {
 public:
  QuestionReader(const Value& line, std::string where, const Tokenizer* tokenizer)
      : where_(std::move(where)), tokenizer_(tokenizer), table_(line.get_if<Table>()) {
    if (table_ == nullptr) fail("{}: got {}, expected an object", where_, line.kind_name());
  }

  Question read() const {
    Question question;
    if (table_->contains("context_ids") || table_->contains("choice_ids")) {
      const std::vector<int64_t> context = ids(at<List>("context_ids", "a list of ids"), "context_ids");
      for (const Value& choice : at<List>("choice_ids", "a list of lists of ids")) {
        const List* list = choice.get_if<List>();
        if (list == nullptr) fail("{}: choice_ids has {}, expected lists of ids", where_, choice.kind_name());
        question.choices.push_back(continuation_of_ids(context, ids(*list, "choice_ids")));
      }
    } else {
      const auto& context = at<std::string>("context", "a text");
      for (const Value& choice : at<List>("choices", "a list of texts")) {
        const auto* text = choice.get_if<std::string>();
        if (text == nullptr) fail("{}: choices has {}, expected texts", where_, choice.kind_name());
        question.choices.push_back(continuation_of_text(context, *text));
      }
    }
    question.answer = at<int64_t>("answer", "the index of the right choice");
    const auto count = std::ssize(question.choices);
    if (count < 2) fail("{}: {} choices, expected at least 2", where_, count);
    if (question.answer < 0 || question.answer >= count) {
      fail("{}: answer is {}, expected 0 to {}", where_, question.answer, count - 1);
    }
    return question;
  }

 private:
  template <class T>
  const T& at(const char* key, const char* expected) const {
    const Value* value = table_->find(key);
    if (value == nullptr) fail("{}: there is no key \"{}\", expected {}", where_, key, expected);
    const T* found = value->get_if<T>();
    if (found == nullptr) fail("{}: {} is {}, expected {}", where_, key, value->kind_name(), expected);
    return *found;
  }

  std::vector<int64_t> ids(const List& list, const char* key) const {
    std::vector<int64_t> result;
    for (const Value& value : list) {
      const auto* id = value.get_if<int64_t>();
      if (id == nullptr) fail("{}: {} has {}, expected integers", where_, key, value.kind_name());
      result.push_back(*id);
    }
    return result;
  }

  Continuation continuation_of_ids(const std::vector<int64_t>& context,
                                   const std::vector<int64_t>& choice) const {
    Continuation result{context, std::ssize(context), std::ssize(choice)};
    result.tokens.insert(result.tokens.end(), choice.begin(), choice.end());
    return checked(std::move(result));
  }

  Continuation continuation_of_text(const std::string& context, const std::string& choice) const {
    if (tokenizer_ == nullptr) {
      fail(
          "{}: texts, and the model has no tokenizer: --tokenizer names one, or context_ids and choice_ids "
          "give ids",
          where_);
    }
    const size_t last = context.find_last_not_of(" \t\n\r");
    const std::string kept = context.substr(0, last == std::string::npos ? 0 : last + 1);
    const std::vector<int64_t> before = tokenizer_->encode(kept);
    return checked({tokenizer_->encode(context + choice), std::ssize(before), std::ssize(choice)});
  }

  Continuation checked(Continuation result) const {
    if (result.begin < 1) fail("{}: the context has no tokens, expected at least one", where_);
    if (result.begin >= std::ssize(result.tokens) || result.bytes < 1) {
      fail("{}: a choice has no tokens after the context, expected at least one", where_);
    }
    return result;
  }

  std::string where_;
  const Tokenizer* tokenizer_;
  const Table* table_;
};

}  // namespace

Question question_of(const Value& object, const std::string& where, const Tokenizer* tokenizer) {
  return QuestionReader(object, where, tokenizer).read();
}

std::vector<Question> read_questions(const std::filesystem::path& path, const Tokenizer* tokenizer) {
  const std::string text = read_text_file(path);
  std::vector<Question> questions;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::string where = fmt::format("{}:{}", path.string(), ++number);
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) {
      questions.push_back(question_of(parse_json(line, where), where, tokenizer));
    }
    begin = end + 1;
  }
  if (questions.empty()) fail("{}: has no questions", path.string());
  return questions;
}

}  // namespace detent
