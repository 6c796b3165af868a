#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

#include "detent/checkpoints/torch_archive.h"
#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/checkpoints/torch_checkpoint_tree.h"
#include "detent/core/error.h"
#include "detent/core/log.h"

namespace detent {
namespace {

/// Bytes that copies may take together in files up to this size; in larger ones as much as the file.
constexpr uint64_t kLeastCopies = uint64_t{64} << 10;
/// Key of what nn.Module.get_extra_state returned; no parameter, and of any type.
constexpr std::string_view kExtraState = "_extra_state";

class StateDictReader {
 public:
  explicit StateDictReader(TorchArchive& archive)
      : archive_(archive), copy_budget_(std::max(archive.byte_size(), kLeastCopies)) {}

  StateDict read() {
    StateDict state;
    std::set<std::string_view> names;
    const PickleDict& dict = find_state_dict(archive_);
    warn_of_other_weights(archive_, dict);
    constexpr uint64_t kBytesAnEntry = 384;  // tensor, shape, entries of the maps of names and storages
    if (dict.entries.size() > TorchArchive::memory_for_values(archive_.byte_size()) / kBytesAnEntry) {
      fail("{}: a state_dict of {} entries, too many for a file of {} bytes", archive_.name(),
           dict.entries.size(), archive_.byte_size());
    }
    state.reserve(dict.entries.size());
    for (const auto& [key, value] : dict.entries) {
      const auto* name = key->get_if<std::string_view>();
      if (name == nullptr)
        fail("{}: the state_dict has a key that is {}", archive_.name(), pickle_kind(*key));
      if (!names.insert(*name).second) fail("{}: the state_dict has \"{}\" twice", archive_.name(), *name);
      where_ = fmt::format("{}: \"{}\"", archive_.name(), *name);
      if (name->ends_with(kExtraState) && !is_pickled_tensor(*value)) {
        log_warning("{} is {}, no tensor: left out", where_, pickle_kind(*value));
        continue;
      }
      state.emplace_back(*name, tensor(*value));
    }
    return state;
  }

 private:
  Tensor tensor(const PickleValue& value) {
    const PickledTensor pickled = parse_tensor(value, archive_.name(), where_);
    if (!pickled.supported) {
      fail("{} has the dtype {}, supported are bool, integers, float16, bfloat16, float32 and float64",
           where_, pickled.dtype);
    }
    return view(storage(pickled), pickled);
  }

  /// Tensors that share a storage name it each by themselves: key, dtype, elements, part.
  using StorageKey = std::tuple<std::string_view, DType, int64_t, int64_t, int64_t>;
  struct Storage {
    DType dtype = DType::kFloat32;
    std::span<std::byte> bytes;
    std::shared_ptr<const void> owner;

    int64_t numel() const { return static_cast<int64_t>(bytes.size() / dtype_size(dtype)); }
    bool is_aligned() const { return reinterpret_cast<uintptr_t>(bytes.data()) % dtype_size(dtype) == 0; }
  };

  Storage& storage(const PickledTensor& tensor) {
    const TorchStorageId::Part part_id = tensor.id.part.value_or(TorchStorageId::Part{-1, -1});
    const auto [found, is_new] = storages_.try_emplace(
        {tensor.id.key, *tensor.supported, tensor.id.numel, part_id.offset, part_id.numel});
    Storage& storage = found->second;
    if (!is_new) return storage;
    const uint64_t size = archive_.storage_size(tensor.id.key);
    const uint64_t declared = static_cast<uint64_t>(tensor.id.numel);
    if (declared > size / tensor.storage_class->element_size) {
      fail("{} has a storage of {} elements, the file has {}", where_, declared,
           size / tensor.storage_class->element_size);
    }
    storage.dtype = *tensor.supported;
    storage.bytes = part(tensor, archive_.storage(tensor.id.key, tensor.element_size)
                                     .first(declared * tensor.storage_class->element_size));
    storage.owner = archive_.owner();
    if (storage.dtype == DType::kBool &&
        std::ranges::any_of(storage.bytes, [](std::byte b) { return b > std::byte{1}; })) {
      fail("{} is boolean and has bytes other than 0 and 1", where_);
    }
    return storage;
  }

