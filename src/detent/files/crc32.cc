#include "detent/files/checksums.h"

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace detent {
namespace {

uint32_t crc32_by_zlib(uint32_t crc, std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

#if defined(__x86_64__)

constexpr size_t kLane = 16;
constexpr size_t kBlock = 4 * kLane;

// V. Gopal et al., Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction, Intel 2009. A
// register of 128 bits is moved over n further bits of message by multiplying its halves with x^(n+64) and
// x^n modulo the polynomial; the constants (reflected, so shifted by one) are those of its last section.

__attribute__((target("pclmul,sse4.1"))) inline __m128i fold(__m128i value, __m128i next, __m128i factors) {
  const __m128i low = _mm_clmulepi64_si128(value, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

inline __m128i load_lanes(const std::byte* data) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(data));
}

/// Takes at least kBlock bytes, a multiple of kLane. `crc` is the inverted state.
__attribute__((target("pclmul,sse4.1"))) uint32_t crc32_folded(uint32_t crc,
                                                               std::span<const std::byte> bytes) {
  const __m128i by_block = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);  // x^(512-32), x^(512+32)
  const __m128i by_lane = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);   // x^(128-32), x^(128+32)
  const std::byte* data = bytes.data();
  const std::byte* end = data + bytes.size();
  __m128i lanes[4];
  for (size_t i = 0; i < 4; ++i) lanes[i] = load_lanes(data + i * kLane);
  lanes[0] = _mm_xor_si128(lanes[0], _mm_cvtsi32_si128(static_cast<int>(crc)));
  for (data += kBlock; static_cast<size_t>(end - data) >= kBlock; data += kBlock) {
    for (size_t i = 0; i < 4; ++i) lanes[i] = fold(lanes[i], load_lanes(data + i * kLane), by_block);
  }
  __m128i rest = lanes[0];
  for (size_t i = 1; i < 4; ++i) rest = fold(rest, lanes[i], by_lane);
  for (; data != end; data += kLane) rest = fold(rest, load_lanes(data), by_lane);
  // The register is a message of 16 bytes with the same remainder: no shorter way is worth its code.
  std::byte last[kLane];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(last), rest);
  return ~crc32_by_zlib(~uint32_t{0}, last);
}

bool has_carry_less_multiplication() {
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
}

#endif

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes) {
#if defined(__x86_64__)
  static const bool fast = has_carry_less_multiplication();
  if (fast && bytes.size() >= kBlock) {
    const size_t folded = bytes.size() / kLane * kLane;
    const uint32_t state = crc32_folded(~uint32_t{0}, bytes.first(folded));
    return crc32_by_zlib(~state, bytes.subspan(folded));
  }
#endif
  return crc32_by_zlib(0, bytes);
}

}  // namespace detent
