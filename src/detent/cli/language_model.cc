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

fs::path folder_of(const fs::path& path) {
  return fs::is_directory(path) ? path : fs::absolute(path).parent_path();
}

/// The file of a tokenizer itself, not that of a network beside it.
bool is_tokenizer_file(const fs::path& path) {
  const bool is_description = path.extension() == ".json" && path.stem().string().starts_with("tokenizer");
  return (is_description || path.extension() == ".model") && !fs::is_directory(path);
}

/// The GGUF file that the path names, or the header of one that lies beside a graph made from it.
std::optional<fs::path> gguf_of(const fs::path& path) {
  if (is_tokenizer_file(path)) return std::nullopt;
  if (is_gguf_file(path)) return path;
  const fs::path header = folder_of(path) / kGgufTokenizer;
  return fs::exists(header) ? std::optional(header) : std::nullopt;
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
  if (is_tokenizer_file(path)) return read_tokenizer(path);
  const fs::path folder = folder_of(path);
  const std::optional<fs::path> gguf = gguf_of(path);
  if (!is_gguf_file(path) && has_tokenizer_file(folder)) return read_tokenizer(folder);
  if (!gguf) return std::nullopt;
  const GgufFile file = read_gguf(*gguf);
  if (!has_gguf_tokenizer(file.metadata)) return std::nullopt;
  return read_gguf_tokenizer(file.metadata);
}

std::optional<std::string> find_model_template(const fs::path& path) {
  if (is_tokenizer_file(path) || !is_gguf_file(path)) {
    if (auto text = find_chat_template(folder_of(path))) return text;
  }
  const std::optional<fs::path> gguf = gguf_of(path);
  return gguf ? gguf_chat_template(read_gguf(*gguf).metadata) : std::nullopt;
}

std::vector<int64_t> end_tokens(const fs::path& path, const std::optional<Tokenizer>& tokenizer) {
  std::vector<int64_t> ends;
  if (fs::is_directory(path) && is_language_folder(path)) {
    ends = read_folder_config(path).eos;
  } else if (const std::optional<fs::path> gguf = gguf_of(path)) {
    ends = gguf_end_tokens(read_gguf(*gguf).metadata);
  } else {
    ends = generation_end_tokens(folder_of(path)).value_or(std::vector<int64_t>());
  }
  if (ends.empty() && tokenizer && tokenizer->special_tokens().end_of_sequence)
    ends.push_back(*tokenizer->special_tokens().end_of_sequence);
  return ends;
}

}  // namespace detent
