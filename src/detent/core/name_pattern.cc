#include "detent/core/name_pattern.h"

#include <re2/re2.h>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr size_t kMostShown = 80;  // characters of an expression in a message

std::string shortened(const std::string& text) {
  return text.size() <= kMostShown ? text : text.substr(0, kMostShown) + "...";
}

}  // namespace

NamePattern::NamePattern(const std::string& text, const std::string& where) {
  re2::RE2::Options options(re2::RE2::Quiet);
  // Names are bytes: what a file calls a tensor need not be UTF-8.
  options.set_encoding(re2::RE2::Options::EncodingLatin1);
  auto expression = std::make_shared<const re2::RE2>(text, options);
  if (!expression->ok()) {
    fail("{}: \"{}\" is no regular expression: {}", where, shortened(text), shortened(expression->error()));
  }
  expression_ = std::move(expression);
}

bool NamePattern::matches(std::string_view name) const {
  return re2::RE2::FullMatch({name.data(), name.size()}, *expression_);
}

bool NamePattern::occurs_in(std::string_view name) const {
  return re2::RE2::PartialMatch({name.data(), name.size()}, *expression_);
}

}  // namespace detent
