// Any bytes as gzip: what is refused at once is refused in pieces, and both give the same bytes.
#include <cstdlib>
#include <optional>
#include <span>
#include <string>

#include "detent/core/error.h"
#include "detent/files/gzip.h"

namespace {

constexpr uint64_t kLimit = uint64_t{1} << 20;

std::optional<std::string> at_once(std::span<const std::byte> bytes) {
  try {
    return detent::read_gzip(bytes, "fuzz", kLimit);
  } catch (const detent::Error&) {
    return std::nullopt;
  }
}

std::optional<std::string> in_pieces(std::span<const std::byte> bytes, size_t piece) {
  try {
    detent::GzipReader reader(bytes, "fuzz");
    std::string text;
    std::string part(piece, '\0');
    while (text.size() <= kLimit) {
      const size_t count = reader.read(std::as_writable_bytes(std::span(part)));
      text.append(part, 0, count);
      if (count < piece) return text;
    }
    return std::nullopt;
  } catch (const detent::Error&) {
    return std::nullopt;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const size_t piece = size == 0 ? 1 : 1 + data[size - 1] * size_t{16};
  if (at_once(bytes) != in_pieces(bytes, piece)) std::abort();
  return 0;
}
