#include "detent/files/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "detent/core/error.h"
#include "detent/files/checksums.h"
#include "detent/files/file.h"

namespace detent {
namespace {

static_assert(std::endian::native == std::endian::little);

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kLengthBytes = 8;
constexpr int kMaxJsonDepth = 3;  // header, tensor, list
constexpr size_t kMaxRank = 64;
constexpr const char* kMetadataKey = "__metadata__";
constexpr const char* kChecksumKey = "detent.crc32";
constexpr std::string_view kBeforeDigits = R"("detent.crc32":")";
constexpr size_t kChecksumDigits = 8;  // of a checksum

constexpr std::array<std::pair<std::string_view, DType>, 13> kSafetensorsTypes = {{
    {"BOOL", DType::kBool},
    {"U8", DType::kUInt8},
    {"I8", DType::kInt8},
    {"I16", DType::kInt16},
    {"I32", DType::kInt32},
    {"I64", DType::kInt64},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBFloat16},
    {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
    {"F8_E4M3", DType::kFloat8E4M3},
    {"F8_E5M2", DType::kFloat8E5M2},
    {"F8_E8M0", DType::kUInt8},  // exponents, plus 127
}};

/// The first of the names that stand for it, as files are written.
std::string_view name_in_files(DType dtype) {
  const auto* const type =
      std::ranges::find(kSafetensorsTypes, dtype, &std::pair<std::string_view, DType>::second);
  DETENT_CHECK(type != kSafetensorsTypes.end(), "dtype {}", dtype_name(dtype));
  return type->first;
}

/// The JSON header and the order of its names, which nlohmann::json sorts.
struct SafetensorsHeader {
  json object;
  std::vector<std::string> names;
};

/// A first look at a header: the names of its tensors in order, no key twice in an object, no deep nesting.
/// (A callback of nlohmann's parser could look while it builds the tree, but then takes time quadratic in the
/// number of tensors.)
class HeaderKeys : public nlohmann::json_sax<json> {
 public:
  explicit HeaderKeys(const std::string& file) : file_(file) {}
  std::vector<std::string> take_names() { return std::move(names_); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }  // not in text
  bool start_object(std::size_t) override {
    // Not clear(), which takes as long as the largest object before has had keys.
    if (depth_ == 1) seen_[1] = std::unordered_set<std::string>();
    return deeper();
  }
  bool key(string_t& key) override {
    if (depth_ <= 2 && !seen_[depth_ - 1].insert(key).second) fail("{}: \"{}\" occurs twice", file_, key);
    if (depth_ == 1) names_.push_back(key);
    return true;
  }
  bool end_object() override { return --depth_, true; }
  bool start_array(std::size_t) override { return deeper(); }
  bool end_array() override { return --depth_, true; }
  bool parse_error(std::size_t, const std::string&, const json::exception& error) override {
    fail("{}: the header is not JSON: {}", file_, error.what());
  }

 private:
  bool deeper() {
    if (++depth_ > kMaxJsonDepth) fail("{}: the header is nested too deep", file_);
    return true;
  }

