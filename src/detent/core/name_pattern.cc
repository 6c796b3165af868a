#include "detent/core/name_pattern.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/ranges.h>
#include <re2/re2.h>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr size_t kMostShown = 80;  // characters of an expression in a message

std::string shortened(const std::string& text) {
  return text.size() <= kMostShown ? text : text.substr(0, kMostShown) + "...";
}

/// Literal prefix of the pattern: "layr1" of "layr1.*" and of "layr1_[0-9]+".
std::string literal_prefix(const std::string& pattern) {
  return pattern.substr(0, pattern.find_first_of(".[(*+?\\{|^$)"));
}

/// The name that the pattern is nearest to: as a whole, else where it begins; "" when none is near.
std::string nearest_to_pattern(const std::string& pattern, std::span<const std::string> names) {
  const std::string whole = nearest_name(pattern, names);
  const std::string prefix = literal_prefix(pattern);
  if (!whole.empty() || prefix.empty()) return whole;
  for (const size_t length : {prefix.size(), prefix.size() + 1}) {  // a letter may be missing
    std::vector<std::string> beginnings;
    for (const std::string& name : names) beginnings.push_back(name.substr(0, length));
    const auto found = std::ranges::find(beginnings, nearest_name(prefix, beginnings));
    if (found != beginnings.end()) return names[static_cast<size_t>(found - beginnings.begin())];
  }
  return "";
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
  // RE2 may take a step for each pair of a letter of the name and one of the text that it searches for;
  // memmem is linear.
  const std::string& text = expression_->pattern();
  if (literal_prefix(text).size() == text.size()) {
    return memmem(name.data(), name.size(), text.data(), text.size()) != nullptr;
  }
  return re2::RE2::PartialMatch({name.data(), name.size()}, *expression_);
}

std::string unmatched_pattern_message(const std::string& pattern, std::span<const std::string> names) {
  const std::string nearest = nearest_to_pattern(pattern, names);
  const std::string suggestion = nearest.empty() ? "" : fmt::format(": did you mean \"{}\"?", nearest);
  return fmt::format("\"{}\" matches no node{} (nodes: {})", shortened(pattern), suggestion,
                     listed_names(names, pattern));
}

}  // namespace detent
