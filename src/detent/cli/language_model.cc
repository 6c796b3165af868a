#include "detent/cli/language_model.h"

#include <utility>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/cli/file_kind.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/process_resources.h"
#include "detent/language/cache_format.h"
#include "detent/language/language_model.h"
#include "detent/tokenizers/gguf/gguf_tokenizer.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

bool has_tokenizer_file(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.json") || fs::exists(folder / "tokenizer.model");
}

bool is_gguf_file(const fs::path& path) {
  return fs::is_regular_file(path) && file_kind(path).info == gguf_info;
}

LanguageModel read_model_for_decoder(const fs::path& path) {
  const fs::path file = graph_file(path);
  const FileKind& kind = file_kind(file);
  if (kind.info == gguf_info) return read_gguf_model(file);
  if (kind.info == language_info) return read_folder_model(fs::absolute(file).parent_path());
  return {{}, read_network(path)};
}

}  // namespace

Decoder read_decoder(const fs::path& path, const std::optional<Format>& cache_format) {
  keep_vectors_out_of_heap(kLargeVectorOfLanguage);
  LanguageModel model = read_model_for_decoder(path);
  if (cache_format) {
    try {
      quantize_cache(model.graph, *cache_format);
    } catch (const Error& error) {
      fail("--cache-format: {}: {}", path.string(), error.what());
    }
  }
  return decoder_of(std::move(model), path);
}

std::optional<Format> cache_format_option(const std::string& text) {
  if (text.empty()) return std::nullopt;
  return parse_cache_format(text, "--cache-format");
}

Decoder decoder_of(LanguageModel model, const fs::path& path) {
  try {
    return Decoder(std::move(model.graph), std::move(model.weights));
  } catch (const Error& error) {
    const std::string message = error.what();
    if (message.starts_with(path.string())) throw;
    fail("{}: {}", path.string(), message);
  }
}

std::optional<Tokenizer> find_tokenizer(const fs::path& path) {
  if (is_gguf_file(path)) {
    const GgufFile file = read_gguf(path);
    if (!has_gguf_tokenizer(file.metadata)) return std::nullopt;
    return read_gguf_tokenizer(file.metadata);
  }
  const fs::path folder = fs::is_directory(path) ? path : fs::absolute(path).parent_path();
  if (!has_tokenizer_file(folder)) return std::nullopt;
  return read_tokenizer(folder);
}

std::optional<std::string> find_model_template(const fs::path& path) {
  if (is_gguf_file(path)) return gguf_chat_template(read_gguf(path).metadata);
  return find_chat_template(fs::is_directory(path) ? path : fs::absolute(path).parent_path());
}

std::vector<int64_t> end_tokens(const fs::path& path, const std::optional<Tokenizer>& tokenizer) {
  std::vector<int64_t> ends;
  if (fs::is_directory(path) && is_language_folder(path)) {
    ends = read_folder_config(path).eos;
  } else if (is_gguf_file(path)) {
    ends = read_gguf_config(read_gguf(path)).eos;
  }
  if (ends.empty() && tokenizer && tokenizer->special_tokens().end_of_sequence)
    ends.push_back(*tokenizer->special_tokens().end_of_sequence);
  return ends;
}

}  // namespace detent