  const std::string& file_;
  std::vector<std::string> names_;
  std::unordered_set<std::string> seen_[2];  // keys of the header, of the current entry
  int depth_ = 0;
};

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path)
      : name_(path.string()), file_(map_file(path)) {}

  SafetensorsFile read(TensorCheck check) {
    read_entries();
    SafetensorsFile result{{}, std::move(metadata_), std::move(checksums_)};
    for (const Entry& entry : entries_) result.tensors.emplace_back(entry.name, tensor_of(entry));
    for (size_t i = 0; check == TensorCheck::kNow && i < result.checksums.size(); ++i) {
      check_tensor(result.tensors[i].second, result.checksums[i], name_, result.tensors[i].first);
    }
    return result;
  }

  SafetensorsSummary summarize() {
    read_entries();
    SafetensorsSummary result{{}, std::move(metadata_)};
    for (Entry& entry : entries_) {
      const bool has_own_name = entry.dtype && name_in_files(*entry.dtype) == entry.dtype_text;
      const std::string_view dtype = has_own_name ? dtype_name(*entry.dtype) : entry.dtype_text;
      result.tensors.push_back(
          {entry.name, std::string(dtype), std::move(entry.shape), entry.end - entry.begin});
    }
    return result;
  }

 private:
  /// A tensor of the header. Its bytes are those of the shape where the dtype is known.
  struct Entry {
    std::string name;
    std::string dtype_text;
    std::optional<DType> dtype;
    Shape shape;
    uint64_t begin = 0;  // of the data
    uint64_t end = 0;
  };

  void read_entries() {
    const uint64_t header_bytes = read_header_length();
    const SafetensorsHeader header = parse_header(header_bytes);
    data_ = file_->bytes().subspan(kLengthBytes + header_bytes);
    for (const std::string& name : header.names) {
      const json& entry = header.object.at(name);
      if (name == kMetadataKey) {
        metadata_ = read_metadata(entry);
      } else {
        entries_.push_back(read_entry(name, entry));
      }
    }
    check_coverage();
    take_checksums(header_bytes);
  }

  /// Moves them out of the metadata and checks the header by its own.
  void take_checksums(uint64_t header_bytes) {
    const auto found = metadata_.find(kChecksumKey);
    if (found == metadata_.end()) return;
    const std::string digits = std::move(found->second);
    metadata_.erase(found);
    const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    if (digits.size() != kChecksumDigits * (1 + entries_.size()) || !std::ranges::all_of(digits, is_digit)) {
      fail(
          "{}: damaged: {} has {} characters, expected {} hexadecimal digits for each of {} tensors and the "
          "header",
          name_, kChecksumKey, digits.size(), kChecksumDigits, entries_.size());
    }
    for (size_t i = 0; i < digits.size(); i += kChecksumDigits) {
      checksums_.push_back(static_cast<uint32_t>(std::stoul(digits.substr(i, kChecksumDigits), nullptr, 16)));
    }
    const std::span<std::byte> bytes = file_->bytes().first(kLengthBytes + header_bytes);
    std::string header(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const size_t at = header.find(kBeforeDigits);
    if (at != std::string::npos) header.replace(at + kBeforeDigits.size(), digits.size(), digits.size(), '0');
    const uint32_t checksum = crc32(std::as_bytes(std::span(header)));
    if (checksum != checksums_.front()) {
      fail("{}: damaged: the CRC-32 of its header is {:08x}, the file says {:08x}", name_, checksum,
           checksums_.front());
    }
    checksums_.erase(checksums_.begin());
  }

  uint64_t read_header_length() const {
    const std::span<std::byte> bytes = file_->bytes();
    if (bytes.size() < kLengthBytes) fail("{}: {} bytes are too few for safetensors", name_, bytes.size());
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
      fail(
          "{}: not a safetensors file: its first 8 bytes would say a header of {} bytes, at most {} are "
          "possible",
          name_, length, std::min<uint64_t>(kMaxHeaderBytes, bytes.size() - kLengthBytes));
    }
    return length;
  }

  SafetensorsHeader parse_header(uint64_t length) const {
    const auto* text = reinterpret_cast<const char*>(file_->bytes().data() + kLengthBytes);
    HeaderKeys keys(name_);
    json::sax_parse(text, text + length, &keys);
    SafetensorsHeader header{json::parse(text, text + length), keys.take_names()};
    if (!header.object.is_object()) fail("{}: the header is not a JSON object", name_);
    return header;
  }

  std::map<std::string, std::string> read_metadata(const json& entry) const {
    if (!entry.is_object()) fail("{}: {} is not an object", name_, kMetadataKey);
    std::map<std::string, std::string> metadata;
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("{}: {} key \"{}\" is not a string", name_, kMetadataKey, key);
      metadata[key] = value.get<std::string>();
    }
    return metadata;
  }

  Entry read_entry(const std::string& tensor, const json& json_entry) const {
    Entry entry;
    entry.name = tensor;
    entry.dtype_text = read_dtype(tensor, json_entry);
    const auto* known =
        std::ranges::find(kSafetensorsTypes, entry.dtype_text, &std::pair<std::string_view, DType>::first);
    if (known != kSafetensorsTypes.end()) entry.dtype = known->second;
    const std::vector<uint64_t> sizes = read_numbers(tensor, json_entry, "shape");
    const std::vector<uint64_t> offsets = read_numbers(tensor, json_entry, "data_offsets");
    if (sizes.size() > kMaxRank) fail("{}: tensor \"{}\" has {} dimensions", name_, tensor, sizes.size());
    entry.shape.assign(sizes.begin(), sizes.end());
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > data_.size()) {
      fail("{}: tensor \"{}\" has data_offsets {}, the file has {} bytes of data", name_, tensor,
           json_entry.at("data_offsets").dump(), data_.size());
    }
    entry.begin = offsets[0];
    entry.end = offsets[1];
    const uint64_t bytes = entry.end - entry.begin;
    const uint64_t count = checked_count(tensor, entry.shape);
    if (!entry.dtype) return entry;
    if (bytes % dtype_size(*entry.dtype) != 0 || bytes / dtype_size(*entry.dtype) != count) {
      fail("{}: tensor \"{}\" has {} bytes, shape {} of {} needs {} elements", name_, tensor, bytes,
           shape_text(entry.shape), dtype_name(*entry.dtype), count);
    }
    return entry;
  }

  Tensor tensor_of(const Entry& entry) const {
    if (!entry.dtype) {
      fail(
          "{}: tensor \"{}\" has dtype {}, supported are BOOL, U8, I8, I16, I32, I64, F8_E4M3, "
          "F8_E5M2, F8_E8M0, F16, BF16, F32, F64",
          name_, entry.name, json(entry.dtype_text).dump());
    }
    std::byte* data = data_.data() + entry.begin;
    const uint64_t bytes = entry.end - entry.begin;
    const auto no_boolean = [](std::byte byte) { return byte > std::byte{1}; };
    if (*entry.dtype == DType::kBool && std::any_of(data, data + bytes, no_boolean)) {
      fail("{}: tensor \"{}\" is boolean and has bytes other than 0 and 1", name_, entry.name);
    }
    const bool aligned = reinterpret_cast<uintptr_t>(data) % dtype_size(*entry.dtype) == 0;
    if (aligned && bytes > 0) return Tensor::borrow(*entry.dtype, entry.shape, data, file_);
    Tensor copy(*entry.dtype, entry.shape);
    if (bytes > 0) std::memcpy(copy.bytes().data(), data, bytes);
    return copy;
  }

  uint64_t checked_count(const std::string& tensor, const Shape& shape) const {
    try {
      return static_cast<uint64_t>(element_count(shape));
    } catch (const Error& error) {
      fail("{}: tensor \"{}\": {}", name_, tensor, error.what());
    }
  }

  const json& field(const std::string& tensor, const json& entry, const char* key) const {
    if (!entry.is_object()) fail("{}: tensor \"{}\" is not described by an object", name_, tensor);
    const auto found = entry.find(key);
    if (found == entry.end()) fail("{}: tensor \"{}\" has no \"{}\"", name_, tensor, key);
    return *found;
  }

  std::string read_dtype(const std::string& tensor, const json& entry) const {
    const json& value = field(tensor, entry, "dtype");
    if (!value.is_string()) {
      fail("{}: tensor \"{}\" has dtype {}, expected a name", name_, tensor, value.dump());
    }
    return value.get<std::string>();
  }

  /// A list of integers within int64's non-negative half.
  std::vector<uint64_t> read_numbers(const std::string& tensor, const json& entry, const char* key) const {
    constexpr auto kLimit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const json& list = field(tensor, entry, key);
    std::vector<uint64_t> numbers;
    for (const json& value : list) {
      if (!list.is_array() || !value.is_number_unsigned() || value.get<uint64_t>() > kLimit) {
        fail("{}: tensor \"{}\" has \"{}\": {}, expected a list of sizes", name_, tensor, key, list.dump());
      }
      numbers.push_back(value.get<uint64_t>());
    }
    if (!list.is_array()) fail("{}: tensor \"{}\" has \"{}\" that is no list", name_, tensor, key);
    return numbers;
  }

  /// The format forbids overlaps and holes.
  void check_coverage() const {
    std::vector<const Entry*> sorted;
    for (const Entry& entry : entries_) sorted.push_back(&entry);
    std::ranges::sort(sorted, {}, [](const Entry* entry) { return std::pair(entry->begin, entry->end); });
    uint64_t end = 0;
    for (const Entry* entry : sorted) {
      if (entry->begin != end) {
        fail("{}: tensor \"{}\" begins at byte {} of the data, {} it at {}", name_, entry->name, entry->begin,
             entry->begin < end ? "overlapping the tensor before" : "leaving a hole after the tensor before",
             end);
      }
      end = entry->end;
    }
    if (end != data_.size()) fail("{}: {} bytes follow the last tensor", name_, data_.size() - end);
  }

  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  std::span<std::byte> data_;
  std::map<std::string, std::string> metadata_;
  std::vector<uint32_t> checksums_;
  std::vector<Entry> entries_;
};

