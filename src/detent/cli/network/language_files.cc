#include "detent/cli/language_model.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/cli/file_kind.h"
#include "detent/core/error.h"
#include "detent/core/value.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/language/language_graph.h"
#include "detent/language/language_model.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kGenerationConfig = "generation_config.json";
constexpr const char* kTokenizers[] = {"tokenizer.json", "tokenizer.model", kGgufTokenizer};
constexpr const char* kBesideTokenizer[] = {"tokenizer_config.json", "special_tokens_map.json",
                                            "chat_template.jinja"};

LanguageFile copy_of(const fs::path& source, const char* name) {
  return {name, [path = source / name] { return read_file(path); }};
}

/// Where config.json alone names the tokens that end a text, they go to generation_config.json: without its
/// weights a config.json describes no network.
std::optional<LanguageFile> generation_config(const fs::path& folder) {
  if (generation_end_tokens(folder)) return copy_of(folder, kGenerationConfig);
  const bool has_one = fs::exists(folder / kGenerationConfig);
  const std::vector<int64_t> ends =
      is_language_folder(folder) ? read_folder_config(folder).eos : std::vector<int64_t>();
  if (ends.empty()) return has_one ? std::optional(copy_of(folder, kGenerationConfig)) : std::nullopt;
  Value json = has_one ? read_json(folder / kGenerationConfig) : Value(Table());
  (*json.get_if<Table>())["eos_token_id"] = List(ends.begin(), ends.end());
  return LanguageFile{kGenerationConfig, [json] { return json_text(json) + '\n'; }};
}

std::vector<LanguageFile> files_of_folder(const fs::path& folder) {
  std::vector<LanguageFile> files;
  const auto add = [&](const char* name) {
    if (fs::exists(folder / name)) files.push_back(copy_of(folder, name));
  };
  std::ranges::for_each(kTokenizers, add);
  if (files.empty()) return files;
  std::ranges::for_each(kBesideTokenizer, add);
  if (auto generation = generation_config(folder)) files.push_back(std::move(*generation));
  return files;
}

}  // namespace

std::vector<LanguageFile> language_files(const fs::path& network, const Graph& graph) {
  if (!graph.input_types().contains(kTokensInput) || !fs::exists(network)) return {};
  if (fs::is_directory(network)) return files_of_folder(network);
  if (file_kind(network).info != gguf_info) return files_of_folder(fs::absolute(network).parent_path());
  if (!has_gguf_tokenizer(read_gguf(network).metadata)) return {};
  return {{kGgufTokenizer, [network] { return gguf_without_tensors(read_gguf(network)); }}};
}

void write_language_files(const std::vector<LanguageFile>& files, const fs::path& folder, bool overwrite) {
  if (files.empty()) return;
  for (const char* name : kTokenizers) {
    if (fs::exists(folder / name) && std::ranges::find(files, name, &LanguageFile::name) == files.end())
      fail("{}: it is the tokenizer of another network: write this one to another folder",
           (folder / name).string());
  }
  std::vector<std::pair<fs::path, std::string>> missing;
  for (const LanguageFile& file : files) {
    const fs::path path = folder / file.name;
    std::string content = file.content();
    const bool exists = fs::exists(path);
    if (exists && read_file(path) == content) continue;
    if (exists && !overwrite)
      fail("{}: it would be replaced by that of this network: write to another folder, or overwrite",
           path.string());
    missing.emplace_back(path, std::move(content));
  }
  for (const auto& [path, content] : missing) write_file(path, content);
}

}  // namespace detent
