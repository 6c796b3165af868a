#include "detent/kernels/linear_codes.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/linear_codes.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Code>
HWY_INLINE void CodesOf(const float* values, float scale, float zero, Code* codes, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> integers;
  const hn::Rebind<Code, decltype(d)> of_codes;
  const auto low = hn::Set(d, static_cast<float>(std::numeric_limits<Code>::min()));
  const auto high = hn::Set(d, static_cast<float>(std::numeric_limits<Code>::max()));
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto steps = hn::Round(hn::Div(hn::LoadU(d, values + i), hn::Set(d, scale)));
    const auto code = hn::Add(steps, hn::Set(d, zero));
    const auto held = hn::Min(hn::Max(hn::IfThenZeroElse(hn::IsNaN(code), code), low), high);
    hn::StoreU(hn::DemoteTo(of_codes, hn::ConvertTo(integers, held)), of_codes, codes + i);
  }
  for (; i < count; ++i) codes[i] = code_of<Code>(values[i], scale, zero);
}

template <class Code>
HWY_INLINE void ValuesOf(const Code* codes, float scale, int32_t zero, float* values, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> integers;
  const hn::Rebind<Code, decltype(d)> of_codes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto code = hn::PromoteTo(integers, hn::LoadU(of_codes, codes + i));
    const auto steps = hn::ConvertTo(d, hn::Sub(code, hn::Set(integers, zero)));
    hn::StoreU(hn::Mul(steps, hn::Set(d, scale)), d, values + i);
  }
  for (; i < count; ++i) values[i] = value_of(codes[i], scale, zero);
}

void CodesOfUInt8(const float* values, float scale, float zero, uint8_t* codes, int64_t count) {
  CodesOf(values, scale, zero, codes, count);
}
void CodesOfInt8(const float* values, float scale, float zero, int8_t* codes, int64_t count) {
  CodesOf(values, scale, zero, codes, count);
}
void CodesOfInt16(const float* values, float scale, float zero, int16_t* codes, int64_t count) {
  CodesOf(values, scale, zero, codes, count);
}
void ValuesOfUInt8(const uint8_t* codes, float scale, int32_t zero, float* values, int64_t count) {
  ValuesOf(codes, scale, zero, values, count);
}
void ValuesOfInt8(const int8_t* codes, float scale, int32_t zero, float* values, int64_t count) {
  ValuesOf(codes, scale, zero, values, count);
}
void ValuesOfInt16(const int16_t* codes, float scale, int32_t zero, float* values, int64_t count) {
  ValuesOf(codes, scale, zero, values, count);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(CodesOfUInt8);
HWY_EXPORT(CodesOfInt8);
HWY_EXPORT(CodesOfInt16);
HWY_EXPORT(ValuesOfUInt8);
HWY_EXPORT(ValuesOfInt8);
HWY_EXPORT(ValuesOfInt16);

void codes_of(const float* values, float scale, float zero, uint8_t* codes, int64_t count) {
  HWY_DYNAMIC_DISPATCH(CodesOfUInt8)(values, scale, zero, codes, count);
}
void codes_of(const float* values, float scale, float zero, int8_t* codes, int64_t count) {
  HWY_DYNAMIC_DISPATCH(CodesOfInt8)(values, scale, zero, codes, count);
}
void codes_of(const float* values, float scale, float zero, int16_t* codes, int64_t count) {
  HWY_DYNAMIC_DISPATCH(CodesOfInt16)(values, scale, zero, codes, count);
}
void values_of(const uint8_t* codes, float scale, int32_t zero, float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ValuesOfUInt8)(codes, scale, zero, values, count);
}
void values_of(const int8_t* codes, float scale, int32_t zero, float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ValuesOfInt8)(codes, scale, zero, values, count);
}
void values_of(const int16_t* codes, float scale, int32_t zero, float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(ValuesOfInt16)(codes, scale, zero, values, count);
}

}  // namespace detent
#endif  // HWY_ONCE
