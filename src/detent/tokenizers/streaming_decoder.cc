#include "detent/tokenizers/tokenizer.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// "<0x0A>": what such a token means may depend on those that follow.
bool is_byte_token(const std::string& token) {
  constexpr size_t kLength = 6;
  return token.size() == kLength && token.starts_with("<0x") && token.ends_with('>');
}

}  // namespace

StreamingDecoder::StreamingDecoder(Tokenizer tokenizer, bool skip_special_tokens)
    : tokenizer_(std::move(tokenizer)), skip_special_tokens_(skip_special_tokens) {}

std::string StreamingDecoder::add(int64_t id) {
  if (skip_special_tokens_ && tokenizer_.is_special(id)) return "";
  ids_.push_back(id);
  return is_byte_token(tokenizer_.token(id)) ? "" : take(false);
}

std::string StreamingDecoder::finish() {
  std::string rest = take(true);
  ids_.clear();
  shown_ids_ = 0;
  return rest;
}

std::string StreamingDecoder::take(bool last) {
  const std::span<const int64_t> ids(ids_);
  const std::string shown = tokenizer_.decode(ids.first(shown_ids_), skip_special_tokens_);
  std::string text = tokenizer_.decode(ids, skip_special_tokens_);
  if (!last && text.ends_with(kReplacement)) return "";
  // The text shown begins the window, since the decoder looks no further back than that.
  std::string fresh = text.size() > shown.size() ? text.substr(shown.size()) : "";
  if (fresh.empty() && !last) return "";
  // The ids that were new become the context of those that follow.
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(shown_ids_));
  shown_ids_ = ids_.size();
  return fresh;
}

}  // namespace detent
