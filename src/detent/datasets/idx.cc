#include "detent/datasets/sample_readers.h"

#include <algorithm>
#include <array>
#include <bit>

#include "detent/core/error.h"
#include "detent/files/gzip.h"

namespace detent {
namespace {

constexpr size_t kMostDimensions = 8;

struct IdxHeader {
  DType dtype;
  Shape shape;
  uint64_t byte_count;  // of the elements
};

DType element_type(std::byte code, const std::string& name) {
  switch (std::to_integer<int>(code)) {
    case 0x08:
      return DType::kUInt8;
    case 0x09:
      return DType::kInt8;
    case 0x0b:
      return DType::kInt16;
    case 0x0c:
      return DType::kInt32;
    case 0x0d:
      return DType::kFloat32;
    case 0x0e:
      return DType::kFloat64;
    default:
      fail("{}: not an idx file: element type {:#04x}, expected 0x08, 0x09, 0x0b, 0x0c, 0x0d or 0x0e", name,
           std::to_integer<int>(code));
  }
}

int64_t big_endian_uint32(std::span<const std::byte, 4> bytes) {
  int64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<int64_t>(byte);
  return value;
}

Shape read_dimensions(GzipReader& reader, size_t rank) {
  std::array<std::byte, 4 * kMostDimensions> bytes{};
  const size_t wanted = 4 * rank;
  const size_t got = reader.read(std::span(bytes).first(wanted));
  if (got < wanted) {
    fail("{}: truncated idx file: {} bytes of dimensions, expected {}", reader.name(), got, wanted);
  }
  Shape shape;
  for (size_t axis = 0; axis < rank; ++axis) {
    shape.push_back(big_endian_uint32(std::span<const std::byte, 4>(&bytes[4 * axis], 4)));
  }
  return shape;
}

uint64_t element_bytes(const Shape& shape, DType dtype, const std::string& name) {
  uint64_t bytes = dtype_size(dtype);
  for (const int64_t size : shape) {
    if (size == 0) fail("{}: idx dimensions {}, expected each to be at least 1", name, shape_text(shape));
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
      fail("{}: idx dimensions {}, whose product exceeds 64 bits", name, shape_text(shape));
    }
  }
  return bytes;
}

IdxHeader read_idx_header(GzipReader& reader, uint64_t limit) {
  const std::string& name = reader.name();
  std::array<std::byte, 4> magic{};
  const size_t got = reader.read(magic);
  if (got < magic.size()) fail("{}: truncated idx file: {} bytes, expected a header of 8 or more", name, got);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0}) {
    fail("{}: not an idx file: it begins with bytes {:#04x} {:#04x}, expected 0x00 0x00", name,
         std::to_integer<int>(magic[0]), std::to_integer<int>(magic[1]));
  }
  const DType dtype = element_type(magic[2], name);
  const auto rank = std::to_integer<size_t>(magic[3]);
  if (rank == 0 || rank > kMostDimensions) {
    fail("{}: idx file of {} dimensions, expected 1 to {}", name, rank, kMostDimensions);
  }
  Shape shape = read_dimensions(reader, rank);
  const uint64_t byte_count = element_bytes(shape, dtype, name);
  if (byte_count > limit) {
    fail("{}: idx dimensions {} announce {} bytes, at most {} are allowed", name, shape_text(shape),
         byte_count, limit);
  }
  return {dtype, std::move(shape), byte_count};
}

void reverse_elements(std::span<std::byte> bytes, size_t element_size) {
  for (size_t begin = 0; begin < bytes.size(); begin += element_size) {
    std::reverse(&bytes[begin], &bytes[begin] + element_size);
  }
}

[[noreturn]] void fail_too_short(const GzipReader& reader, const IdxHeader& header, const std::string& got) {
  fail("{}: truncated idx file: {} bytes after the header, but dimensions {} of {} need {}", reader.name(),
       got, shape_text(header.shape), dtype_name(header.dtype), header.byte_count);
}

void check_at_end(GzipReader& reader, const IdxHeader& header) {
  std::byte extra{};
  if (reader.read({&extra, 1}) == 0) return;
  fail("{}: more than the {} bytes after the header that dimensions {} of {} announce", reader.name(),
       header.byte_count, shape_text(header.shape), dtype_name(header.dtype));
}

Tensor read_tensor(GzipReader& reader, uint64_t limit) {
  const IdxHeader header = read_idx_header(reader, limit);
  // Before the allocation: a short file may claim any size.
  const uint64_t possible = reader.remaining_at_most();
  if (header.byte_count > possible) {
    fail_too_short(reader, header, fmt::format("{}{}", reader.compressed() ? "at most " : "", possible));
  }
  Tensor tensor(header.dtype, header.shape);
  const size_t got = reader.read(tensor.bytes());
  if (got < header.byte_count) fail_too_short(reader, header, fmt::format("{}", got));
  check_at_end(reader, header);
  if constexpr (std::endian::native == std::endian::little) {
    if (dtype_size(header.dtype) > 1) reverse_elements(tensor.bytes(), dtype_size(header.dtype));
  }
  return tensor;
}

}  // namespace

Tensor read_idx(const std::filesystem::path& path, uint64_t limit) {
  GzipReader reader(path);
  return read_tensor(reader, limit);
}

Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name, uint64_t limit) {
  GzipReader reader(bytes, name);
  return read_tensor(reader, limit);
}

}  // namespace detent
