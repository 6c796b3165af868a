#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace detent {

/// CRC-32 of zip and gzip (reflected polynomial 0xEDB88320). With carry-less multiplication it is as fast as
/// libdeflate's, three times as fast as zlib's, and spares the C library a dependency; otherwise zlib's.
uint32_t crc32(std::span<const std::byte> bytes);

/// Digests of published files as lower-case hexadecimal text: MD5 (RFC 1321) 32 digits, SHA-256 (FIPS 180-4)
/// 64. MD5 detects accidents, not attacks.
enum class DigestKind { kMd5, kSha256 };

std::string digest(DigestKind kind, std::span<const std::byte> bytes);

/// HMAC-SHA-256 (RFC 2104) as 64 digits: it cannot be forged without the key.
std::string hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message);

/// Compares a file's digest, of the kind that `expected` has the length of. Throws Error naming the file when
/// they differ or it cannot be read.
void check_digest(const std::filesystem::path& path, const std::string& expected);

}  // namespace detent