std::string quoted_json(const std::filesystem::path& path, const std::string& text) {
  try {
    return json(text).dump();
  } catch (const json::exception&) {
    fail("cannot write {}: a name is not UTF-8", path.string());
  }
}

/// The indices of the entries in the order of their data.
std::vector<size_t> data_order(const std::vector<TensorEntry>& entries) {
  std::vector<size_t> order(entries.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return dtype_size(entries[i].dtype); });
  return order;
}

uint64_t byte_count(const TensorEntry& entry) {
  return static_cast<uint64_t>(element_count(entry.shape)) * dtype_size(entry.dtype);
}

std::string entry_text(const TensorEntry& entry, uint64_t begin) {
  return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name_in_files(entry.dtype),
                     json(entry.shape).dump(), begin, begin + byte_count(entry));
}

std::string safetensors_header(const std::filesystem::path& path, const std::vector<TensorEntry>& entries,
                               const std::map<std::string, std::string>& metadata) {
  std::vector<uint64_t> begins(entries.size());
  uint64_t position = 0;
  for (const size_t i : data_order(entries)) {
    begins[i] = position;
    position += byte_count(entries[i]);
  }
  std::vector<std::string> members = {
      fmt::format("{}{}\"", kBeforeDigits, std::string(kChecksumDigits * (1 + entries.size()), '0'))};
  for (const auto& [key, value] : metadata) {
    if (key == kChecksumKey) fail("cannot write {}: the key {} is reserved", path.string(), kChecksumKey);
    members.push_back(quoted_json(path, key) + ":" + quoted_json(path, value));
  }
  members = {fmt::format("\"{}\":{{{}}}", kMetadataKey, fmt::join(members, ","))};
  std::set<std::string_view> names = {kMetadataKey};
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string& name = entries[i].name;
    if (!names.insert(name).second) fail("cannot write {}: the name \"{}\" is taken", path.string(), name);
    members.push_back(quoted_json(path, name) + ":" + entry_text(entries[i], begins[i]));
  }
  std::string text = fmt::format("{{{}}}", fmt::join(members, ","));
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxHeaderBytes)
    fail("cannot write {}: the header would have {} bytes", path.string(), text.size());
  return text;
}

}  // namespace

