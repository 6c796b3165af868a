#include "detent/training/training_state.h"

#include "detent/core/error.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"

namespace detent {
namespace {

constexpr const char* kFormat = "detent training 1";
constexpr std::string_view kNetwork = "network.";
constexpr std::string_view kOptimizer = "optimizer.";
constexpr std::string_view kAverage = "average.";
constexpr std::string_view kWorkers = "workers";

std::string one_line(const Table& table) { return json_text(table, JsonLayout::kOneLine); }

Table table_of(const SafetensorsFile& file, const char* key, const std::string& where) {
  const auto text = file.metadata.find(key);
  if (text == file.metadata.end()) fail("{}: the metadata lack \"{}\"", where, key);
  const Value value = parse_json(text->second, where + ": " + key);
  const Table* table = value.get_if<Table>();
  if (table == nullptr) fail("{}: \"{}\" is {}, expected a table", where, key, value.kind_name());
  return *table;
}

}  // namespace

void write_training(const std::filesystem::path& path, const SavedTraining& saved) {
  StateDict tensors;
  for (const auto& [name, tensor] : saved.state.network)
    tensors.emplace_back(std::string(kNetwork) + name, tensor);
  for (const auto& [name, tensor] : saved.state.optimizer)
    tensors.emplace_back(std::string(kOptimizer) + name, tensor);
  for (const auto& [name, tensor] : saved.state.averages)
    tensors.emplace_back(std::string(kAverage) + name, tensor);
  tensors.emplace_back(kWorkers, saved.state.workers);
  write_safetensors(path, tensors,
                    {{"format", kFormat},
                     {"progress", one_line(write_fields(saved.state.progress))},
                     {"settings", one_line(saved.settings)},
                     {"logs", one_line(saved.logs)}});
}

SavedTraining read_training(const std::filesystem::path& path) {
  const std::string where = path.string();
  SafetensorsFile file = read_safetensors(path);
  const auto format = file.metadata.find("format");
  if (format == file.metadata.end() || format->second != kFormat) {
    fail("{}: not the state of a training: its format is \"{}\", expected \"{}\"", where,
         format == file.metadata.end() ? "" : format->second, kFormat);
  }
  SavedTraining saved;
  read_fields(saved.state.progress, table_of(file, "progress", where), where + ": progress");
  saved.settings = table_of(file, "settings", where);
  saved.logs = table_of(file, "logs", where);
  bool has_workers = false;
  for (auto& [name, tensor] : file.tensors) {
    if (name.starts_with(kNetwork)) {
      saved.state.network.emplace_back(name.substr(kNetwork.size()), std::move(tensor));
    } else if (name.starts_with(kOptimizer)) {
      saved.state.optimizer.emplace_back(name.substr(kOptimizer.size()), std::move(tensor));
    } else if (name.starts_with(kAverage)) {
      saved.state.averages.emplace_back(name.substr(kAverage.size()), std::move(tensor));
    } else if (name == kWorkers && tensor.dtype() == DType::kUInt8 && tensor.rank() == 2) {
      saved.state.workers = std::move(tensor);
      has_workers = true;
    } else {
      fail("{}: \"{}\" {} {} is no tensor of a training", where, name, dtype_name(tensor.dtype()),
           shape_text(tensor.shape()));
    }
  }
  if (!has_workers) fail("{}: it lacks the tensor \"{}\"", where, kWorkers);
  return saved;
}

}  // namespace detent
