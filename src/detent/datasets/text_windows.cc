#include <algorithm>

#include "detent/core/error.h"
#include "detent/datasets/datasets.h"
#include "detent/files/file.h"

namespace detent {

Tensor text_windows(const std::filesystem::path& path, const DatasetOptions& options) {
  constexpr int64_t kMostWindows = 64;
  if (!options.tokenize) {
    fail(
        "{}: a text calibrates language models that come with a tokenizer; expected .npy, .npz or "
        ".safetensors",
        path.string());
  }
  const std::vector<int64_t> tokens = options.tokenize(read_file(path));
  if (tokens.empty()) fail("{}: holds no text", path.string());
  const int64_t length = std::min(options.text_window, std::ssize(tokens));
  const int64_t whole = std::ssize(tokens) / length;
  const int64_t count = std::min(whole, kMostWindows);
  Tensor windows(DType::kInt64, {count, length});
  auto target = windows.values<int64_t>().begin();
  for (int64_t i = 0; i < count; ++i) {
    const auto first = static_cast<size_t>(i * whole / count * length);
    target = std::ranges::copy(std::span(tokens).subspan(first, static_cast<size_t>(length)), target).out;
  }
  return windows;
}

}  // namespace detent
