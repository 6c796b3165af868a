#include "detent/inference/recurrent_gates.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/inference/recurrent_gates.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/kernels/interleaved-inl.h"
#include "detent/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Sums of gates, with their inputs, become sigmoids.
HWY_INLINE void ApplySigmoids(const RecurrentSample& s, int64_t count) {
  Apply(
      SigmoidFunction(), count, [&](const auto& at) HWY_ATTR { return at.Sum(s.inputs, s.sums); },
      [&](HalfVec result, const auto& at) HWY_ATTR { at.Store(result, s.sums); });
}

void RnnGates(int64_t hidden, const RecurrentSample& s) {
  Apply(
      TanhFunction(), hidden, [&](const auto& at) HWY_ATTR { return at.Sum(s.inputs, s.sums); },
      [&](HalfVec result, const auto& at) HWY_ATTR { at.Store(result, s.state); });
}

void LstmGates(int64_t hidden, const RecurrentSample& s) {
  ApplySigmoids(s, 3 * hidden);
  const float* const i = s.sums;
  const float* const o = i + hidden;
  const float* const f = o + hidden;
  const float* const g = f + hidden;
  const float* const inputs = s.inputs + 3 * hidden;
  Apply(
      TanhFunction(), hidden, [&](const auto& at) HWY_ATTR { return at.Sum(inputs, g); },
      [&](HalfVec result, const auto& at) HWY_ATTR {
        at.Store(hn::Add(hn::Mul(at.Load(f), at.Load(s.cell)), hn::Mul(at.Load(i), result)), s.cell);
      });
  Apply(
      TanhFunction(), hidden, [&](const auto& at) HWY_ATTR { return at.Load(s.cell); },
      [&](HalfVec result, const auto& at) HWY_ATTR { at.Store(hn::Mul(at.Load(o), result), s.state); });
}

/// h = (1 - z) candidate + z h
template <class Elements>
HWY_INLINE HalfVec Mixed(HalfVec candidate, const RecurrentSample& s, const Elements& at) {
  const HalfVec z = at.Load(s.sums);
  return hn::Add(hn::Mul(hn::Sub(hn::Set(HalfSingles(), 1.0F), z), candidate), hn::Mul(z, at.Load(s.state)));
}

void GruGates(int64_t hidden, const RecurrentSample& s) {
  ApplySigmoids(s, 2 * hidden);
  const float* const r = s.sums + hidden;
  const float* const inputs = s.inputs + 2 * hidden;
  Apply(
      TanhFunction(), hidden,
      [&](const auto& at)
          HWY_ATTR { return hn::Add(at.Load(inputs), hn::Mul(at.Load(r), at.Load(s.candidate))); },
      [&](HalfVec result, const auto& at) HWY_ATTR { at.Store(Mixed(result, s, at), s.state); });
}

void GruResetGates(int64_t hidden, const RecurrentSample& s) {
  ApplySigmoids(s, hidden);
  const float* const inputs = s.inputs + hidden;
  const float* const sums = s.sums + hidden;
  Apply(
      SigmoidFunction(), hidden, [&](const auto& at) HWY_ATTR { return at.Sum(inputs, sums); },
      [&](HalfVec result, const auto& at) HWY_ATTR { at.Store(hn::Mul(result, at.Load(s.state)), s.reset); });
}

void GruLastGate(int64_t hidden, const RecurrentSample& s) {
  const float* const inputs = s.inputs + 2 * hidden;
  Apply(
      TanhFunction(), hidden, [&](const auto& at) HWY_ATTR { return at.Sum(inputs, s.candidate); },
      [&](HalfVec result, const auto& at) HWY_ATTR { at.Store(Mixed(result, s, at), s.state); });
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(RnnGates);
HWY_EXPORT(LstmGates);
HWY_EXPORT(GruGates);
HWY_EXPORT(GruResetGates);
HWY_EXPORT(GruLastGate);

void rnn_gates(const RecurrentCell& cell, const RecurrentSample& s) {
  HWY_DYNAMIC_DISPATCH(RnnGates)(cell.hidden, s);
}
void lstm_gates(const RecurrentCell& cell, const RecurrentSample& s) {
  HWY_DYNAMIC_DISPATCH(LstmGates)(cell.hidden, s);
}
void gru_gates(const RecurrentCell& cell, const RecurrentSample& s) {
  HWY_DYNAMIC_DISPATCH(GruGates)(cell.hidden, s);
}
void gru_reset_gates(const RecurrentCell& cell, const RecurrentSample& s) {
  HWY_DYNAMIC_DISPATCH(GruResetGates)(cell.hidden, s);
}
void gru_last_gate(const RecurrentCell& cell, const RecurrentSample& s) {
  HWY_DYNAMIC_DISPATCH(GruLastGate)(cell.hidden, s);
}

}  // namespace detent
#endif  // HWY_ONCE
