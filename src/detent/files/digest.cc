#include "detent/files/checksums.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <limits>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/loaded_library.h"

namespace detent {
namespace {

/// libcrypto, not linked: to load it takes longer than most commands take to start.
struct Crypto {
  decltype(&EVP_md5) md5;
  decltype(&EVP_sha256) sha256;
  decltype(&EVP_Digest) digest;
  decltype(&HMAC) hmac;
};

Crypto load_crypto() {
  const LoadedLibrary library("libcrypto.so.3", "digests need OpenSSL (package libssl3)");
  Crypto crypto{};
  library.find("EVP_md5", crypto.md5);
  library.find("EVP_sha256", crypto.sha256);
  library.find("EVP_Digest", crypto.digest);
  library.find("HMAC", crypto.hmac);
  return crypto;
}

const Crypto& crypto_library() {
  static const Crypto kLibrary = load_crypto();
  return kLibrary;
}

constexpr size_t kMd5Digits = 32;
constexpr size_t kSha256Digits = 64;

const char* name_of(DigestKind kind) { return kind == DigestKind::kMd5 ? "MD5" : "SHA-256"; }

using DigestBytes = std::array<unsigned char, EVP_MAX_MD_SIZE>;

std::string hexadecimal(const DigestBytes& bytes, unsigned size) {
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

}  // namespace

std::string digest(DigestKind kind, std::span<const std::byte> bytes) {
  const Crypto& crypto = crypto_library();
  DigestBytes result{};
  unsigned size = 0;
  const EVP_MD* function = kind == DigestKind::kMd5 ? crypto.md5() : crypto.sha256();
  // Where the system allows only some digests, MD5 is none of them.
  if (crypto.digest(bytes.data(), bytes.size(), result.data(), &size, function, nullptr) != 1)
    fail("OpenSSL computes no {} on this system", name_of(kind));
  return hexadecimal(result, size);
}

std::string hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  const Crypto& crypto = crypto_library();
  DETENT_CHECK(key.size() <= size_t{std::numeric_limits<int>::max()}, "a key of {} bytes", key.size());
  static constexpr unsigned char kNothing = 0;  // a key at nullptr would be the last call's
  const void* key_bytes = key.empty() ? static_cast<const void*>(&kNothing) : key.data();
  DigestBytes result{};
  unsigned size = 0;
  if (crypto.hmac(crypto.sha256(), key_bytes, static_cast<int>(key.size()),
                  reinterpret_cast<const unsigned char*>(message.data()), message.size(), result.data(),
                  &size) == nullptr)
    fail("OpenSSL computes no HMAC-SHA-256 on this system");
  return hexadecimal(result, size);
}

void check_digest(const std::filesystem::path& path, const std::string& expected) {
  DETENT_CHECK(expected.size() == kMd5Digits || expected.size() == kSha256Digits, "digest \"{}\"", expected);
  const DigestKind kind = expected.size() == kMd5Digits ? DigestKind::kMd5 : DigestKind::kSha256;
  const std::string actual = digest(kind, map_file(path)->bytes());
  if (actual != expected)
    fail("{}: its {} is {}, expected {}", path.string(), name_of(kind), actual, expected);
}

}  // namespace detent
