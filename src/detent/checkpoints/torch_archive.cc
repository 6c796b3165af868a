#include "detent/checkpoints/torch_archive.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "detent/checkpoints/torch_storage.h"
#include "detent/core/error.h"
#include "detent/files/byte_reader.h"
#include "detent/files/file.h"
#include "detent/files/zip.h"

namespace detent {
namespace {

/// In the private mapping of the file: no other copy is made.
void swap_elements(std::span<std::byte> bytes, size_t element_size) {
  if (element_size == 1) return;
  for (size_t i = 0; i + element_size <= bytes.size(); i += element_size) {
    std::ranges::reverse(bytes.subspan(i, element_size));
  }
}

class ZipArchive : public TorchArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path)
      : zip_(path), folder_(find_folder()), big_endian_(is_big_endian()) {
    pickle_ =
        unpickle(zip_.read(*zip_.find(folder_ + "data.pkl")), zip_.name(), memory_for_values(byte_size()));
  }

  std::string_view layout() const override { return "zip"; }
  const std::string& name() const override { return zip_.name(); }
  uint64_t byte_size() const override { return zip_.file()->bytes().size(); }
  const PickleValue& root() const override { return *pickle_.root; }
  uint64_t storage_size(std::string_view key) const override { return entry(key).size; }
  std::span<std::byte> storage(std::string_view key, size_t element_size) override {
    const auto [found, is_new] = storages_.try_emplace(key);
    Storage& storage = found->second;
    if (is_new) {
      storage.bytes = zip_.read(entry(key));  // computes its CRC: once is enough
      if (big_endian_) swap_elements(storage.bytes, element_size);
      storage.element_size = element_size;
    }
    if (big_endian_ && storage.element_size != element_size) {
      fail("{}: storage \"{}\" is big endian and holds elements of {} and of {} bytes", name(), key,
           storage.element_size, element_size);
    }
    return storage.bytes;
  }
  std::shared_ptr<const void> owner() const override { return zip_.file(); }

 private:
  struct Storage {
    std::span<std::byte> bytes;
    size_t element_size = 1;
  };

  const ZipReader::Entry& entry(std::string_view key) const {
    const ZipReader::Entry* found = zip_.find(fmt::format("{}data/{}", folder_, key));
    if (found == nullptr) fail("{}: storage \"{}\" is missing", name(), key);
    return *found;
  }

  /// The archive's one folder, with the slash.
  std::string find_folder() const {
    constexpr std::string_view kPickle = "data.pkl";
    for (const ZipReader::Entry& entry : zip_.entries()) {
      const size_t slash = entry.name.find('/');
      if (slash == std::string::npos || entry.name.substr(slash + 1) != kPickle) continue;
      const std::string folder(entry.name.substr(0, slash + 1));
      if (zip_.find(folder + "constants.pkl") != nullptr) {
        fail(
            "{}: a TorchScript archive; in Python, save model.state_dict() instead, or write the network by "
            "torch.onnx.export(model, example, \"model.onnx\", dynamo=False)",
            name());
      }
      return folder;
    }
    fail("{}: a zip archive without data.pkl, so not a file of torch.save{}", name(), writer_of_others());
  }

  /// Which other program writes such archives.
  const char* writer_of_others() const {
    const auto has = [&](std::string_view end) {
      return std::ranges::any_of(zip_.entries(),
                                 [&](const auto& entry) { return entry.name.ends_with(end); });
    };
    if (has("models/model.json")) {
      return ": it is one of torch.export; in Python, torch.onnx.export(torch.export.load(file), "
             "f=\"model.onnx\") writes the "
             "network "
             "as ONNX";
    }
    if (has("model.weights.h5"))
      return ": it is one of Keras; in Python, model.export(\"model.onnx\", format=\"onnx\") writes the "
             "network as ONNX";
    return "";
  }

  bool is_big_endian() const {
    const ZipReader::Entry* entry = zip_.find(folder_ + "byteorder");
    if (entry == nullptr) return false;  // files before PyTorch 2.0
    const std::span<const std::byte> bytes = zip_.read(*entry);
    const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (order != "little" && order != "big")
      fail("{}: byte order \"{}\", expected \"little\" or \"big\"", name(), order.substr(0, 16));
    return order == "big";
  }

