#include "detent/cli/language_model.h"

#include <utility>

#include "detent/cli/file_kind.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/io/gguf/gguf_file.h"
#include "detent/language/gguf/language_gguf.h"
#include "detent/language/language_folder.h"
#include "detent/tokenizers/gguf/gguf_tokenizer.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer_file(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "tokenizer.model");
}

}  // namespace

Decoder read_decoder(const fs::path& path) { return decoder_of(read_network(path), path); }

Decoder decoder_of(Graph graph, const fs::path& path) {
  try {
    return Decoder(std::move(graph));
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.starts_with(path.string())) throw;
    fail("{}: {}", path.string(), message);
  }
}

std::optional<Tokenizer> find_tokenizer(const fs::path& path) {
  if (fs::is_regular_file(path) && file_kind(path).info == gguf_info) {
    const GgufFile file = read_gguf(path);
    if (!has_gguf_tokenizer(file.metadata)) return std::nullopt;
    return read_gguf_tokenizer(file.metadata);
  }
  const fs::path folder = fs::is_directory(path) ? path : fs::absolute(path).parent_path();
  if (!has_tokenizer_file(folder)) return std::nullopt;
  return read_tokenizer(folder);
}

std::optional<std::string> find_model_template(const fs::path& path) {
  if (fs::is_regular_file(path) && file_kind(path).info == gguf_info)
    return gguf_chat_template(read_gguf(path).metadata);
  return find_chat_template(fs::is_directory(path) ? path : fs::absolute(path).parent_path());
}

std::vector<int64_t> end_tokens(const fs::path& path, const std::optional<Tokenizer>& tokenizer) {
  std::vector<int64_t> ends;
  if (fs::is_directory(path) && is_language_folder(path)) {
    ends = read_folder_config(path).eos;
  } else if (fs::is_regular_file(path) && file_kind(path).info == gguf_info) {
    ends = read_gguf_config(read_gguf(path)).eos;
  }
  if (ends.empty() && tokenizer && tokenizer->special_tokens().end_of_sequence)
    ends.push_back(*tokenizer->special_tokens().end_of_sequence);
  return ends;
}

}  // namespace detent
