#include <fmt/format.h>

#include "detent/checkpoints/torch_archive.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/checkpoints/torch_checkpoint_tree.h"
#include "detent/core/error.h"

namespace detent {
namespace {

TensorSummary summarize(const std::string& name, const PickleValue& value, const std::string& file) {
  TensorSummary summary{.name = name, .dtype = "", .shape = {}};
  if (!is_pickled_tensor(value)) {
    summary.dtype = pickle_kind(value);
    return summary;
  }
  try {
    PickledTensor tensor = parse_tensor(value, file, fmt::format("{}: \"{}\"", file, name));
    const auto count = static_cast<uint64_t>(element_count(tensor.shape));
    if (__builtin_mul_overflow(count, tensor.element_size, &summary.byte_size)) fail("too many bytes");
    summary.dtype = tensor.dtype;
    summary.shape = std::move(tensor.shape);
  } catch (const Error&) {
    summary.dtype = "sparse, quantized or damaged";
  }
  return summary;
}

/// Numbers and texts of the dictionary around the state_dict.
void add_fact(Table& facts, const PickleDict& dict, const char* key) {
  const PickleValue* value = find_entry(dict, key);
  if (value == nullptr) return;
  if (const auto* number = value->get_if<int64_t>()) facts[key] = *number;
  if (const auto* text = value->get_if<std::string_view>()) facts[key] = std::string(*text);
}

}  // namespace

CheckpointSummary summarize_checkpoint(const std::filesystem::path& path) {
  const std::unique_ptr<TorchArchive> archive = open_torch_archive(path);
  const PickleDict& state = find_state_dict(*archive);
  const PickleDict* top = pickled_dict(archive->root());
  CheckpointSummary summary;
  summary.facts["layout"] = std::string(archive->layout());
  if (top != &state) {
    summary.lightning = find_entry(*top, "pytorch-lightning_version") != nullptr;
    summary.facts["keys"] = pickled_keys(*top);
    for (const char* key : {"epoch", "global_step", "pytorch-lightning_version"})
      add_fact(summary.facts, *top, key);
  }
  for (const auto& [key, value] : state.entries) {
    const auto* name = key->get_if<std::string_view>();
    summary.tensors.push_back(
        summarize(name == nullptr ? pickle_kind(*key) : std::string(*name), *value, archive->name()));
  }
  return summary;
}

}  // namespace detent
