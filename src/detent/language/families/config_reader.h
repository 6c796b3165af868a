#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/value.h"
#include "detent/language/language_config.h"
#include "detent/language/language_weights.h"

namespace detent {

/// Keys of a config.json. A key that is null counts as missing. Throws Error naming the file and the key on a
/// missing one and on a value of another kind.
class ConfigReader {
 public:
  /// `where` names the file in messages. Keeps a reference to the table.
  ConfigReader(const Table& table, std::string where) : table_(table), where_(std::move(where)) {}

  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// Its value, of any kind; nullptr where there is none.
  const Value* value(std::string_view key) const { return find(key); }
  std::vector<std::string> keys() const { return table_.keys(); }
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t otherwise) const;
  double number(std::string_view key) const;
  double number(std::string_view key, double otherwise) const;
  std::optional<double> optional_number(std::string_view key) const;
  bool boolean(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, const std::string& otherwise) const;
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  /// One integer, or a list of them; empty where there is none.
  std::vector<int64_t> integers(std::string_view key) const;
  std::optional<ConfigReader> table(std::string_view key) const;
  /// The keys of this table, and of `defaults` those that it lacks.
  Table completed(Table defaults) const;

  /// "gelu", "gelu_new", ... under this key.
  Activation activation(std::string_view key, const std::string& otherwise) const;
  /// Throws Error unless the key has this value or is missing.
  void expect(std::string_view key, const Value& value) const;
  [[noreturn]] void refuse(std::string_view key, std::string_view reason) const;
  const std::string& where() const { return where_; }

 private:
  const Value* find(std::string_view key) const;
  const Value& get(std::string_view key) const;
  [[noreturn]] void fail_kind(std::string_view key, const Value& value, std::string_view expected) const;

  const Table& table_;
  std::string where_;
};

// Common to families.

/// Sizes that most families call the same, ids of special tokens, and whether the head is tied.
LanguageConfig common_config(const ConfigReader& json, const std::string& family, bool tied_by_default);
/// hidden_size, num_hidden_layers, ... as Llama and its kin call them. Throws Error where there are more
/// layers than anybody has.
void read_sizes(const ConfigReader& json, LanguageConfig& config,
                const char* perceptron = "intermediate_size");
/// Keys of the number of layers, the hidden size and the number of heads.
struct SizeKeys {
  const char* layers;
  const char* hidden;
  const char* heads;
};
/// These three, with as many heads of keys, of which the hidden size is made up.
void read_sizes_as(const ConfigReader& json, const SizeKeys& keys, LanguageConfig& config);
/// `json` has either rope_parameters or rope_theta and rope_scaling; `part` names the entry of
/// rope_parameters where layers differ. `theta` and the share of each head that turns are those of a file
/// without them; of families without such a share whole heads turn, and a file that says otherwise is
/// refused.
Rotary read_rotary(const ConfigReader& json, const LanguageConfig& config, const std::string& part = "",
                   double theta = 10000, std::optional<double> usual_share = {});
/// Which layers have a window: those of layer_types, or `otherwise` where there is none.
std::vector<bool> read_windows(const ConfigReader& json, int64_t layers, std::vector<bool> otherwise);
/// Names of the tensors of Llama and its kin.
std::vector<StoredName> llama_weights();

}  // namespace detent
