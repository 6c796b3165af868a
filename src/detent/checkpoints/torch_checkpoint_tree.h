#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "detent/checkpoints/pickle.h"
#include "detent/checkpoints/torch_archive.h"
#include "detent/checkpoints/torch_storage.h"
#include "detent/core/tensor.h"

namespace detent {

/// The entries of a dict or of an OrderedDict that was built empty and then filled, as torch.save does;
/// nullptr for anything else.
const PickleDict* pickled_dict(const PickleValue& value);

/// nullptr when the dict has no such key.
const PickleValue* find_entry(const PickleDict& dict, std::string_view key);

/// "epoch, state_dict, ...", at most ten.
std::string pickled_keys(const PickleDict& dict);

/// Whether PyTorch would rebuild a tensor from it, of whatever kind.
bool is_pickled_tensor(const PickleValue& value);

/// The state_dict of a checkpoint: the dict under "state_dict", "model_state_dict" or "model" where there is
/// one, however deep; else the dict at the top if it has tensors; else the one dict with tensors below it,
/// those of optimizers aside. Throws Error naming the file on a pickled module, when there is no such dict,
/// and when there are several.
const PickleDict& find_state_dict(const TorchArchive& archive);

/// Beside those that find_state_dict takes, such as a moving average: who evaluated that one would get other
/// results without a word.
void warn_of_other_weights(const TorchArchive& archive, const PickleDict& taken);

/// A dense tensor, as the pickle describes it. `shape` and `strides` (elements) have the same length and no
/// negative sizes; nothing is yet known to lie inside the storage.
struct PickledTensor {
  TorchStorageId id;
  const TorchStorageClass* storage_class = nullptr;
  std::string_view dtype;          // torch.<dtype>
  std::optional<DType> supported;  // nullopt: Detent has no such dtype
  size_t element_size = 0;
  int64_t offset = 0;  // elements from the beginning of the storage or of id.part
  Shape shape;
  Shape strides;
};

/// `where` begins the messages: file and key. Throws Error on what is no tensor, is not dense, is quantized,
/// or is damaged.
PickledTensor parse_tensor(const PickleValue& value, const std::string& file, const std::string& where);

}  // namespace detent
