#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

namespace detent {

/// The metadata of one architecture, whose keys begin with its name.
class GgufConfigReader {
 public:
  explicit GgufConfigReader(const GgufFile& file);

  const GgufFile& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }
  std::string key(std::string_view end) const { return architecture_ + "." + std::string(end); }
  bool has(std::string_view end) const { return file_.metadata.contains(key(end)); }
  /// Where the value is an array, one a layer, all have to be the same.
  int64_t integer(std::string_view end) const;
  int64_t integer(std::string_view end, int64_t absent) const { return has(end) ? integer(end) : absent; }
  double number(std::string_view end, double absent) const { return file_.metadata.number(key(end), absent); }
  double number(std::string_view end) const { return file_.metadata.number(key(end)); }
  bool flag(std::string_view end, bool absent) const { return file_.metadata.flag(key(end), absent); }
  bool has_tensor(std::string_view name) const { return file_.find(name) != nullptr; }

 private:
  const GgufFile& file_;
  std::string architecture_;
};

/// An architecture of GGUF files.
struct GgufFamily {
  const char* architecture;  // general.architecture
  const char* family;        // of families/families.h
  LanguageConfig (*config)(const GgufConfigReader& reader);
  std::vector<StoredName> (*weights)();
  /// Rows of queries and keys stand in pairs of elements that turn together: 0, h/2, 1, h/2 + 1, ...
  bool pairs_rows = false;
};

std::span<const GgufFamily> gguf_families();

// Parts of several architectures.

/// Norms before, heads that turn, a gated perceptron.
LanguageConfig read_llama_like(const GgufConfigReader& reader, const char* family);
/// Layer norms before, heads that turn.
LanguageConfig read_centred(const GgufConfigReader& reader, const char* family);
LanguageConfig read_gguf_granite(const GgufConfigReader& reader);
LanguageConfig read_gguf_gpt2(const GgufConfigReader& reader);
std::vector<StoredName> gguf_llama_names();
std::vector<StoredName> gguf_qwen3_names();
std::vector<StoredName> gguf_phi3_names();
std::vector<StoredName> gguf_gpt2_names();
/// Queries, keys and values in one tensor.
std::vector<StoredName> joined_names(std::vector<StoredName> names);

// gguf_expert_families.cc

/// Llama, and Mixtral where there are experts.
LanguageConfig read_gguf_llama(const GgufConfigReader& reader);
LanguageConfig read_gguf_granite_moe(const GgufConfigReader& reader);
LanguageConfig read_gguf_qwen2_moe(const GgufConfigReader& reader);
LanguageConfig read_gguf_qwen3_moe(const GgufConfigReader& reader);
LanguageConfig read_gguf_olmoe(const GgufConfigReader& reader);
LanguageConfig read_gguf_gpt_oss(const GgufConfigReader& reader);
LanguageConfig read_gguf_deepseek2(const GgufConfigReader& reader);
LanguageConfig read_gguf_minicpm3(const GgufConfigReader& reader);
std::vector<StoredName> gguf_expert_names();
std::vector<StoredName> gguf_normed_expert_names();
std::vector<StoredName> gguf_gpt_oss_names();
std::vector<StoredName> gguf_latent_names();

// gguf_centred_families.cc

LanguageConfig read_gguf_falcon(const GgufConfigReader& reader);
LanguageConfig read_gguf_mpt(const GgufConfigReader& reader);
LanguageConfig read_gguf_bloom(const GgufConfigReader& reader);
LanguageConfig read_gguf_starcoder(const GgufConfigReader& reader);
LanguageConfig read_gguf_modern_bert(const GgufConfigReader& reader);
std::vector<StoredName> gguf_falcon_names();
std::vector<StoredName> gguf_bloom_names();
std::vector<StoredName> gguf_modern_bert_names();

// gguf_recent_families.cc

LanguageConfig read_gguf_olmo(const GgufConfigReader& reader);
LanguageConfig read_gguf_nemotron(const GgufConfigReader& reader);
LanguageConfig read_gguf_arcee(const GgufConfigReader& reader);
LanguageConfig read_gguf_ernie(const GgufConfigReader& reader);
LanguageConfig read_gguf_command_r(const GgufConfigReader& reader);
LanguageConfig read_gguf_cohere2(const GgufConfigReader& reader);
LanguageConfig read_gguf_exaone4(const GgufConfigReader& reader);
LanguageConfig read_gguf_lfm2(const GgufConfigReader& reader);
std::vector<StoredName> gguf_lfm2_names();
std::vector<StoredName> gguf_post_normed_names(std::vector<StoredName> names);

/// Throws Error naming the file.
const GgufFamily& find_gguf_family(const GgufFile& file);

}  // namespace detent
