#include <algorithm>
#include <cstring>

#include "detent/kernels/tensor_layout.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/channel_layout.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to[i * to_step + j] = from[j * from_step + i] of 4 x 4 elements.
HWY_INLINE void TransposeFour(const float* from, int64_t from_step, float* to, int64_t to_step) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4; ++j) to[i * to_step + j] = from[j * from_step + i];
  }
#else
  const hn::Full128<float> d;
  const hn::Full128<double> pairs;
  const auto a = hn::LoadU(d, from);
  const auto b = hn::LoadU(d, from + from_step);
  const auto c = hn::LoadU(d, from + 2 * from_step);
  const auto e = hn::LoadU(d, from + 3 * from_step);
  const auto as_pairs = [&](auto v) HWY_ATTR { return hn::BitCast(pairs, v); };
  const auto low_ab = as_pairs(hn::InterleaveLower(d, a, b));
  const auto high_ab = as_pairs(hn::InterleaveUpper(d, a, b));
  const auto low_ce = as_pairs(hn::InterleaveLower(d, c, e));
  const auto high_ce = as_pairs(hn::InterleaveUpper(d, c, e));
  const auto store = [&](auto v, int64_t row)
                         HWY_ATTR { hn::StoreU(hn::BitCast(d, v), d, to + row * to_step); };
  store(hn::InterleaveLower(pairs, low_ab, low_ce), 0);
  store(hn::InterleaveUpper(pairs, low_ab, low_ce), 1);
  store(hn::InterleaveLower(pairs, high_ab, high_ce), 2);
  store(hn::InterleaveUpper(pairs, high_ab, high_ce), 3);
#endif
}

/// to[i * to_step + j] = from[j * from_step + i], i < rows, j < columns.
void Transpose(const float* from, int64_t from_step, int64_t rows, int64_t columns, float* to,
               int64_t to_step) {
  const int64_t whole_rows = rows / 4 * 4;
  const int64_t whole_columns = columns / 4 * 4;
  const auto element = [&](int64_t i, int64_t j) { to[i * to_step + j] = from[j * from_step + i]; };
  for (int64_t i = 0; i < whole_rows; i += 4) {
    for (int64_t j = 0; j < whole_columns; j += 4)
      TransposeFour(from + j * from_step + i, from_step, to + i * to_step + j, to_step);
    for (int64_t j = whole_columns; j < columns; ++j) {
      for (int64_t k = 0; k < 4; ++k) element(i + k, j);
    }
  }
  for (int64_t i = whole_rows; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) element(i, j);
  }
}

/// Fewer than 16 bytes.
HWY_INLINE void CopySome(const uint8_t* from, int64_t count, uint8_t* to) {
  if (count >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + count - 8, from + count - 8, 8);
  } else if (count >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + count - 4, from + count - 4, 4);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
  }
}

/// The same of at most 16 x 16 bytes, each with some bits flipped.
HWY_INLINE void TransposeSixteen(const uint8_t* from, int64_t from_step, int64_t rows, int64_t columns,
                                 uint8_t* to, int64_t to_step, uint8_t flip) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j)
      to[i * to_step + j] = static_cast<uint8_t>(from[j * from_step + i] ^ flip);
  }
#else
  const hn::Full128<uint8_t> d;
  using V = hn::Vec<decltype(d)>;
  const V flips = hn::Set(d, flip);
  V block[16];
  V next[16];
#pragma GCC unroll 16
  for (int64_t j = 0; j < 16; ++j) {
    const uint8_t* const row = from + std::min(j, columns - 1) * from_step;
    alignas(16) uint8_t some[16] = {};
    if (rows < 16) CopySome(row, rows, some);
    block[j] = hn::Xor(hn::LoadU(d, rows < 16 ? some : row), flips);
  }
  // Each time the highest bit of the row's number becomes the lowest of the column's.
#pragma GCC unroll 4
  for (int stage = 0; stage < 4; ++stage) {
#pragma GCC unroll 8
    for (int64_t j = 0; j < 8; ++j) {
      next[2 * j] = hn::InterleaveLower(d, block[j], block[j + 8]);
      next[2 * j + 1] = hn::InterleaveUpper(d, block[j], block[j + 8]);
    }
#pragma GCC unroll 16
    for (int64_t j = 0; j < 16; ++j) block[j] = next[j];
  }
#pragma GCC unroll 16
  for (int64_t i = 0; i < 16; ++i) {
    if (i == rows) break;
    uint8_t* const row = to + i * to_step;
    if (columns == 16) {
      hn::StoreU(block[i], d, row);
      continue;
    }
    alignas(16) uint8_t some[16];
    hn::Store(block[i], d, some);
    CopySome(some, columns, row);
  }
#endif
}

void TransposeBytes(const uint8_t* from, int64_t from_step, int64_t rows, int64_t columns, uint8_t* to,
                    int64_t to_step, uint8_t flip) {
  constexpr int64_t kSide = 16;
  for (int64_t i = 0; i < rows; i += kSide) {
    for (int64_t j = 0; j < columns; j += kSide)
      TransposeSixteen(from + j * from_step + i, from_step, std::min(kSide, rows - i),
                       std::min(kSide, columns - j), to + i * to_step + j, to_step, flip);
  }
}

/// Three planes, as of an image.
void InterleaveThree(const float* from, int64_t plane, int64_t positions, float* to) {
  int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; x + lanes <= positions; x += lanes)
    hn::StoreInterleaved3(hn::LoadU(d, from + x), hn::LoadU(d, from + plane + x),
                          hn::LoadU(d, from + 2 * plane + x), d, to + 3 * x);
#endif
  for (; x < positions; ++x) {
    for (int64_t c = 0; c < 3; ++c) to[3 * x + c] = from[c * plane + x];
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(Transpose);
HWY_EXPORT(TransposeBytes);
HWY_EXPORT(InterleaveThree);

void transpose_bytes(const uint8_t* from, int64_t from_step, int64_t rows, int64_t columns, uint8_t* to,
                     int64_t to_step, uint8_t flip) {
  HWY_DYNAMIC_DISPATCH(TransposeBytes)(from, from_step, rows, columns, to, to_step, flip);
}

void channels_to_last(const float* from, int64_t plane, int64_t channels, int64_t positions, float* to) {
  if (channels == 1) {
    std::copy_n(from, positions, to);
    return;
  }
  if (channels == 3) return HWY_DYNAMIC_DISPATCH(InterleaveThree)(from, plane, positions, to);
  HWY_DYNAMIC_DISPATCH(Transpose)(from, plane, positions, channels, to, channels);
}

void channels_to_front(const float* from, int64_t channels, int64_t positions, float* to, int64_t plane) {
  channels_to_front(from, channels, channels, positions, to, plane);
}

void channels_to_front(const float* from, int64_t step, int64_t channels, int64_t positions, float* to,
                       int64_t plane) {
  if (channels == 1 && step == 1) {
    std::copy_n(from, positions, to);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Transpose)(from, step, channels, positions, to, plane);
}

}  // namespace detent
#endif  // HWY_ONCE
