#include <map>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/cli/file_kind.h"

namespace detent {
namespace {

/// Longer arrays are told by their number of elements.
constexpr size_t kMostElementsShown = 8;

/// "gpt2 (smollm), 49152 tokens"
std::string tokenizer_text(const GgufMetadata& metadata) {
  std::string text(metadata.text("tokenizer.ggml.model"));
  const std::string_view splitting = metadata.text("tokenizer.ggml.pre", "");
  if (!splitting.empty()) text += fmt::format(" ({})", splitting);
  const GgufEntry* tokens = metadata.find("tokenizer.ggml.tokens");
  const auto* list = tokens == nullptr ? nullptr : std::get_if<GgufArray>(&tokens->value);
  if (list != nullptr) text += fmt::format(", {} tokens", list->count);
  return text;
}

/// Tensors and bytes in each format.
Table format_totals(const GgufFile& file) {
  std::map<std::string, std::pair<int64_t, int64_t>> totals;
  for (const GgufTensor& tensor : file.tensors) {
    auto& [tensors, bytes] = totals[tensor.format->name];
    tensors += 1;
    bytes += static_cast<int64_t>(tensor.bytes.size());
  }
  Table table;
  for (const auto& [name, total] : totals) {
    table[name] = Table{{"tensors", total.first}, {"bytes", total.second}};
  }
  return table;
}

}  // namespace

FileInfo gguf_info(const std::filesystem::path& path, const InputShapes& /*shapes*/) {
  const GgufFile file = read_gguf(path);
  FileInfo info{.kind = "GGUF", .tensors = {}, .facts = {}};
  int64_t elements = 0;
  for (const GgufTensor& tensor : file.tensors) {
    info.tensors.push_back({tensor.name, tensor.format->name, tensor.shape, tensor.bytes.size()});
    elements += element_count(tensor.shape);
  }
  info.facts["version"] = static_cast<int64_t>(file.version);
  info.facts["architecture"] = std::string(file.metadata.text("general.architecture", "not told"));
  info.facts["parameters"] = elements;
  info.facts["formats"] = format_totals(file);
  if (file.metadata.contains("tokenizer.ggml.model")) info.facts["tokenizer"] = tokenizer_text(file.metadata);
  for (const GgufEntry& entry : file.metadata.entries()) {
    info.facts[entry.key] = gguf_value(entry, kMostElementsShown);
  }
  return info;
}

}  // namespace detent
