#include "detent/language/sentence_modules.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/files/json.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModules = "modules.json";

struct SentenceModule {
  std::string type;  // the last part, as "Pooling"
  std::string path;
};

std::vector<SentenceModule> read_modules(const fs::path& file) {
  const Value json = read_json(file);
  const auto* list = json.get_if<List>();
  if (list == nullptr) fail("{}: got {}, expected a list", file.string(), json.kind_name());
  std::vector<SentenceModule> modules;
  for (const Value& entry : *list) {
    const auto* table = entry.get_if<Table>();
    if (table == nullptr) fail("{}: got {}, expected a list of tables", file.string(), entry.kind_name());
    const ConfigReader reader(*table, file.string());
    const std::string type = reader.text("type", "");
    modules.push_back({type.substr(type.rfind('.') + 1), reader.text("path", "")});
  }
  return modules;
}

struct PoolingMode {
  std::string_view key;   // of older files, true or false
  std::string_view name;  // of newer ones
  TokenPooling pooling;
};

constexpr std::array kModes = {PoolingMode{"pooling_mode_cls_token", "cls", TokenPooling::kFirst},
                               PoolingMode{"pooling_mode_mean_tokens", "mean", TokenPooling::kMean},
                               PoolingMode{"pooling_mode_lasttoken", "lasttoken", TokenPooling::kLastSeen}};

/// By keys of older files, of which one is true; the mean where none is.
TokenPooling pooling_of_keys(const ConfigReader& json) {
  std::vector<TokenPooling> found;
  for (const std::string& key : json.keys()) {
    if (!key.starts_with("pooling_mode_") || !json.boolean(key, false)) continue;
    const auto* const mode = std::ranges::find(kModes, key, &PoolingMode::key);
    if (mode == kModes.end())
      json.refuse(key, "expected pooling_mode_cls_token, pooling_mode_mean_tokens or pooling_mode_lasttoken");
    found.push_back(mode->pooling);
  }
  if (found.size() > 1)
    fail("{}: {} kinds of pooling side by side, expected one", json.where(), found.size());
  return found.empty() ? TokenPooling::kMean : found.front();
}

/// The config.json of a module.
fs::path config_of(const fs::path& folder, const std::string& path) {
  if (path.empty() || fs::path(path).filename() != path || path == "..")
    fail("{}: the path of a module is \"{}\", expected a folder beside it", (folder / kModules).string(),
         path);
  return folder / path / "config.json";
}

/// By the class of PyTorch; nullopt: none.
std::optional<Activation> read_activation(const ConfigReader& json) {
  constexpr const char* kKey = "activation_function";
  const std::string name = json.text(kKey, "torch.nn.modules.activation.Tanh");
  if (name.ends_with(".Identity")) return std::nullopt;
  if (name.ends_with(".Tanh")) return Activation::kTanh;
  if (name.ends_with(".ReLU")) return Activation::kRelu;
  if (name.ends_with(".GELU")) return Activation::kGelu;
  json.refuse(kKey, "expected Identity, Tanh, ReLU or GELU of torch.nn");
}

void read_dense(const fs::path& folder, const std::string& path, int64_t hidden, NetworkHead& head) {
  const fs::path file = config_of(folder, path);
  const Value json = read_json(file);
  const auto* table = json.get_if<Table>();
  if (table == nullptr) fail("{}: got {}, expected a table", file.string(), json.kind_name());
  const ConfigReader reader(*table, file.string());
  reader.expect("in_features", hidden);
  head.size = reader.integer("out_features");
  head.layer_bias = reader.boolean("bias", true);
  head.activation = read_activation(reader);
  head.layer = kSentenceLayer;
  head.folder = path;
}

TokenPooling read_pooling(const fs::path& folder, const std::string& path, int64_t hidden) {
  const fs::path file = config_of(folder, path);
  const Value json = read_json(file);
  const auto* table = json.get_if<Table>();
  if (table == nullptr) fail("{}: got {}, expected a table", file.string(), json.kind_name());
  const ConfigReader reader(*table, file.string());
  reader.expect("word_embedding_dimension", hidden);
  reader.expect("embedding_dimension", hidden);
  if (!reader.has("pooling_mode")) return pooling_of_keys(reader);
  const bool is_list = reader.value("pooling_mode")->get_if<List>() != nullptr;
  const std::vector<std::string> names =
      is_list ? reader.texts("pooling_mode") : std::vector<std::string>{reader.text("pooling_mode", "")};
  const auto* const mode =
      names.size() == 1 ? std::ranges::find(kModes, names.front(), &PoolingMode::name) : kModes.end();
  if (mode == kModes.end()) reader.refuse("pooling_mode", "expected cls, mean or lasttoken");
  return mode->pooling;
}

}  // namespace

void read_sentence_modules(const fs::path& folder, LanguageConfig& config) {
  const fs::path file = folder / kModules;
  if (!fs::exists(file)) return;
  const std::vector<SentenceModule> modules = read_modules(file);
  if (std::ranges::find(modules, "Pooling", &SentenceModule::type) == modules.end()) return;
  NetworkHead head{.kind = HeadKind::kEmbedding, .result = "sentence_embedding"};
  const std::vector<std::string> order = {"Transformer", "Pooling", "Dense", "Normalize"};
  auto next = order.begin();
  for (const SentenceModule& module : modules) {
    next = std::find(next, order.end(), module.type);
    if (next == order.end())
      fail("{}: the module {} is not supported there: expected {}, each once at most", file.string(),
           module.type, fmt::join(order, ", "));
    if (module.type == "Pooling") head.pooling = read_pooling(folder, module.path, config.hidden);
    if (module.type == "Dense") read_dense(folder, module.path, config.hidden, head);
    if (module.type == "Normalize") head.is_normalized = true;
    ++next;
  }
  config.head = std::move(head);
}

}  // namespace detent