void check_tensor(const Tensor& tensor, uint32_t checksum, const std::string& file, const std::string& name) {
  const uint32_t found = crc32(tensor.bytes());
  if (found == checksum) return;
  fail("{}: damaged: the CRC-32 of tensor \"{}\" is {:08x}, the file says {:08x}", file, name, found,
       checksum);
}

SafetensorsFile read_safetensors(const std::filesystem::path& path, TensorCheck check) {
  return SafetensorsReader(path).read(check);
}

SafetensorsSummary summarize_safetensors(const std::filesystem::path& path) {
  return SafetensorsReader(path).summarize();
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> entries,
                                     const std::map<std::string, std::string>& metadata)
    : entries_(std::move(entries)),
      order_(data_order(entries_)),
      header_(safetensors_header(path, entries_, metadata)),
      file_(path),
      checksums_(entries_.size()) {
  const std::array<uint64_t, 1> length = {header_.size()};
  file_.write(std::as_bytes(std::span(length)));
  file_.write(header_);
}

void SafetensorsWriter::write(const Tensor& tensor) {
  DETENT_CHECK(written_ < order_.size(), "all {} tensors are written", order_.size());
  const TensorEntry& entry = entries_[order_[written_]];
  DETENT_CHECK(tensor.dtype() == entry.dtype && tensor.shape() == entry.shape,
               "tensor \"{}\" is {} of shape {}, announced as {} of shape {}", entry.name,
               dtype_name(tensor.dtype()), shape_text(tensor.shape()), dtype_name(entry.dtype),
               shape_text(entry.shape));
  file_.write(tensor.bytes());
  checksums_[order_[written_]] = crc32(tensor.bytes());
  ++written_;
}

void SafetensorsWriter::commit() {
  DETENT_CHECK(written_ == order_.size(), "{} of {} tensors are written", written_, order_.size());
  const uint64_t length = header_.size();
  const std::string header = std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + header_;
  std::string digits = fmt::format("{:08x}", crc32(std::as_bytes(std::span(header))));
  for (const uint32_t checksum : checksums_) digits += fmt::format("{:08x}", checksum);
  file_.overwrite(kLengthBytes + header_.find(kBeforeDigits) + kBeforeDigits.size(), digits);
  file_.commit();
}

void write_safetensors(const std::filesystem::path& path,
                       std::span<const std::pair<std::string, Tensor>> tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorEntry> entries;
  for (const auto& [name, tensor] : tensors) entries.push_back({name, tensor.dtype(), tensor.shape()});
  SafetensorsWriter writer(path, std::move(entries), metadata);
  for (const size_t i : writer.order()) writer.write(tensors[i].second);
  writer.commit();
}

}  // namespace detent
