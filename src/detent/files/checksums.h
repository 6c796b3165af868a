#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace detent {

/// The CRC-32 of zip and gzip (reflected polynomial 0xEDB88320). With the processor's carry-less
/// multiplication it is as fast as libdeflate's, three times as fast as zlib's, without which the C library
/// would need one library more; else it is zlib's.
uint32_t crc32(std::span<const std::byte> bytes);

/// Digests by which published files are known, as lower-case hexadecimal text: of MD5 (RFC 1321) 32 digits,
/// of SHA-256 (FIPS 180-4) 64. MD5 tells accidents, not attacks.
enum class DigestKind { kMd5, kSha256 };

std::string digest(DigestKind kind, std::span<const std::byte> bytes);

/// HMAC-SHA-256 (RFC 2104) as 64 digits: nobody without the key can make that of a message.
std::string hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

/// Compares a file's digest, of the kind that `expected` has the length of. Throws Error naming the file when
/// they differ or it cannot be read.
void check_digest(const std::filesystem::path& path, const std::string& expected);

}  // namespace detent
