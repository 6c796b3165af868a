#include "detent/io/torch_archive.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "detent/core/error.h"
#include "detent/io/byte_reader.h"
#include "detent/io/file.h"
#include "detent/io/torch_storage.h"
#include "detent/io/zip.h"

namespace detent {
namespace {

class ZipArchive : public TorchArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& path) : zip_(path), folder_(find_folder()) {
    check_byte_order();
    pickle_ = unpickle(zip_.read(*zip_.find(folder_ + "data.pkl")), zip_.name());
  }

  const std::string& name() const override { return zip_.name(); }
  uint64_t byte_size() const override { return zip_.file()->bytes().size(); }
  const PickleValue& root() const override { return *pickle_.root; }
  std::span<std::byte> storage(const std::string& key) override {
    const ZipReader::Entry* entry = zip_.find(folder_ + "data/" + key);
    if (entry == nullptr) fail("{}: storage \"{}\" is missing", name(), key);
    const auto [found, is_new] = storages_.try_emplace(key);
    if (is_new) found->second = zip_.read(*entry);  // computes its CRC: once is enough
    return found->second;
  }
  std::shared_ptr<const void> owner() const override { return zip_.file(); }

 private:
  /// The archive's one folder, with the slash.
  std::string find_folder() const {
    constexpr std::string_view kPickle = "data.pkl";
    for (const ZipReader::Entry& entry : zip_.entries()) {
      const size_t slash = entry.name.find('/');
      if (slash == std::string::npos || entry.name.substr(slash + 1) != kPickle) continue;
      const std::string folder = entry.name.substr(0, slash + 1);
      if (zip_.find(folder + "constants.pkl") != nullptr) {
        fail("{}: a TorchScript archive; in Python, save model.state_dict() instead", name());
      }
      return folder;
    }
    fail("{}: a zip archive without data.pkl, so not a file of torch.save", name());
  }

  void check_byte_order() const {
    const ZipReader::Entry* entry = zip_.find(folder_ + "byteorder");
    if (entry == nullptr) return;  // files before PyTorch 2.0
    const std::span<const std::byte> bytes = zip_.read(*entry);
    const std::string_view order(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (order != "little")
      fail("{}: byte order \"{}\", only \"little\" is supported", name(), order.substr(0, 16));
  }

  ZipReader zip_;
  std::string folder_;
  Pickle pickle_;
  std::unordered_map<std::string, std::span<std::byte>> storages_;
};

/// Pickles of a magic number, a protocol version, facts about the writer, the object and the list of storage
/// keys; then, for each key, an int64 with the number of elements and the elements.
class LegacyArchive : public TorchArchive {
 public:
  explicit LegacyArchive(const std::filesystem::path& path) : name_(path.string()), file_(map_file(path)) {
    ByteReader reader(file_->bytes(), name_);
    check_magic(next(reader));
    const Pickle version = next(reader);
    const auto* number = version.root->get_if<int64_t>();
    if (number == nullptr || *number != kVersion)
      fail("{}: an unknown version of torch.save's old layout", name_);
    check_system(next(reader));
    pickle_ = next(reader);
    const Pickle keys = next(reader);
    const auto* list = keys.root->get_if<PickleList>();
    if (list == nullptr) fail("{}: the list of storages is {}", name_, pickle_kind(*keys.root));
    read_storages(reader, *list);
  }

  const std::string& name() const override { return name_; }
  uint64_t byte_size() const override { return file_->bytes().size(); }
  const PickleValue& root() const override { return *pickle_.root; }
  std::span<std::byte> storage(const std::string& key) override {
    const auto found = storages_.find(key);
    if (found == storages_.end()) fail("{}: storage \"{}\" is missing", name_, key);
    return found->second;
  }
  std::shared_ptr<const void> owner() const override { return file_; }

  static bool is_magic(std::span<const std::byte> bytes) {
    return bytes.size() >= kMagic.size() &&
           std::memcmp(bytes.data() + 2, kMagic.data() + 2, kMagic.size() - 2) == 0;
  }

 private:
  static constexpr int64_t kVersion = 1001;
  /// PROTO 2, LONG1 of 10 bytes: 0x1950a86a20f9469cfc6c.
  static constexpr std::string_view kMagic{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14};

  Pickle next(ByteReader& reader) const {
    Pickle pickle = unpickle(file_->bytes().subspan(reader.position()), name_);
    reader.take(pickle.byte_size);
    return pickle;
  }

  void check_magic(const Pickle& pickle) const {
    if (pickle.byte_size != kMagic.size() + 1) fail("{}: not a file of torch.save", name_);
  }

  void check_system(const Pickle& pickle) const {
    const auto* facts = pickle.root->get_if<PickleDict>();
    if (facts == nullptr) fail("{}: not a file of torch.save", name_);
    for (const auto& [key, value] : facts->entries) {
      const auto* text = key->get_if<std::string>();
      const auto* little = value->get_if<bool>();
      if (text != nullptr && *text == "little_endian" && (little == nullptr || !*little)) {
        fail("{}: not written on a little-endian machine", name_);
      }
    }
  }

  /// The size of an element stands only in the pickle that refers to the storage.
  std::unordered_map<std::string, size_t> element_sizes() const {
    std::unordered_map<std::string, size_t> sizes;
    for (const PickleValue& value : pickle_.values) {
      const auto* persistent = value.get_if<PicklePersistent>();
      if (persistent == nullptr) continue;
      const TorchStorageId id = parse_storage_id(*persistent->id, name_);
      const auto found =
          std::ranges::find(kTorchStorages, id.storage_class, [](const auto& entry) { return entry.first; });
      if (found == kTorchStorages.end())
        fail("{}: storage class {} is not supported", name_, id.storage_class);
      sizes[id.key] = dtype_size(found->second);
    }
    return sizes;
  }

  void read_storages(ByteReader& reader, const PickleList& keys) {
    const std::unordered_map<std::string, size_t> sizes = element_sizes();
    for (const PickleValue* key : keys.items) {
      const auto* text = key->get_if<std::string>();
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
  Pickle pickle_;
  std::unordered_map<std::string, std::span<std::byte>> storages_;
};

}  // namespace

std::unique_ptr<TorchArchive> open_torch_archive(const std::filesystem::path& path) {
  const std::shared_ptr<const MappedFile> file = map_file(path);
  if (LegacyArchive::is_magic(file->bytes())) return std::make_unique<LegacyArchive>(path);
  return std::make_unique<ZipArchive>(path);
}

TorchStorageId parse_storage_id(const PickleValue& id, const std::string& file) {
  const auto* tuple = id.get_if<PickleTuple>();
  if (tuple == nullptr || tuple->items.size() < 5) fail("{}: an external value that is no storage", file);
  const auto* kind = tuple->items[0]->get_if<std::string>();
  const auto* storage_class = tuple->items[1]->get_if<PickleGlobal>();
  const auto* key = tuple->items[2]->get_if<std::string>();
  const auto* numel = tuple->items[4]->get_if<int64_t>();
  const bool complete = kind != nullptr && storage_class != nullptr && key != nullptr && numel != nullptr;
  if (!complete || *kind != "storage" || !storage_class->module.starts_with("torch") || *numel < 0) {
    fail("{}: an external value that is no storage", file);
  }
  if (tuple->items.size() > 5 && tuple->items[5]->get_if<std::monostate>() == nullptr) {
    fail("{}: storage \"{}\" is a view of another, which is not supported", file, *key);
  }
  return {storage_class->name, *key, *numel};
}

}  // namespace detent
