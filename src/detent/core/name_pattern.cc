#include "detent/core/name_pattern.h"

#include <algorithm>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error.h"

namespace detent {
namespace {

/// What the pattern asks for literally: "layr1" of "layr1.*" and of "layr1_[0-9]+".
std::string literal_prefix(const std::string& pattern) {
  return pattern.substr(0, pattern.find_first_of(".[(*+?\\{|^$"));
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

std::regex name_pattern(const std::string& text, const std::string& where) {
  try {
    return std::regex(text);
  } catch (const std::regex_error& error) {
    fail("{}: \"{}\" is no regular expression: {}", where, text, error.what());
  }
}

std::string unmatched_pattern_message(const std::string& pattern, std::span<const std::string> names) {
  const std::string nearest = nearest_to_pattern(pattern, names);
  const std::string suggestion = nearest.empty() ? "" : fmt::format(": did you mean \"{}\"?", nearest);
  return fmt::format("\"{}\" matches no node{} (nodes: {})", pattern, suggestion, fmt::join(names, ", "));
}

}  // namespace detent
