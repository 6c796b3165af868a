#include "detent/statistics/state_bytes.h"

#include "detent/core/error.h"

namespace detent {

void bad_state(std::string_view what) { fail("statistics state: {}", what); }

void StateWriter::compact(uint64_t value) {
  for (; value >= 0x80; value >>= 7) number(static_cast<uint8_t>(value | 0x80));
  number(static_cast<uint8_t>(value));
}

void StateWriter::text(std::string_view value) {
  compact(value.size());
  for (const char c : value) number(static_cast<uint8_t>(c));
}

void StateWriter::reals(std::span<const float> values) {
  compact(values.size());
  for (const float value : values) real(value);
}

void StateReader::expect(uint64_t count, size_t bytes_each) const {
  if (count > left() / bytes_each)
    bad_state(fmt::format("got {} bytes, expected at least {} times {} more", left(), count, bytes_each));
}

std::span<const std::byte> StateReader::take(size_t count) {
  expect(count, 1);
  const auto taken = bytes_.first(count);
  bytes_ = bytes_.subspan(count);
  return taken;
}

int64_t StateReader::count() {
  const auto value = number<uint64_t>();
  if (value >> 56 != 0U) bad_state(fmt::format("got the count {}, expected less than 2^56", value));
  return static_cast<int64_t>(value);
}

uint64_t StateReader::compact() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = number<uint8_t>();
    if (shift == 63 && byte > 1) break;
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  bad_state("got an integer of more than 64 bits");
}

std::string StateReader::text() {
  const auto bytes = take(compact());
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<float> StateReader::reals() {
  const uint64_t size = compact();
  expect(size, sizeof(float));
  std::vector<float> values(size);
  for (float& value : values) value = real();
  return values;
}

}  // namespace detent