  ZipReader zip_;
  std::string folder_;
  bool big_endian_;
  Pickle pickle_;
  std::unordered_map<std::string_view, Storage> storages_;
};

/// Pickles of a magic number, a protocol version, facts about the writer, the object and the list of storage
/// keys; then, for each key, an int64 with the number of elements and the elements. Both are little endian
/// whatever machine wrote them (THPStorage_writeFileRaw in torch/csrc/serialization.cpp).
class LegacyArchive : public TorchArchive {
 public:
  explicit LegacyArchive(const std::filesystem::path& path)
      : name_(path.string()), file_(map_file(path)), memory_(memory_for_values(byte_size())) {
    ByteReader reader(file_->bytes(), name_);
    check_magic(next(reader));
    const Pickle version = next(reader);
    const auto* number = version.root->get_if<int64_t>();
    if (number == nullptr || *number != kVersion)
      fail("{}: an unknown version of torch.save's old layout", name_);
    if (next(reader).root->get_if<PickleDict>() == nullptr) fail("{}: not a file of torch.save", name_);
    pickle_ = next(reader);
    keys_ = next(reader);
    const auto* list = keys_.root->get_if<PickleList>();
    if (list == nullptr) fail("{}: the list of storages is {}", name_, pickle_kind(*keys_.root));
    read_storages(reader, *list);
  }

  std::string_view layout() const override { return "legacy"; }
  const std::string& name() const override { return name_; }
  uint64_t byte_size() const override { return file_->bytes().size(); }
  const PickleValue& root() const override { return *pickle_.root; }
  uint64_t storage_size(std::string_view key) const override { return bytes(key).size(); }
  std::span<std::byte> storage(std::string_view key, size_t /*element_size*/) override { return bytes(key); }
  std::shared_ptr<const void> owner() const override { return file_; }

  static bool is_magic(std::span<const std::byte> bytes) {
    return bytes.size() >= kMagic.size() &&
           std::memcmp(bytes.data() + 2, kMagic.data() + 2, kMagic.size() - 2) == 0;
  }

 private:
  static constexpr int64_t kVersion = 1001;
  /// PROTO 2, LONG1 of 10 bytes: 0x1950a86a20f9469cfc6c.
  static constexpr std::string_view kMagic{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14};

  Pickle next(ByteReader& reader) {
    Pickle pickle = unpickle(file_->bytes().subspan(reader.position()), name_, memory_);
    memory_ -= pickle.memory;
    reader.take(pickle.byte_size);
    return pickle;
  }

  void check_magic(const Pickle& pickle) const {
    if (pickle.byte_size != kMagic.size() + 1) fail("{}: not a file of torch.save", name_);
  }

  std::span<std::byte> bytes(std::string_view key) const {
    const auto found = storages_.find(key);
    if (found == storages_.end()) fail("{}: storage \"{}\" is missing", name_, key);
    return found->second;
  }

  /// The size of an element stands only in the pickle that refers to the storage.
  std::unordered_map<std::string_view, size_t> element_sizes() const {
    std::unordered_map<std::string_view, size_t> sizes;
    for (const PickleValue& value : pickle_.values) {
      const auto* persistent = value.get_if<PicklePersistent>();
      if (persistent == nullptr || is_module_source(*persistent->id)) continue;
      const TorchStorageId id = parse_storage_id(*persistent->id, name_);
      const TorchStorageClass* storage_class = find_torch_storage(id.storage_class);
      if (storage_class == nullptr) fail("{}: storage class {} is not known", name_, id.storage_class);
      sizes[id.key] = storage_class->element_size;
    }
    return sizes;
  }

  /// ("module", class, file, source): what a module pickled whole has beside its storages.
  static bool is_module_source(const PickleValue& id) {
    const auto* tuple = id.get_if<PickleTuple>();
    if (tuple == nullptr || tuple->items.empty()) return false;
    const auto* kind = tuple->items.front()->get_if<std::string_view>();
    return kind != nullptr && *kind == "module";
  }

