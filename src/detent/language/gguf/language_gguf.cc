#include "detent/language/gguf/language_gguf.h"

#include <algorithm>
#include <map>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/language/gguf/gguf_families.h"
#include "detent/language/language_graph.h"
#include "detent/language/language_weights.h"

namespace detent {
namespace {

/// Rows 0, h/2, 1, h/2 + 1, ... of each head back in the order 0, 1, 2, ...
Tensor unpaired_rows(const Tensor& paired, int64_t head_size) {
  Tensor result(paired.dtype(), paired.shape());
  const int64_t half = head_size / 2;
  const auto row_bytes = paired.byte_size() / static_cast<size_t>(paired.dim(0));
  for (int64_t row = 0; row < paired.dim(0); ++row) {
    const int64_t within = row % head_size;
    const int64_t target = row - within + within % 2 * half + within / 2;
    const auto from = paired.bytes().subspan(static_cast<size_t>(row) * row_bytes, row_bytes);
    std::ranges::copy(from, result.bytes().begin() + static_cast<int64_t>(row_bytes) * target);
  }
  return result;
}

class GgufTensors final : public StoredTensors {
 public:
  GgufTensors(const GgufFile& file, const GgufFamily& family, const LanguageConfig& config)
      : file_(file), head_size_(family.pairs_rows ? config.head_size : 0) {
    for (const GgufTensor& tensor : file.tensors) tensors_.emplace(tensor.name, &tensor);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  std::optional<Shape> shape(const std::string& name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? std::nullopt : std::optional(found->second->shape);
  }
  Tensor values(const std::string& name) override {
    const Tensor elements = gguf_elements(*tensors_.at(name));
    const Tensor values = is_floating_point(elements.dtype()) ? to_float32(elements) : elements;
    const bool is_paired =
        name.find(".attn_q.") != std::string::npos || name.find(".attn_k.") != std::string::npos;
    const bool has_heads =
        head_size_ > 0 && is_paired && values.numel() > 0 && values.dim(0) % head_size_ == 0;
    return has_heads ? unpaired_rows(values, head_size_) : values;
  }
  std::string where() const override { return file_.metadata.file(); }

 private:
  const GgufFile& file_;
  int64_t head_size_;  // 0: rows stand as they are
  std::map<std::string, const GgufTensor*, std::less<>> tensors_;
};

}  // namespace

LanguageConfig read_gguf_config(const GgufFile& file) {
  const int64_t parts = file.metadata.integer("split.count", 1);
  if (parts > 1) {
    fail("{}: is one of {} files of a network, expected the whole: llama-gguf-split joins them",
         file.metadata.file(), parts);
  }
  const GgufFamily& family = find_gguf_family(file);
  LanguageConfig config = family.config(GgufConfigReader(file));
  check_language_config(config, file.metadata.file());
  const int64_t turning = 2 * std::ssize(config.rotary.frequencies);
  if (family.pairs_rows && turning != config.head_size) {
    fail("{}: {} of {} elements of a head turn, expected all of the architecture {}", file.metadata.file(),
         turning, config.head_size, family.architecture);
  }
  return config;
}

Graph read_language_gguf(const std::filesystem::path& path) {
  const GgufFile file = read_gguf(path);
  const LanguageConfig config = read_gguf_config(file);
  const GgufFamily& family = find_gguf_family(file);
  GgufTensors tensors(file, family, config);
  RuledWeights weights(config, family.weights(), {"rope_freqs", "rope_factors_", "cls."}, tensors);
  return build_language_graph(config, weights);
}

}  // namespace detent
