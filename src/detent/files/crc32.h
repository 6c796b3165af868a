#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace detent {

/// The CRC-32 of zip and gzip (reflected polynomial 0xEDB88320). With the processor's carry-less
/// multiplication it is as fast as libdeflate's, three times as fast as zlib's, without which the C library
/// would need one library more; else it is zlib's.
uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace detent