  std::span<std::byte> part(const PickledTensor& tensor, std::span<std::byte> whole) const {
    if (!tensor.id.part) return whole;
    const uint64_t elements = whole.size() / tensor.element_size;
    const auto offset = static_cast<uint64_t>(tensor.id.part->offset);
    const auto numel = static_cast<uint64_t>(tensor.id.part->numel);
    if (offset > elements || numel > elements - offset) {
      fail("{} has elements {} to {} of a storage of {}", where_, offset, offset + numel, elements);
    }
    return whole.subspan(offset * tensor.element_size, numel * tensor.element_size);
  }

  Tensor view(Storage& source, const PickledTensor& tensor) {
    const Shape& shape = tensor.shape;
    const int64_t numel = count(shape);
    if (numel == 0) return Tensor(source.dtype, shape);
    Shape strides = tensor.strides;
    int64_t last = tensor.offset;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (shape[i] == 1) strides[i] = 0;  // never stepped along, and could be any number
      int64_t step = 0;
      if (__builtin_mul_overflow(shape[i] - 1, strides[i], &step) ||
          __builtin_add_overflow(last, step, &last)) {
        last = source.numel();
        break;
      }
    }
    if (last >= source.numel()) {
      fail("{} with shape {}, strides {}, offset {} is outside its storage of {} elements", where_,
           shape_text(shape), shape_text(tensor.strides), tensor.offset, source.numel());
    }
    const size_t offset = static_cast<size_t>(tensor.offset) * dtype_size(source.dtype);
    if (!is_contiguous(shape, strides))
      return gather(source.dtype, numel, source.bytes.data() + offset, shape, strides);
    align(source);
    return Tensor::borrow(source.dtype, shape, source.bytes.data() + offset, source.owner);
  }

  /// The legacy layout puts storages anywhere: copies the storage, once for all its tensors.
  void align(Storage& storage) {
    if (storage.is_aligned()) return;
    spend(storage.bytes.size());
    Tensor copy(storage.dtype, {storage.numel()});
    std::memcpy(copy.bytes().data(), storage.bytes.data(), copy.byte_size());
    storage.bytes = copy.bytes();
    storage.owner = copy.owner();
  }

  /// A stride of 0 may blow one element up to any size.
  void spend(uint64_t bytes) {
    if (bytes > copy_budget_) {
      fail(
          "{} is a view that is not contiguous, and such views are too large to copy; in Python, save "
          "tensor.contiguous()",
          where_);
    }
    copy_budget_ -= bytes;
  }

  int64_t count(const Shape& shape) const {
    try {
      return element_count(shape);
    } catch (const Error& error) {
      fail("{} is damaged: {}", where_, error.what());
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

  /// A row-major copy.
  Tensor gather(DType dtype, int64_t numel, const std::byte* data, const Shape& shape, const Shape& strides) {
    const size_t width = dtype_size(dtype);
    // Shapes of up to 2^63 elements are possible here, so compare before multiplying.
    spend(static_cast<uint64_t>(numel) > copy_budget_ / width ? ~uint64_t{0}
                                                              : static_cast<uint64_t>(numel) * width);
    Tensor copy(dtype, shape);
    std::byte* target = copy.bytes().data();
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
  std::string where_;  // file and key of the tensor being read, for messages
  std::map<StorageKey, Storage> storages_;
};

}  // namespace

StateDict read_state_dict(const std::filesystem::path& path) {
  const std::unique_ptr<TorchArchive> archive = open_torch_archive(path);
  return StateDictReader(*archive).read();
}

}  // namespace detent
