#include "detent/formats/measure/distortion.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/measure/difference_sums.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// C[lane] += x y for five products of a pair, in doubles: four lanes are one register of AVX2, two of SSE2.
// The sums' latency of 4 cycles bounds the loop, a cycle a pair.

using Doubles = hn::CappedTag<double, DifferenceSums::kLanes>;
using Floats = hn::Rebind<float, Doubles>;
using DoublesVec = hn::VFromD<Doubles>;

constexpr size_t kBlock = kDifferenceBlock;
constexpr size_t kWidth = hn::MaxLanes(Doubles());
constexpr size_t kVectors = DifferenceSums::kLanes / kWidth;

HWY_INLINE bool AreFinite(const float* values) {
  const hn::ScalableTag<uint32_t> d;
  const auto magnitude = hn::Set(d, 0x7FFFFFFFU);
  auto largest = hn::Zero(d);
  for (size_t i = 0; i < kBlock; i += hn::Lanes(d)) {
    const auto bits = hn::BitCast(d, hn::LoadU(hn::Rebind<float, decltype(d)>(), values + i));
    largest = hn::Max(largest, hn::And(bits, magnitude));
  }
  constexpr uint32_t kInfinity = 0x7F800000;
  return hn::AllTrue(d, hn::Lt(largest, hn::Set(d, kInfinity)));
}

HWY_INLINE void AddTo(DoublesVec* sums, size_t vector, DoublesVec a, DoublesVec b) {
  sums[vector] = hn::Add(sums[vector], hn::Mul(a, b));
}

struct Registers {
  DoublesVec signal[kVectors], noise[kVectors], product[kVectors], power[kVectors], largest[kVectors];

  template <class Visit>
  HWY_INLINE void ForEach(DifferenceSums& sums, const Visit& visit) {
    for (size_t v = 0; v < kVectors; ++v) {
      visit(signal[v], sums.signal.data() + v * kWidth);
      visit(noise[v], sums.noise.data() + v * kWidth);
      visit(product[v], sums.product.data() + v * kWidth);
      visit(power[v], sums.power.data() + v * kWidth);
      visit(largest[v], sums.largest.data() + v * kWidth);
    }
  }

  HWY_INLINE void AddBlock(const float* original, const float* quantized) {
    const Doubles d;
    const Floats floats;
    for (size_t i = 0; i < kBlock; i += DifferenceSums::kLanes) {
      for (size_t v = 0; v < kVectors; ++v) {
        const auto x = hn::PromoteTo(d, hn::LoadU(floats, original + i + v * kWidth));
        const auto y = hn::PromoteTo(d, hn::LoadU(floats, quantized + i + v * kWidth));
        const auto error = hn::Sub(x, y);
        AddTo(signal, v, x, x);
        AddTo(noise, v, error, error);
        AddTo(product, v, x, y);
        AddTo(power, v, y, y);
        largest[v] = hn::Max(largest[v], hn::Abs(error));
      }
    }
  }
};

HWY_INLINE int64_t CountZeros(const float* values) {
  const hn::ScalableTag<float> d;
  size_t count = 0;
  for (size_t i = 0; i < kBlock; i += hn::Lanes(d))
    count += hn::CountTrue(d, hn::Eq(hn::LoadU(d, values + i), hn::Zero(d)));
  return static_cast<int64_t>(count);
}

}  // namespace

int64_t AddFiniteBlocks(const float* original, const float* quantized, int64_t size, DifferenceSums& sums) {
  const Doubles d;
  Registers registers;
  registers.ForEach(sums, [d](DoublesVec& vector, const double* lanes) { vector = hn::LoadU(d, lanes); });
  int64_t i = 0;
  for (; i + kDifferenceBlock <= size; i += kDifferenceBlock) {
    if (!AreFinite(original + i) || !AreFinite(quantized + i)) break;
    registers.AddBlock(original + i, quantized + i);
    sums.zeros += CountZeros(quantized + i);
  }
  registers.ForEach(sums, [d](DoublesVec& vector, double* lanes) { hn::StoreU(vector, d, lanes); });
  return i;
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AddFiniteBlocks);

int64_t add_finite_blocks(const float* original, const float* quantized, int64_t size, DifferenceSums& sums) {
  return HWY_DYNAMIC_DISPATCH(AddFiniteBlocks)(original, quantized, size, sums);
}

int64_t add_finite_blocks_reference(const float* original, const float* quantized, int64_t size,
                                    DifferenceSums& sums) {
  const auto is_finite = [](float x) { return std::isfinite(x); };
  int64_t i = 0;
  for (; i + kDifferenceBlock <= size; i += kDifferenceBlock) {
    if (!std::all_of(original + i, original + i + kDifferenceBlock, is_finite)) break;
    if (!std::all_of(quantized + i, quantized + i + kDifferenceBlock, is_finite)) break;
    for (int64_t k = i; k < i + kDifferenceBlock; ++k) {
      const size_t lane = static_cast<size_t>(k) % DifferenceSums::kLanes;
      const auto x = static_cast<double>(original[k]);
      const auto y = static_cast<double>(quantized[k]);
      sums.signal[lane] += x * x;
      sums.noise[lane] += (x - y) * (x - y);
      sums.product[lane] += x * y;
      sums.power[lane] += y * y;
      sums.largest[lane] = std::max(sums.largest[lane], std::fabs(x - y));
      sums.zeros += y == 0 ? 1 : 0;
    }
  }
  return i;
}

}  // namespace detent
#endif  // HWY_ONCE
