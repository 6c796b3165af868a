#include "detent/checkpoints/gguf/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_set>
#include <utility>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/files/byte_reader.h"

namespace detent {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kFirstVersion = 2;
constexpr uint32_t kLastVersion = 3;
constexpr uint64_t kDefaultAlignment = 32;
constexpr const char* kAlignmentKey = "general.alignment";
constexpr int kMaxArrayDepth = 4;
constexpr uint32_t kMaxGgufRank = 8;  // ggml has 4

// The least that each takes in a file.
constexpr uint64_t kEntryBytes = sizeof(uint64_t) + sizeof(uint32_t) + 1;
constexpr uint64_t kTensorBytes = 2 * sizeof(uint64_t) + 2 * sizeof(uint32_t);

/// Bytes of a value; 0 for strings and arrays.
size_t gguf_type_size(GgufType type) {
  constexpr std::array<size_t, 13> kSizes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes.at(static_cast<size_t>(type));
}

/// One pass over what stands before the data.
class GgufReader {
 public:
  explicit GgufReader(const std::filesystem::path& path)
      : mapping_(map_file(path)), name_(path.string()), reader_(mapping_->bytes(), name_) {}

  GgufFile read() {
    const uint32_t version = read_version();
    const auto tensors = count_of("tensors", kTensorBytes);
    const auto entries = count_of("metadata", kEntryBytes);
    const size_t begin = reader_.position();
    GgufMetadata metadata(name_, read_entries(entries));
    const auto metadata_bytes = mapping_->bytes().subspan(begin, reader_.position() - begin);
    const uint64_t alignment = alignment_of(metadata);
    std::vector<GgufTensor> list = read_tensors(tensors, alignment);
    place_tensors(list, alignment);
    return {mapping_, version, alignment, std::move(metadata), std::move(list), metadata_bytes};
  }

 private:
  uint32_t read_version() {
    if (reader_.remaining() < kMagic.size() || reader_.text(kMagic.size()) != kMagic) {
      fail("{}: not a GGUF file: it does not begin with \"{}\"", name_, kMagic);
    }
    const auto version = reader_.number<uint32_t>();
    const uint32_t swapped =
        version << 24 | (version & 0xFF00) << 8 | (version >> 8 & 0xFF00) | version >> 24;
    if (version >= kFirstVersion && version <= kLastVersion) return version;
    if (swapped >= 1 && swapped <= kLastVersion) fail("{}: is big endian, expected little endian", name_);
    fail("{}: is of version {} of GGUF, expected {} or {}", name_, version, kFirstVersion, kLastVersion);
  }

  uint64_t count_of(const char* text, uint64_t least_bytes) {
    const auto count = reader_.number<uint64_t>();
    if (count > reader_.remaining() / least_bytes) {
      fail("{}: says it has {} entries of {}, more than its {} bytes can hold", name_, count, text,
           mapping_->bytes().size());
    }
    return count;
  }

  std::string_view read_text() {
    const auto length = reader_.number<uint64_t>();
    if (length > reader_.remaining()) {
      fail("{}: cut off at byte {}, or damaged: a string of {} bytes at byte {}", name_,
           mapping_->bytes().size(), length, reader_.position());
    }
    return reader_.text(length);
  }

  GgufType read_type(std::string_view key) {
    const auto type = reader_.number<uint32_t>();
    if (type > static_cast<uint32_t>(GgufType::kFloat64)) {
      fail("{}: {} has a value of the type {}, expected 0 to {}", name_, key, type,
           static_cast<uint32_t>(GgufType::kFloat64));
    }
    return static_cast<GgufType>(type);
  }

  std::vector<GgufEntry> read_entries(uint64_t count) {
    std::vector<GgufEntry> entries;
    for (uint64_t i = 0; i < count; ++i) {
      GgufEntry entry;
      entry.key = read_text();
      entry.type = read_type(entry.key);
      read_value(entry);
      entries.push_back(entry);
    }
    return entries;
  }

  void read_value(GgufEntry& entry) {
    switch (entry.type) {
      case GgufType::kUInt8:
        entry.value = uint64_t{reader_.number<uint8_t>()};
        return;
      case GgufType::kInt8:
        entry.value = int64_t{reader_.number<int8_t>()};
        return;
      case GgufType::kUInt16:
        entry.value = uint64_t{reader_.number<uint16_t>()};
        return;
      case GgufType::kInt16:
        entry.value = int64_t{reader_.number<int16_t>()};
        return;
      case GgufType::kUInt32:
        entry.value = uint64_t{reader_.number<uint32_t>()};
        return;
      case GgufType::kInt32:
        entry.value = int64_t{reader_.number<int32_t>()};
        return;
      case GgufType::kFloat32:
        entry.value = double{std::bit_cast<float>(reader_.number<uint32_t>())};
        return;
      case GgufType::kBool:
        entry.value = reader_.number<uint8_t>() != 0;
        return;
      case GgufType::kString:
        entry.value = read_text();
        return;
      case GgufType::kArray:
        entry.value = read_array(entry.key, 1);
        return;
      case GgufType::kUInt64:
        entry.value = reader_.number<uint64_t>();
        return;
      case GgufType::kInt64:
        entry.value = reader_.number<int64_t>();
        return;
      case GgufType::kFloat64:
        entry.value = std::bit_cast<double>(reader_.number<uint64_t>());
        return;
    }
  }

