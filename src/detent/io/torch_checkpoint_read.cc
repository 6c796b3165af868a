#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "detent/core/error.h"
#include "detent/io/pickle.h"
#include "detent/io/torch_archive.h"
#include "detent/io/torch_checkpoint.h"
#include "detent/io/torch_storage.h"

namespace detent {
namespace {

constexpr uint64_t kCopyAllowance = uint64_t{64} << 20;
constexpr uint64_t kCopyFactor = 4;
constexpr size_t kMaxRank = 64;
constexpr int kMaxWrappers = 4;

const PickleGlobal* callable_of(const PickleValue& value) {
  const auto* object = value.get_if<PickleObject>();
  return object == nullptr ? nullptr : object->callable->get_if<PickleGlobal>();
}

/// The entries of a dict or of an OrderedDict that was built empty and then filled, as torch.save does.
const PickleDict* dict_of(const PickleValue& value) {
  if (const auto* dict = value.get_if<PickleDict>()) return dict;
  const PickleGlobal* callable = callable_of(value);
  if (callable == nullptr || callable->module != "collections" || callable->name != "OrderedDict")
    return nullptr;
  const auto* object = value.get_if<PickleObject>();
  const auto* arguments = object == nullptr ? nullptr : object->arguments->get_if<PickleTuple>();
  return arguments != nullptr && arguments->items.empty() ? &object->dict : nullptr;
}

bool looks_like_tensor(const PickleValue& value) {
  const PickleGlobal* callable = callable_of(value);
  return callable != nullptr && callable->module == "torch._utils" && callable->name.starts_with("_rebuild_");
}

/// nullptr when the dict has no such key.
const PickleValue* find_entry(const PickleDict& dict, std::string_view wanted) {
  for (const auto& [key, value] : dict.entries) {
    const auto* name = key->get_if<std::string>();
    if (name != nullptr && *name == wanted) return value;
  }
  return nullptr;
}

/// "epoch, state_dict, ...", at most ten.
std::string keys_text(const PickleDict& dict) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(dict.entries.size(), 10); ++i) {
    const auto* key = dict.entries[i].first->get_if<std::string>();
    text += (i == 0 ? "" : ", ") + (key == nullptr ? pickle_kind(*dict.entries[i].first) : *key);
  }
  return text + (dict.entries.size() > 10 ? ", ..." : "");
}

class StateDictReader {
 public:
  explicit StateDictReader(TorchArchive& archive)
      : archive_(archive), copy_budget_(archive.byte_size() * kCopyFactor + kCopyAllowance) {}

  StateDict read() {
    StateDict state;
    std::set<std::string_view> names;
    for (const auto& [key, value] : find_state_dict().entries) {
      const auto* name = key->get_if<std::string>();
      if (name == nullptr)
        fail("{}: the state_dict has a key that is {}", archive_.name(), pickle_kind(*key));
      if (!names.insert(*name).second) fail("{}: the state_dict has \"{}\" twice", archive_.name(), *name);
      tensor_ = *name;
      state.emplace_back(*name, tensor(*value, 0));
    }
    return state;
  }

 private:
  template <class... Args>
  [[noreturn]] void fail_tensor(fmt::format_string<Args...> format, Args&&... args) const {
    fail("{}: \"{}\" {}", archive_.name(), tensor_, fmt::format(format, std::forward<Args>(args)...));
  }

  const PickleDict& find_state_dict() const {
    const PickleValue& root = archive_.root();
    const PickleDict* top = dict_of(root);
    if (top == nullptr) {
      fail("{}: holds {}, expected a state_dict; in Python, save model.state_dict() instead of the model",
           archive_.name(), pickle_kind(root));
    }
    for (const char* key : {"state_dict", "model"}) {
      const PickleValue* value = find_entry(*top, key);
      if (value == nullptr || looks_like_tensor(*value)) continue;
      if (const PickleDict* nested = dict_of(*value)) return *nested;
      fail("{}: \"{}\" is {}, expected a dict of tensors", archive_.name(), key, pickle_kind(*value));
    }
    const bool tensors =
        std::ranges::any_of(top->entries, [](const auto& entry) { return looks_like_tensor(*entry.second); });
    if (!tensors && !top->entries.empty()) {
      fail("{}: holds a dict without tensors, without \"state_dict\" and without \"model\"; its keys: {}",
           archive_.name(), keys_text(*top));
    }
    return *top;
  }

  Tensor tensor(const PickleValue& value, int wrappers) {
    const auto* object = value.get_if<PickleObject>();
    const PickleGlobal* callable = callable_of(value);
    if (object == nullptr || callable == nullptr || !looks_like_tensor(value)) {
      fail_tensor("is {}, expected a tensor", pickle_kind(value));
    }
    const std::string& name = callable->name;
    const auto* arguments = object->arguments->get_if<PickleTuple>();
    if (arguments == nullptr || arguments->items.empty())
      fail_tensor("is damaged: {} without arguments", name);
    if (name == "_rebuild_parameter" || name == "_rebuild_parameter_with_state") {
      if (wrappers == kMaxWrappers) fail_tensor("is damaged: a parameter of a parameter");
      return tensor(*arguments->items.front(), wrappers + 1);
    }
    if (name != "_rebuild_tensor_v2" && name != "_rebuild_tensor") {
      fail_tensor("is made by torch._utils.{}; only dense, unquantized tensors are supported", name);
    }
    if (arguments->items.size() < 4)
      fail_tensor("is damaged: {} of {} arguments", name, arguments->items.size());
    const Storage& source = storage(*arguments->items[0]);
    const auto* offset = arguments->items[1]->get_if<int64_t>();
    const Shape shape = integers(*arguments->items[2]);
    const Shape strides = integers(*arguments->items[3]);
    if (offset == nullptr || *offset < 0 || shape.size() != strides.size() || shape.size() > kMaxRank) {
      fail_tensor("is damaged: shape {}, strides {}", shape_text(shape), shape_text(strides));
    }
    return view(source, *offset, shape, strides);
  }

