#include "detent/language/quantized/quantization.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/files/json.h"
#include "detent/language/families/config_reader.h"
#include "detent/language/families/families.h"

namespace detent {
namespace {

constexpr const char* kQuantization = "quantization_config";

std::vector<std::string> type_names(std::initializer_list<DType> types) {
  std::vector<std::string> names;
  for (const DType type : types) names.emplace_back(dtype_name(type));
  return names;
}

/// The table of one of these files, where it is there.
std::optional<Table> table_of_file(const std::filesystem::path& path, const char* method) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Value json = read_json(path);
  const auto* table = json.get_if<Table>();
  if (table == nullptr) fail("{}: got {}, expected a table", path.string(), json.kind_name());
  Table result = *table;
  if (!result.contains("quant_method")) result["quant_method"] = method;
  return result;
}

}  // namespace

const Tensor& FolderParts::get(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail("{}: there is no tensor {}", where_, name);
  return found->second;
}

Tensor FolderParts::take(const std::string& name) {
  Tensor tensor = get(name);
  tensors_.erase(name);
  return tensor;
}

Tensor FolderParts::take(const std::string& name, std::initializer_list<DType> types) {
  const DType type = get(name).dtype();
  if (std::ranges::find(types, type) == types.end())
    fail("{}: {} is {}, expected {}", where_, name, dtype_name(type), fmt::join(type_names(types), " or "));
  return take(name);
}

std::optional<Tensor> FolderParts::take_if(const std::string& name) {
  return has(name) ? std::optional(take(name)) : std::nullopt;
}

std::vector<std::string> FolderParts::stems(std::string_view end) const {
  std::vector<std::string> stems;
  for (const auto& [name, tensor] : tensors_) {
    if (name.ends_with(end)) stems.push_back(name.substr(0, name.size() - end.size()));
  }
  return stems;
}

void FolderParts::drop(std::initializer_list<std::string_view> ends) {
  std::erase_if(tensors_, [&](const auto& tensor) {
    return std::ranges::any_of(ends, [&](std::string_view end) { return tensor.first.ends_with(end); });
  });
}

void FolderParts::expect_none_left(std::initializer_list<DType> types, std::string_view scale) const {
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.rank() == 2 && std::ranges::find(types, tensor.dtype()) != types.end())
      fail("{}: {} is {}, and nothing scales it: there is no tensor of {}", where_, name,
           dtype_name(tensor.dtype()), scale);
  }
}

void FolderParts::expect_shape(const std::string& name, const Shape& given, const Shape& expected) const {
  if (given != expected)
    fail("{}: {} has shape {}, expected {}", where_, name, shape_text(given), shape_text(expected));
}

bool is_quantization_of(const LanguageFamily& family, const ConfigReader& json) {
  return !family.quantization.empty() && json.text("quant_method", "") == family.quantization;
}

std::span<const QuantizationMethod> all_quantization_methods() {
  static const std::vector<QuantizationMethod> kMethods = {
      auto_round_method(), awq_method(), bitsandbytes_method(), compressed_tensors_method(),
      fbgemm_fp8_method(), fp8_method(), gptq_method(),         modelopt_method()};
  return kMethods;
}

const QuantizationMethod& find_quantization_method(const ConfigReader& json) {
  const std::string name = json.text("quant_method", "");
  std::vector<std::string> names;
  for (const QuantizationMethod& method : all_quantization_methods()) {
    if (method.name == name) return method;
    names.push_back(method.name);
  }
  if (name.empty()) fail("{}: there is no key \"quant_method\"", json.where());
  fail(
      "{}: networks of the quant_method \"{}\" are not supported; read are {}, and mxfp4 of GPT-OSS. "
      "Convert the folder with the library that wrote it: load it, dequantize it and save it in bfloat16",
      json.where(), name, fmt::join(names, ", "));
}

std::optional<Table> quantization_of_folder(const std::filesystem::path& folder, const Value& config) {
  const auto* json = config.get_if<Table>();
  if (json == nullptr) return std::nullopt;
  for (const char* key : {kQuantization, "compression_config"}) {
    const Value* found = json->find(key);
    if (found == nullptr || found->is_na()) continue;
    const auto* table = found->get_if<Table>();
    if (table == nullptr)
      fail("{}: \"{}\" is {}, expected a table", (folder / "config.json").string(), key, found->kind_name());
    return *table;
  }
  if (auto table = table_of_file(folder / "quantize_config.json", "gptq")) return table;
  const std::filesystem::path modelopt = folder / "hf_quant_config.json";
  if (const auto file = table_of_file(modelopt, "modelopt")) {
    const Value* inner = file->find("quantization");
    const Table* table = inner == nullptr ? nullptr : inner->get_if<Table>();
    if (table == nullptr) fail("{}: there is no table \"quantization\"", modelopt.string());
    Table result = *table;
    result["quant_method"] = "modelopt";
    return result;
  }
  return table_of_file(folder / "quant_config.json", "awq");
}

}  // namespace detent