  GgufArray read_array(std::string_view key, int depth) {
    if (depth > kMaxArrayDepth) fail("{}: {} has arrays more than {} deep", name_, key, kMaxArrayDepth);
    GgufArray array;
    array.type = read_type(key);
    array.count = reader_.number<uint64_t>();
    const size_t size = gguf_type_size(array.type);
    const size_t least =
        array.type == GgufType::kString ? sizeof(uint64_t) : sizeof(uint64_t) + sizeof(uint32_t);
    if (array.count > reader_.remaining() / std::max<size_t>(size, size == 0 ? least : 1)) {
      fail("{}: {} says it has {} elements, more than the file's {} bytes can hold", name_, key, array.count,
           mapping_->bytes().size());
    }
    const size_t begin = reader_.position();
    if (size > 0) reader_.take(array.count * size);
    for (uint64_t i = 0; size == 0 && i < array.count; ++i) {
      if (array.type == GgufType::kString) {
        read_text();
      } else {
        read_array(key, depth + 1);
      }
    }
    array.bytes = mapping_->bytes().subspan(begin, reader_.position() - begin);
    return array;
  }

  uint64_t alignment_of(const GgufMetadata& metadata) const {
    const int64_t alignment = metadata.integer(kAlignmentKey, kDefaultAlignment);
    constexpr int64_t kMost = int64_t{1} << 30;
    if (alignment < 1 || alignment > kMost || !std::has_single_bit(static_cast<uint64_t>(alignment))) {
      fail("{}: {} is {}, expected a power of two up to {}", name_, kAlignmentKey, alignment, kMost);
    }
    return static_cast<uint64_t>(alignment);
  }

  std::vector<GgufTensor> read_tensors(uint64_t count, uint64_t alignment) {
    std::vector<GgufTensor> tensors;
    std::unordered_set<std::string_view> names;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string_view name = read_text();
      if (!names.insert(name).second) fail("{}: tensor \"{}\" occurs twice", name_, name);
      tensors.push_back(read_tensor(name, alignment));
    }
    return tensors;
  }

  GgufTensor read_tensor(std::string_view name, uint64_t alignment) {
    GgufTensor tensor{std::string(name), nullptr, {}, {}, mapping_};
    const auto rank = reader_.number<uint32_t>();
    if (rank > kMaxGgufRank) {
      fail("{}: tensor \"{}\" has {} dimensions, expected at most {}", name_, name, rank, kMaxGgufRank);
    }
    tensor.shape.resize(rank);
    for (uint32_t i = rank; i > 0; --i) tensor.shape[i - 1] = reader_.number<int64_t>();
    const auto id = reader_.number<uint32_t>();
    tensor.format = find_gguf_format(id);
    if (tensor.format == nullptr) {
      fail("{}: tensor \"{}\" is stored in the format {}, which is none of {}", name_, name, id,
           gguf_format_names());
    }
    const auto offset = reader_.number<uint64_t>();
    if (offset % alignment != 0) {
      fail("{}: tensor \"{}\" begins at byte {} of the data, expected a multiple of {}", name_, name, offset,
           alignment);
    }
    offsets_.emplace_back(offset, byte_count(tensor));
    return tensor;
  }

  uint64_t byte_count(const GgufTensor& tensor) const {
    uint64_t elements = 1;
    constexpr uint64_t kMost = uint64_t{1} << 60;
    for (const int64_t size : tensor.shape) {
      if (size < 0 || (size > 0 && elements > kMost / static_cast<uint64_t>(size))) {
        fail("{}: tensor \"{}\" has the shape {}, which no file can hold", name_, tensor.name,
             shape_text(tensor.shape));
      }
      elements *= static_cast<uint64_t>(size);
    }
    const GgufFormat& format = *tensor.format;
    const uint64_t row = tensor.shape.empty() ? 1 : static_cast<uint64_t>(tensor.shape.back());
    if (row % format.elements != 0) {
      fail("{}: tensor \"{}\" has rows of {} elements, {} has blocks of {}", name_, tensor.name, row,
           format.name, format.elements);
    }
    const uint64_t blocks = elements / format.elements;
    if (blocks > mapping_->bytes().size() / format.bytes) {
      fail("{}: tensor \"{}\" of {} {} needs {} blocks of {} bytes, the file has {} bytes", name_,
           tensor.name, shape_text(tensor.shape), format.name, blocks, format.bytes,
           mapping_->bytes().size());
    }
    return blocks * format.bytes;
  }