  void read_storages(ByteReader& reader, const PickleList& keys) {
    const std::unordered_map<std::string_view, size_t> sizes = element_sizes();
    for (const PickleValue* key : keys.items) {
      const auto* text = key->get_if<std::string_view>();
      const auto size = text == nullptr ? sizes.end() : sizes.find(*text);
      if (size == sizes.end()) fail("{}: a storage that nothing refers to", name_);
      const auto count = reader.number<int64_t>();
      if (count < 0 || static_cast<uint64_t>(count) > reader.remaining() / size->second) {
        fail("{}: storage \"{}\" of {} elements ends after the file", name_, *text, count);
      }
      const size_t bytes = static_cast<size_t>(count) * size->second;
      if (!storages_.emplace(*text, file_->bytes().subspan(reader.position(), bytes)).second) {
        fail("{}: storage \"{}\" is stored twice", name_, *text);
      }
      reader.take(bytes);
    }
  }

  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  uint64_t memory_;  // left for the pickles
  Pickle pickle_;
  Pickle keys_;
  std::unordered_map<std::string_view, std::span<std::byte>> storages_;  // by texts of keys_
};

bool is_tar(std::span<const std::byte> bytes) {
  constexpr std::string_view kTarMagic = "ustar";
  constexpr size_t kOffset = 257;
  return bytes.size() >= kOffset + kTarMagic.size() &&
         std::memcmp(bytes.data() + kOffset, kTarMagic.data(), kTarMagic.size()) == 0;
}

}  // namespace

std::unique_ptr<TorchArchive> open_torch_archive(const std::filesystem::path& path) {
  const std::shared_ptr<const MappedFile> file = map_file(path);
  if (LegacyArchive::is_magic(file->bytes())) return std::make_unique<LegacyArchive>(path);
  if (is_tar(file->bytes())) {
    fail(
        "{}: a tar archive, as PyTorch before 0.1.10 wrote; in Python, load and save it with a later version",
        path.string());
  }
  return std::make_unique<ZipArchive>(path);
}

namespace {

/// None, or (key of the part, offset, elements).
std::optional<TorchStorageId::Part> parse_part(const PickleValue& value, std::string_view key,
                                               const std::string& file) {
  if (value.get_if<std::monostate>() != nullptr) return std::nullopt;
  const auto* tuple = value.get_if<PickleTuple>();
  const bool is_part = tuple != nullptr && tuple->items.size() == 3;
  const auto* offset = is_part ? tuple->items[1]->get_if<int64_t>() : nullptr;
  const auto* numel = is_part ? tuple->items[2]->get_if<int64_t>() : nullptr;
  if (offset == nullptr || numel == nullptr || *offset < 0 || *numel < 0) {
    fail("{}: storage \"{}\" has a part that is {}", file, key, pickle_kind(value));
  }
  return TorchStorageId::Part{*offset, *numel};
}

}  // namespace

TorchStorageId parse_storage_id(const PickleValue& id, const std::string& file) {
  const auto* tuple = id.get_if<PickleTuple>();
  if (tuple == nullptr || tuple->items.size() < 5) fail("{}: an external value that is no storage", file);
  const auto* kind = tuple->items[0]->get_if<std::string_view>();
  const auto* storage_class = tuple->items[1]->get_if<PickleGlobal>();
  const auto* key = tuple->items[2]->get_if<std::string_view>();
  const auto* numel = tuple->items[4]->get_if<int64_t>();
  const bool complete = kind != nullptr && storage_class != nullptr && key != nullptr && numel != nullptr;
  if (!complete || *kind != "storage" || !storage_class->module.starts_with("torch") || *numel < 0) {
    fail("{}: an external value that is no storage", file);
  }
  TorchStorageId result{storage_class->name, *key, *numel};
  if (tuple->items.size() > 5) result.part = parse_part(*tuple->items[5], *key, file);
  return result;
}

}  // namespace detent