  struct Storage {
    DType dtype = DType::kFloat32;
    int64_t numel = 0;
    std::span<std::byte> bytes;
  };

  /// ("storage", class, key, device, elements)
  const Storage& storage(const PickleValue& value) {
    const auto* persistent = value.get_if<PicklePersistent>();
    if (persistent == nullptr) fail_tensor("is damaged: its storage is {}", pickle_kind(value));
    const auto [found, is_new] = storages_.try_emplace(persistent->id);
    if (!is_new) return found->second;
    const TorchStorageId id = parse_storage_id(*persistent->id, archive_.name());
    const auto storage_class =
        std::ranges::find(kTorchStorages, id.storage_class, [](const auto& entry) { return entry.first; });
    if (storage_class == kTorchStorages.end()) {
      fail_tensor("has a {}, supported are those of bool, integers, half, bfloat16, float and double",
                  id.storage_class);
    }
    Storage& storage = found->second;
    storage.dtype = storage_class->second;
    storage.numel = id.numel;
    storage.bytes = archive_.storage(id.key);
    const size_t available = storage.bytes.size() / dtype_size(storage.dtype);
    if (static_cast<uint64_t>(id.numel) > available) {
      fail_tensor("has a storage of {} elements, the file has {}", id.numel, available);
    }
    if (storage.dtype == DType::kBool &&
        std::ranges::any_of(storage.bytes, [](std::byte b) { return b > std::byte{1}; })) {
      fail_tensor("is boolean and has bytes other than 0 and 1");
    }
    return storage;
  }

  Shape integers(const PickleValue& value) const {
    const auto* tuple = value.get_if<PickleTuple>();
    const auto* list = value.get_if<PickleList>();
    if (tuple == nullptr && list == nullptr) fail_tensor("is damaged: its shape is {}", pickle_kind(value));
    Shape result;
    for (const PickleValue* item : tuple != nullptr ? tuple->items : list->items) {
      const auto* size = item->get_if<int64_t>();
      if (size == nullptr || *size < 0) fail_tensor("is damaged: its shape has {}", pickle_kind(*item));
      result.push_back(*size);
    }
    return result;
  }

  Tensor view(const Storage& source, int64_t offset, const Shape& shape, Shape strides) {
    const int64_t numel = count(shape);
    if (numel == 0) return Tensor(source.dtype, shape);
    int64_t last = offset;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) strides[i] = 0;  // never stepped along, and could be any number
      int64_t step = 0;
      if (__builtin_mul_overflow(shape[i] - 1, strides[i], &step) ||
          __builtin_add_overflow(last, step, &last)) {
        last = source.numel;
        break;
      }
    }
    if (last >= source.numel) {
      fail_tensor("with shape {}, strides {}, offset {} is outside its storage of {} elements",
                  shape_text(shape), shape_text(strides), offset, source.numel);
    }
    std::byte* data = source.bytes.data() + static_cast<size_t>(offset) * dtype_size(source.dtype);
    const bool aligned = reinterpret_cast<uintptr_t>(data) % dtype_size(source.dtype) == 0;
    if (aligned && is_contiguous(shape, strides))
      return Tensor::borrow(source.dtype, shape, data, archive_.owner());
    return gather(source.dtype, numel, data, shape, strides);
  }

  int64_t count(const Shape& shape) const {
    try {
      return element_count(shape);
    } catch (const Error& error) {
      fail_tensor("is damaged: {}", error.what());
    }
  }

  static bool is_contiguous(const Shape& shape, const Shape& strides) {
    int64_t expected = 1;
    for (size_t i = shape.size(); i-- > 0;) {
      if (shape[i] != 1 && strides[i] != expected) return false;
      expected *= shape[i];
    }
    return true;
  }

  /// A row-major copy. A stride of 0 may blow one element up to any size, hence the budget.
  Tensor gather(DType dtype, int64_t numel, const std::byte* data, const Shape& shape, const Shape& strides) {
    const size_t width = dtype_size(dtype);
    if (static_cast<uint64_t>(numel) > copy_budget_ / width) {
      fail_tensor("with shape {}, strides {} is not contiguous and too large to copy", shape_text(shape),
                  shape_text(strides));
    }
    copy_budget_ -= static_cast<uint64_t>(numel) * width;
    Tensor copy(dtype, shape);
    std::byte* target = copy.bytes().data();
    if (is_contiguous(shape, strides)) {
      std::memcpy(target, data, copy.byte_size());
      return copy;
    }
    Shape index(shape.size(), 0);
    int64_t position = 0;
    for (int64_t i = 0; i < numel; ++i, target += width) {
      std::memcpy(target, data + static_cast<size_t>(position) * width, width);
      for (size_t axis = shape.size(); axis-- > 0;) {
        position += strides[axis];
        if (++index[axis] < shape[axis]) break;
        position -= strides[axis] * shape[axis];
        index[axis] = 0;
      }
    }
    return copy;
  }

  TorchArchive& archive_;
  uint64_t copy_budget_;
  std::string tensor_;  // being read, for messages
  std::map<const PickleValue*, Storage> storages_;
};

}  // namespace

StateDict read_state_dict(const std::filesystem::path& path) {
  const std::unique_ptr<TorchArchive> archive = open_torch_archive(path);
  return StateDictReader(*archive).read();
}

}  // namespace detent