  void place_tensors(std::vector<GgufTensor>& tensors, uint64_t alignment) {
    const uint64_t size = mapping_->bytes().size();
    const uint64_t begin = std::min((reader_.position() + alignment - 1) / alignment * alignment, size);
    const std::span<std::byte> data = mapping_->bytes().subspan(begin);
    std::vector<size_t> order(tensors.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, {}, [&](size_t i) { return offsets_[i]; });
    uint64_t end = 0;
    for (const size_t i : order) {
      const auto [offset, bytes] = offsets_[i];
      if (offset > data.size() || bytes > data.size() - offset) {
        fail(
            "{}: tensor \"{}\" has {} bytes at byte {} of the data, of which there are {}: is the file cut "
            "off?",
            name_, tensors[i].name, bytes, offset, data.size());
      }
      if (offset < end) fail("{}: the bytes of tensor \"{}\" overlap with another's", name_, tensors[i].name);
      tensors[i].bytes = data.subspan(offset, bytes);
      end = offset + bytes;
    }
  }

  std::shared_ptr<const MappedFile> mapping_;
  std::string name_;
  ByteReader reader_;
  std::vector<std::pair<uint64_t, uint64_t>> offsets_;  // and bytes, of each tensor
};

std::optional<DType> plain_dtype(const GgufFormat& format) {
  constexpr std::array<std::pair<uint32_t, DType>, 8> kPlain = {{{0, DType::kFloat32},
                                                                 {1, DType::kFloat16},
                                                                 {24, DType::kInt8},
                                                                 {25, DType::kInt16},
                                                                 {26, DType::kInt32},
                                                                 {27, DType::kInt64},
                                                                 {28, DType::kFloat64},
                                                                 {30, DType::kBFloat16}}};
  const auto* found = std::ranges::find(kPlain, format.id, &std::pair<uint32_t, DType>::first);
  if (found == kPlain.end()) return std::nullopt;
  return found->second;
}

}  // namespace

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &GgufTensor::name);
  return found == tensors.end() ? nullptr : &*found;
}

bool is_gguf(std::span<const std::byte> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

GgufFile read_gguf(const std::filesystem::path& path) { return GgufReader(path).read(); }

std::string gguf_without_tensors(const GgufFile& file) {
  std::string bytes(kMagic);
  const auto add = [&](auto number) { bytes.append(reinterpret_cast<const char*>(&number), sizeof(number)); };
  add(file.version);
  add(uint64_t{0});
  add(uint64_t{file.metadata.entries().size()});
  bytes.append(reinterpret_cast<const char*>(file.metadata_bytes.data()), file.metadata_bytes.size());
  bytes.resize((bytes.size() + file.alignment - 1) / file.alignment * file.alignment);
  return bytes;
}

DType gguf_dtype(const GgufTensor& tensor) { return plain_dtype(*tensor.format).value_or(DType::kFloat32); }

Tensor gguf_elements(const GgufTensor& tensor) {
  const std::optional<DType> dtype = plain_dtype(*tensor.format);
  if (!dtype) {
    Tensor values(DType::kFloat32, tensor.shape);
    decode_gguf(tensor, values.values<float>());
    return values;
  }
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.bytes.data()) % dtype_size(*dtype) == 0;
  if (aligned) return Tensor::borrow(*dtype, tensor.shape, tensor.bytes.data(), tensor.owner);
  Tensor copy(*dtype, tensor.shape);
  std::ranges::copy(tensor.bytes, copy.bytes().begin());
  return copy;
}

Tensor gguf_rows(const GgufTensor& tensor, std::span<const int64_t> rows) {
  DETENT_CHECK(tensor.shape.size() == 2, "rows of \"{}\", a tensor of shape {}", tensor.name,
               shape_text(tensor.shape));
  const int64_t width = tensor.shape[1];
  Tensor result(DType::kFloat32, {std::ssize(rows), width});
  if (width == 0) return result;
  const bool is_plain = holds_plain_numbers(*tensor.format);
  const Tensor plain = is_plain ? gguf_elements(tensor) : Tensor();
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  float* to = result.values<float>().data();
  for (const int64_t row : rows) {
    DETENT_CHECK(row >= 0 && row < tensor.shape[0], "row {} of {}", row, tensor.shape[0]);
    if (is_plain) {
      std::ranges::copy(to_float32(plain.rows(row, row + 1)).values<float>(), to);
    } else {
      decode_gguf_blocks(*tensor.format,
                         tensor.bytes.subspan(static_cast<size_t>(row) * row_bytes, row_bytes),
                         {to, static_cast<size_t>(width)});
    }
    to += width;
  }
  return result;
}

void decode_gguf(const GgufTensor& tensor, std::span<float> values) {
  constexpr int64_t kBlocksAtOnce = 256;
  const GgufFormat& format = *tensor.format;
  const auto blocks = static_cast<int64_t>(tensor.bytes.size() / format.bytes);
  parallel_for(blocks, kBlocksAtOnce, [&](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin);
    const auto count = static_cast<size_t>(end - begin);
    decode_gguf_blocks(format, tensor.bytes.subspan(first * format.bytes, count * format.bytes),
                       values.subspan(first * format.elements, count * format.elements));
  });
}

}  // namespace detent
