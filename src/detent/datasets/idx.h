#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "detent/core/tensor.h"

namespace detent {

/// idx files, the format of MNIST: bytes 0, 0, element type, number of dimensions (1..8 here); each dimension
/// as a big-endian uint32, at least 1; the elements, big-endian, row-major, and nothing else. Element types:
/// 8 uint8, 9 int8, 11 int16, 12 int32, 13 float32, 14 float64.
inline constexpr uint64_t kDefaultIdxLimit = uint64_t{1} << 32;

/// A plain or gzip-compressed idx file as a tensor of its shape and element type, in the byte order of this
/// machine. Throws Error, naming the file, what was found and what was expected, on any deviation from the
/// format, and when the header announces more than `limit` bytes of elements. Decompresses at most one byte
/// more than the header announces and allocates no more than the file can hold.
Tensor read_idx(const std::filesystem::path& path, uint64_t limit = kDefaultIdxLimit);

/// The same for bytes in memory; `name` begins the messages.
Tensor parse_idx(std::span<const std::byte> bytes, const std::string& name,
                 uint64_t limit = kDefaultIdxLimit);

}  // namespace detent
