#include "detent/files/append_file.h"

#include <array>
#include <bit>
#include <string_view>
#include <utility>

namespace detent {
namespace {

/// CRC-32C (Castagnoli), reflected polynomial 0x82F63B78, as RFC 3720 B.4 has it.
constexpr std::array<uint32_t, 256> kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1U) * 0x82F63B78U;
    table[byte] = remainder;
  }
  return table;
}();

/// TensorFlow's mask, so that a CRC is not stored next to data that hold CRCs (core/lib/hash/crc32c.h).
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFFU];
  return std::rotr(~crc, 15) + 0xA282EAD8U;
}

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(number); ++i) bytes += static_cast<char>(number >> (8 * i) & 0xFFU);
  return bytes;
}

std::string varint(uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>(number | 0x80U);
  return bytes + static_cast<char>(number);
}

// Wire types of protobuf (protobuf.dev/programming-guides/encoding).
enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string key(uint32_t field, Wire wire) { return varint(field << 3 | static_cast<uint32_t>(wire)); }

std::string bytes_field(uint32_t field, std::string_view bytes) {
  return key(field, Wire::kBytes) + varint(bytes.size()) + std::string(bytes);
}

/// tensorflow/core/util/event.proto: Event {double wall_time = 1; int64 step = 2; ...}
std::string event_head(double wall_time, int64_t step) {
  return key(1, Wire::kFixed64) + little_endian(std::bit_cast<uint64_t>(wall_time)) + key(2, Wire::kVarint) +
         varint(static_cast<uint64_t>(step));
}

/// tensorflow/core/framework/summary.proto: Summary.Value {string tag = 1; float simple_value = 2; ...}
std::string summary_value(const ScalarEvent& scalar) {
  return bytes_field(1, scalar.tag) + key(2, Wire::kFixed32) +
         little_endian(std::bit_cast<uint32_t>(scalar.value));
}

std::string record(std::string_view bytes) {
  const std::string length = little_endian(uint64_t{bytes.size()});
  return length + little_endian(masked_crc(length)) + std::string(bytes) + little_endian(masked_crc(bytes));
}

}  // namespace

EventFile::EventFile(std::filesystem::path path, uint64_t keep, double wall_time)
    : file_(std::move(path), keep) {
  // Event {string file_version = 3}
  if (file_.size() == 0) file_.append(record(event_head(wall_time, 0) + bytes_field(3, "brain.Event:2")));
}

void EventFile::write(double wall_time, int64_t step, std::span<const ScalarEvent> scalars) {
  std::string summary;  // Summary {repeated Value value = 1}
  for (const ScalarEvent& scalar : scalars) summary += bytes_field(1, summary_value(scalar));
  file_.append(record(event_head(wall_time, step) + bytes_field(5, summary)));  // Event {Summary summary = 5}
}

}  // namespace detent
