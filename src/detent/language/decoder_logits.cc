#include "detent/language/perplexity.h"

#include <algorithm>
#include <memory>

#include "detent/core/error.h"

namespace detent {

int64_t piece_of_logits(const Decoder& decoder) {
  constexpr int64_t kLogitBytes = int64_t{32} << 20;
  constexpr int64_t kLeast = 16;
  constexpr int64_t kMost = 512;
  const int64_t row_bytes = decoder.vocabulary() * static_cast<int64_t>(sizeof(float));
  return std::clamp(kLogitBytes / row_bytes, kLeast, kMost);
}

LogitsOf logits_of(const Decoder& decoder, int64_t piece) {
  if (piece == 0) piece = piece_of_logits(decoder);
  return [&decoder, piece](std::span<const int64_t> tokens, int64_t from,
                           const std::function<void(int64_t, const Tensor&)>& visit) {
    SequenceCache cache = decoder.start();
    const int64_t count = std::ssize(tokens);
    for (int64_t first = 0; first < count;) {
      const bool is_asked_for = first >= from;
      const int64_t end = std::min(first + piece, is_asked_for ? count : from);
      const auto some = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(end - first));
      const auto wanted = is_asked_for ? WantedLogits::kOfAllTokens : WantedLogits::kOfLastToken;
      const Tensor logits = decoder.run(cache, some, wanted);
      if (is_asked_for) visit(first, logits);
      first = end;
    }
  };
}

LogitsOf kept_logits(const Tensor& logits, const std::vector<TokenWindow>& windows, const std::string& name) {
  if (logits.rank() != 2 || logits.dtype() != DType::kFloat32) {
    fail("{}: an array of {} of shape {}, expected float32 [scored tokens, vocabulary]", name,
         dtype_name(logits.dtype()), shape_text(logits.shape()));
  }
  const int64_t scored = scored_tokens(windows);
  if (logits.dim(0) != scored) {
    fail("{}: has logits of {} tokens, expected {}: those of the same text and windows", name, logits.dim(0),
         scored);
  }
  const auto next = std::make_shared<int64_t>(0);
  return [logits, next](std::span<const int64_t> tokens, int64_t from,
                        const std::function<void(int64_t, const Tensor&)>& visit) {
    const int64_t rows = std::ssize(tokens) - from;
    visit(from, logits.rows(*next, *next + rows));
    *next += rows;
  };
}

}  // namespace detent
