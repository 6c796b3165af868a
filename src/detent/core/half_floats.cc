#include "detent/core/convert.h"

#include <bit>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/core/half_floats.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::ScalableTag<int32_t>;
using Word = hn::VFromD<Words>;
using Halves = hn::Rebind<uint16_t, Words>;
using WordFloats = hn::RebindToFloat<Words>;

/// The exponents of float32 are so much larger.
constexpr int32_t kRebias = (127 - 15) << 23;

HWY_INLINE Word Splat(int32_t bits) { return hn::Set(Words(), bits); }

HWY_INLINE Word OfFloat16(Word half) {
  const Words d;
  const WordFloats f;
  const Word exponents = Splat(31 << 23);
  const Word sign = hn::ShiftLeft<16>(hn::And(half, Splat(0x8000)));
  const Word size = hn::ShiftLeft<13>(hn::And(half, Splat(0x7FFF)));
  const Word exponent = hn::And(size, exponents);
  const Word normal = hn::Add(size, Splat(kRebias));
  const Word special = hn::Add(size, Splat(2 * kRebias));
  // 1 + mantissa, less 1, in units of the least normal number.
  const Word above = hn::Add(size, Splat(kRebias + (1 << 23)));
  const Word subnormal = hn::BitCast(d, hn::Sub(hn::BitCast(f, above), hn::Set(f, 0x1p-14F)));
  const Word finite = hn::IfThenElse(hn::Eq(exponent, hn::Zero(d)), subnormal, normal);
  return hn::Or(sign, hn::IfThenElse(hn::Eq(exponent, exponents), special, finite));
}

/// As float_to_float16().
HWY_INLINE Word ToFloat16(Word bits) {
  const Words d;
  const WordFloats f;
  const auto half = hn::Set(f, 0.5F);
  const Word sign = hn::And(hn::ShiftRight<16>(bits), Splat(0x8000));
  const Word size = hn::And(bits, Splat(0x7FFFFFFF));
  const Word odd = hn::And(hn::ShiftRight<13>(bits), Splat(1));
  const Word rounded = hn::Add(hn::Add(size, odd), Splat(0xFFF - kRebias));
  const Word steps = hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(f, size), half)), hn::BitCast(d, half));
  Word result = hn::IfThenElse(hn::Lt(size, Splat(kRebias + (1 << 23))), steps, hn::ShiftRight<13>(rounded));
  result = hn::IfThenElse(hn::Lt(size, Splat(std::bit_cast<int32_t>(65520.0F))), result, Splat(0x7C00));
  result = hn::IfThenElse(hn::Gt(size, Splat(0x7F800000)), Splat(0x7E00), result);
  return hn::Or(sign, result);
}

HWY_INLINE Word ToBFloat16(Word bits) {
  const Word odd = hn::And(hn::ShiftRight<16>(bits), Splat(1));
  const Word rounded = hn::Add(hn::Add(bits, odd), Splat(0x7FFF));
  const auto is_nan = hn::Gt(hn::And(bits, Splat(0x7FFFFFFF)), Splat(0x7F800000));
  const Word upper = hn::ShiftRight<16>(hn::IfThenElse(is_nan, hn::Or(bits, Splat(0x40 << 16)), rounded));
  return hn::And(upper, Splat(0xFFFF));
}

template <class Map, class One>
HWY_INLINE void Widen(const uint16_t* halves, float* floats, size_t count, Map map, One one) {
  const Words d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const Word bits = map(hn::PromoteTo(d, hn::LoadU(Halves(), halves + i)));
    hn::StoreU(hn::BitCast(WordFloats(), bits), WordFloats(), floats + i);
  }
  for (; i < count; ++i) floats[i] = one(halves[i]);
}

template <class Map, class One>
HWY_INLINE void Shorten(const float* floats, uint16_t* halves, size_t count, Map map, One one) {
  const Words d;
  size_t i = 0;
  for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    const Word bits = map(hn::BitCast(d, hn::LoadU(WordFloats(), floats + i)));
    hn::StoreU(hn::DemoteTo(Halves(), bits), Halves(), halves + i);
  }
  for (; i < count; ++i) halves[i] = one(floats[i]);
}

void FloatsOfFloat16(const uint16_t* halves, float* floats, size_t count) {
  Widen(
      halves, floats, count, [](Word half) HWY_ATTR { return OfFloat16(half); }, float16_to_float);
}
void Float16OfFloats(const float* floats, uint16_t* halves, size_t count) {
  Shorten(
      floats, halves, count, [](Word bits) HWY_ATTR { return ToFloat16(bits); }, float_to_float16);
}
void FloatsOfBFloat16(const uint16_t* halves, float* floats, size_t count) {
  Widen(
      halves, floats, count, [](Word half) HWY_ATTR { return hn::ShiftLeft<16>(half); }, bfloat16_to_float);
}
void BFloat16OfFloats(const float* floats, uint16_t* halves, size_t count) {
  Shorten(
      floats, halves, count, [](Word bits) HWY_ATTR { return ToBFloat16(bits); }, float_to_bfloat16);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(FloatsOfFloat16);
HWY_EXPORT(Float16OfFloats);
HWY_EXPORT(FloatsOfBFloat16);
HWY_EXPORT(BFloat16OfFloats);

float float16_to_float(uint16_t bits) {
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  if (exponent == 31) {
    const uint32_t wide =
        (static_cast<uint32_t>(bits & 0x8000) << 16) | 0x7F800000U | (static_cast<uint32_t>(mantissa) << 13);
    return std::bit_cast<float>(wide);
  }
  return sign * std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
}

uint16_t float_to_float16(float value) {
  constexpr float kLeastNormal = 0x1p-14F;
  constexpr float kBeyond = 65520;  // what rounds to infinity
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float size = std::fabs(value);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7E00);
  if (size >= kBeyond) return static_cast<uint16_t>(sign | 0x7C00);
  if (size < kLeastNormal) {  // a multiple of 2^-24, by the sum's rounding
    const uint32_t steps = std::bit_cast<uint32_t>(size + 0.5F) - std::bit_cast<uint32_t>(0.5F);
    return static_cast<uint16_t>(sign | steps);
  }
  const uint32_t rounded = (bits & 0x7FFFFFFF) + 0xFFF + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - ((127U - 15) << 23)) >> 13);
}

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void floats_of_float16(const uint16_t* halves, float* floats, size_t count) {
  HWY_DYNAMIC_DISPATCH(FloatsOfFloat16)(halves, floats, count);
}
void float16_of_floats(const float* floats, uint16_t* halves, size_t count) {
  HWY_DYNAMIC_DISPATCH(Float16OfFloats)(floats, halves, count);
}
void floats_of_bfloat16(const uint16_t* halves, float* floats, size_t count) {
  HWY_DYNAMIC_DISPATCH(FloatsOfBFloat16)(halves, floats, count);
}
void bfloat16_of_floats(const float* floats, uint16_t* halves, size_t count) {
  HWY_DYNAMIC_DISPATCH(BFloat16OfFloats)(floats, halves, count);
}

}  // namespace detent
#endif  // HWY_ONCE
