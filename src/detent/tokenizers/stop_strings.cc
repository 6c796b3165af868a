#include "detent/tokenizers/tokenizer.h"

#include <algorithm>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

/// How many characters at the end of `text` begin `string`; it is not all there.
size_t overlap(std::string_view text, std::string_view string) {
  for (size_t size = std::min(text.size(), string.size() - 1); size > 0; --size)
    if (text.ends_with(string.substr(0, size))) return size;
  return 0;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  if (std::ranges::find(strings_, "") != strings_.end())
    throw UsageError("--stop: an empty text ends nothing");
}

std::string StopStrings::add(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t first = std::string::npos;
  size_t kept = 0;
  for (const std::string& string : strings_) {
    first = std::min(first, held_.find(string));
    kept = std::max(kept, overlap(held_, string));
  }
  found_ = first != std::string::npos;
  std::string shown = held_.substr(0, found_ ? first : held_.size() - kept);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopStrings::finish() { return found_ ? "" : std::exchange(held_, ""); }

}  // namespace detent
