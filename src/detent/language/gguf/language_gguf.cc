#include "detent/language/language_model.h"

#include <algorithm>
#include <map>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/language/gguf/gguf_families.h"
#include "detent/language/language_graph.h"
#include "detent/language/language_weights.h"

namespace detent {
namespace {

std::vector<std::string> ignored() { return {"rope_freqs", "rope_factors_", "cls."}; }

class GgufTensors final : public StoredTensors {
 public:
  GgufTensors(GgufFile file, const GgufFamily& family, const LanguageConfig& config)
      : file_(std::move(file)), head_size_(family.pairs_rows ? config.head_size : 0) {
    for (const GgufTensor& tensor : file_.tensors) {
      const bool is_row = tensor.name.ends_with(".ffn_gate_inp_shexp.weight") && tensor.shape.size() == 1;
      const bool are_biases = tensor.name.ends_with("_exps.bias") && tensor.shape.size() == 2;
      const bool are_heads = tensor.name.find(".attn_k_b.") != std::string::npos ||
                             tensor.name.find(".attn_v_b.") != std::string::npos;
      if (tensor.shape.size() == 3 && are_heads) {
        GgufTensor& added = tensors_.emplace(tensor.name, tensor).first->second;
        added.shape = {tensor.shape[0] * tensor.shape[1], tensor.shape[2]};
      } else if (tensor.shape.size() == 3 || are_biases) {
        add_experts(tensor);
      } else {
        GgufTensor& added = tensors_.emplace(tensor.name, tensor).first->second;
        if (is_row) added.shape.insert(added.shape.begin(), 1);
        const bool are_taps = tensor.name.ends_with(".shortconv.conv.weight") && tensor.shape.size() == 2;
        if (are_taps) added.shape.insert(added.shape.begin() + 1, 1);
      }
    }
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }
  std::optional<Shape> shape(const std::string& name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? std::nullopt : std::optional(found->second.shape);
  }
  Tensor values(const std::string& name) override {
    const GgufTensor& stored = tensors_.at(name);
    const Tensor elements = gguf_elements(stored);
    if (!holds_plain_numbers(*stored.format)) release_pages(stored.bytes);
    return ordered(name, is_floating_point(elements.dtype()) ? to_float32(elements) : elements);
  }
  std::string where() const override { return file_.metadata.file(); }

  Tensor rows(const std::string& name, std::span<const int64_t> indices) const override {
    return gguf_rows(tensors_.at(name), indices);
  }
  std::optional<StoredScales> scales(const std::string& name) const override {
    const GgufTensor& stored = tensors_.at(name);
    const std::optional<GgufScales> found = gguf_scales(stored);
    if (!found) return std::nullopt;
    release_pages(stored.bytes);
    StoredScales result{.group = found->group, .scales = ordered(name, found->scales)};
    if (found->minimums) result.minimums = ordered(name, *found->minimums);
    return result;
  }

 private:
  /// The matrix or bias of each expert as a tensor.
  void add_experts(const GgufTensor& all) {
    const auto experts = static_cast<size_t>(all.shape[0]);
    const size_t bytes = experts == 0 ? 0 : all.bytes.size() / experts;
    for (size_t i = 0; i < experts; ++i) {
      GgufTensor one = all;
      one.name = name_of_expert(all.name, static_cast<int64_t>(i));
      one.shape.erase(one.shape.begin());
      one.bytes = all.bytes.subspan(i * bytes, bytes);
      tensors_.emplace(one.name, one);
    }
  }

  /// Rows as Hugging Face has them.
  Tensor ordered(const std::string& name, const Tensor& rows) const {
    const bool is_paired =
        name.find(".attn_q.") != std::string::npos || name.find(".attn_k.") != std::string::npos;
    const bool has_heads = head_size_ > 0 && is_paired && rows.numel() > 0 && rows.dim(0) % head_size_ == 0;
    return has_heads ? unpaired_rows(rows, head_size_, head_size_) : rows;
  }

  GgufFile file_;
  int64_t head_size_;                                       // 0: rows stand as they are
  std::map<std::string, GgufTensor, std::less<>> tensors_;  // views of the file
};

}  // namespace

std::vector<int64_t> gguf_end_tokens(const GgufMetadata& metadata) {
  std::vector<int64_t> ends;
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    if (!metadata.contains(key)) continue;
    const int64_t token = metadata.integer(key);
    if (std::ranges::find(ends, token) == ends.end()) ends.push_back(token);
  }
  return ends;
}

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

namespace {

struct OpenedGguf {
  LanguageConfig config;
  std::vector<StoredName> rules;
  std::unique_ptr<StoredTensors> tensors;
};

OpenedGguf opened(const std::filesystem::path& path) {
  GgufFile file = read_gguf(path);
  LanguageConfig config = read_gguf_config(file);
  const GgufFamily& family = find_gguf_family(file);
  auto tensors = std::make_unique<GgufTensors>(std::move(file), family, config);
  return {std::move(config), family.weights(), std::move(tensors)};
}

}  // namespace

Graph read_language_gguf(const std::filesystem::path& path) {
  const OpenedGguf file = opened(path);
  RuledWeights weights(file.config, file.rules, ignored(), *file.tensors);
  return build_language_graph(file.config, weights);
}

LanguageModel read_gguf_model(const std::filesystem::path& path) {
  OpenedGguf file = opened(path);
  return deferred_model(std::move(file.config), std::move(file.rules), ignored(), std::move(file.tensors));
}

}  // namespace detent
