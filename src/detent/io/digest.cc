#include "detent/io/digest.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/io/file.h"

namespace detent {
namespace {

constexpr size_t kDigestBlock = 64;
constexpr size_t kWords = kDigestBlock / sizeof(uint32_t);

using Block = std::array<uint32_t, kWords>;

/// RFC 1321.
struct Md5 {
  static constexpr bool kBigEndian = false;
  std::array<uint32_t, 4> state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};

  /// floor(2^32 |sin(i + 1)|): a double has 20 bits more than are kept.
  static std::array<uint32_t, 64> sines() {
    std::array<uint32_t, 64> result{};
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = static_cast<uint32_t>(std::floor(std::abs(std::sin(static_cast<double>(i + 1))) * 0x1p32));
    }
    return result;
  }

  void add(const Block& block) {
    static const std::array<uint32_t, 64> kSines = sines();
    constexpr int kShifts[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    auto [a, b, c, d] = state;
    for (size_t i = 0; i < 64; ++i) {
      const size_t round = i / 16;
      const uint32_t mixed = round == 0   ? (b & c) | (~b & d)
                             : round == 1 ? (b & d) | (c & ~d)
                             : round == 2 ? b ^ c ^ d
                                          : c ^ (b | ~d);
      constexpr size_t kStep[] = {1, 5, 3, 7};
      constexpr size_t kStart[] = {0, 1, 5, 0};
      const uint32_t word = block[(kStep[round] * i + kStart[round]) % kWords];
      const uint32_t next = b + std::rotl(a + mixed + kSines[i] + word, kShifts[round][i % 4]);
      a = d;
      d = c;
      c = b;
      b = next;
    }
    state = {state[0] + a, state[1] + b, state[2] + c, state[3] + d};
  }
};

/// FIPS 180-4, 6.2.
struct Sha256 {
  static constexpr bool kBigEndian = true;
  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

  /// The first 32 fraction bits of the cube roots of the first 64 primes.
  static std::array<uint32_t, 64> cube_roots() {
    std::array<uint32_t, 64> result{};
    size_t count = 0;
    for (uint32_t n = 2; count < result.size(); ++n) {
      bool prime = true;
      for (uint32_t divisor = 2; divisor * divisor <= n; ++divisor) prime = prime && n % divisor != 0;
      if (!prime) continue;
      const double root = std::cbrt(static_cast<double>(n));
      result[count++] = static_cast<uint32_t>(std::floor((root - std::floor(root)) * 0x1p32));
    }
    return result;
  }

  void add(const Block& block) {
    static const std::array<uint32_t, 64> kRoots = cube_roots();
    std::array<uint32_t, 64> words{};
    std::copy(block.begin(), block.end(), words.begin());
    for (size_t i = kWords; i < words.size(); ++i) {
      const uint32_t x = words[i - 15];
      const uint32_t y = words[i - 2];
      words[i] = words[i - 16] + (std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3)) + words[i - 7] +
                 (std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (size_t i = 0; i < words.size(); ++i) {
      const uint32_t first = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                             ((e & f) ^ (~e & g)) + kRoots[i] + words[i];
      const uint32_t second =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + first;
      d = c;
      c = b;
      b = a;
      a = first + second;
    }
    const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
  }
};

/// Whole blocks, then the end: 0x80, zeros, the number of bits.
template <class Hash>
Hash hash_of(std::span<const std::byte> bytes) {
  Hash hash;
  const auto add = [&](const std::byte* data) {
    Block block;
    std::memcpy(block.data(), data, kDigestBlock);
    if (Hash::kBigEndian) {
      for (uint32_t& word : block) word = __builtin_bswap32(word);
    }
    hash.add(block);
  };
  const size_t whole = bytes.size() / kDigestBlock * kDigestBlock;
  for (size_t i = 0; i < whole; i += kDigestBlock) add(bytes.data() + i);
  std::array<std::byte, 2 * kDigestBlock> end{};
  const size_t rest = bytes.size() - whole;
  if (rest > 0) std::memcpy(end.data(), bytes.data() + whole, rest);
  end[rest] = std::byte{0x80};
  const size_t end_bytes = rest + 1 + sizeof(uint64_t) <= kDigestBlock ? kDigestBlock : 2 * kDigestBlock;
  const uint64_t bits = Hash::kBigEndian ? __builtin_bswap64(bytes.size() * 8) : bytes.size() * 8;
  std::memcpy(end.data() + end_bytes - sizeof(bits), &bits, sizeof(bits));
  for (size_t i = 0; i < end_bytes; i += kDigestBlock) add(end.data() + i);
  return hash;
}

template <class Hash>
std::string run(std::span<const std::byte> bytes) {
  const Hash hash = hash_of<Hash>(bytes);
  std::string text;
  for (const uint32_t word : hash.state)
    text += fmt::format("{:08x}", Hash::kBigEndian ? word : __builtin_bswap32(word));
  return text;
}

constexpr size_t kMd5Digits = 32;
constexpr size_t kSha256Digits = 64;

}  // namespace

std::string digest(DigestKind kind, std::span<const std::byte> bytes) {
  return kind == DigestKind::kMd5 ? run<Md5>(bytes) : run<Sha256>(bytes);
}

std::string hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> message) {
  const auto bytes_of_hash = [](std::span<const std::byte> bytes) {
    std::array<uint32_t, 8> words = hash_of<Sha256>(bytes).state;
    for (uint32_t& word : words) word = __builtin_bswap32(word);
    return words;
  };
  std::array<std::byte, kDigestBlock> padded{};
  if (key.size() <= kDigestBlock) {
    std::ranges::copy(key, padded.begin());
  } else {
    const auto hashed = bytes_of_hash(key);
    std::ranges::copy(std::as_bytes(std::span(hashed)), padded.begin());
  }
  const auto keyed = [&](std::byte mask, std::span<const std::byte> text) {
    std::vector<std::byte> all;
    for (const std::byte byte : padded) all.push_back(byte ^ mask);
    all.insert(all.end(), text.begin(), text.end());
    return all;
  };
  const auto inner = bytes_of_hash(keyed(std::byte{0x36}, message));
  return run<Sha256>(keyed(std::byte{0x5c}, std::as_bytes(std::span(inner))));
}

void check_digest(const std::filesystem::path& path, const std::string& expected) {
  DETENT_CHECK(expected.size() == kMd5Digits || expected.size() == kSha256Digits, "digest \"{}\"", expected);
  const bool is_md5 = expected.size() == kMd5Digits;
  const std::string actual = digest(is_md5 ? DigestKind::kMd5 : DigestKind::kSha256, map_file(path)->bytes());
  if (actual != expected) {
    fail("{}: its {} is {}, expected {}", path.string(), is_md5 ? "MD5" : "SHA-256", actual, expected);
  }
}

}  // namespace detent
