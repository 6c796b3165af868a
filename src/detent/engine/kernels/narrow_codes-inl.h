// Included by target_*.cc after tiles-inl.h: weights of fewer than 8 bits, which are unpacked where they are
// multiplied.

/// Codes are weights plus this, so that they have no sign.
constexpr int Half(WeightPacking packing) { return 128 >> packing_shape(packing).shift; }

/// The digits of five weights in a byte, the first in the two highest bits, plus 1; then that of the next is.
inline Ops::V NextDigit(Ops::V& packed) {
  const Ops::V digit = Ops::Average(packed, Ops::Average(packed, Ops::SameByte(kTernaryOffset)));
  packed = Ops::AddBytes(Ops::AddBytes(packed, packed), packed);
  return digit;
}

/// The codes of one step.
template <WeightPacking kPacking, int kStep, size_t kPlanes>
HWY_INLINE Ops::V Codes(Ops::V (&packed)[kPlanes]) {
  if constexpr (kPacking == WeightPacking::kFour) {
    return Ops::Masked(Ops::Shifted<-4 * kStep>(packed[0]), 15);
  } else if constexpr (kPacking == WeightPacking::kTwo) {
    return Ops::Masked(Ops::Shifted<-2 * kStep>(packed[0]), 3);
  } else if constexpr (kPacking == WeightPacking::kTernary) {
    return Ops::Masked(Ops::Shifted<-6>(NextDigit(packed[0])), 3);
  } else if constexpr (kStep < 6) {
    return Ops::Masked(Ops::Shifted < kStep % 2 == 0 ? -5 : -2 > (packed[kStep / 2]), 7);
  } else {
    const Ops::V higher = Ops::Masked(Ops::Shifted<1>(packed[kStep - 6]), 6);
    return Ops::Or(higher, Ops::Masked(Ops::Shifted<6 - kStep>(packed[2]), 1));
  }
}

/// Negated addend of the sums of a window where weights are stored as codes: `Half` times the sum of its
/// inputs. Bits of kSigned: steps whose weights have a sign all the same.
template <WeightPacking kPacking, unsigned kSigned>
HWY_NOINLINE int32_t Excess(const WindowSums& w, const uint8_t* window) {
  constexpr int kChains = 4;
  constexpr int64_t kBytes = Ops::kBytes;
  constexpr int kSteps = packing_shape(kPacking).steps;
  static_assert(kSigned == 0 || kBytes / kStepInputs % kSteps == 0);
  alignas(64) static constexpr auto kFactors = [] {
    std::array<int8_t, size_t{kBytes}> factors{};
    for (size_t i = 0; i < factors.size(); ++i) {
      const bool has_sign = (kSigned >> (i / kStepInputs % kSteps) & 1U) != 0;
      factors[i] = static_cast<int8_t>(has_sign ? 0 : -Half(kPacking));
    }
    return factors;
  }();
  const Ops::W factors = Ops::LoadWeights(kFactors.data());
  Ops::V sums[kChains] = {Ops::Zero(), Ops::Zero(), Ops::Zero(), Ops::Zero()};
  for (int64_t run = 0; run < w.run_count; ++run) {
    const uint8_t* x = window + w.runs[run];
    int64_t rest = w.run_steps * kStepInputs;
    for (; rest >= kChains * kBytes; rest -= kChains * kBytes) {
#pragma GCC unroll 4
      for (int c = 0; c < kChains; ++c, x += kBytes)
        sums[c] = Ops::AddProducts(sums[c], Ops::Inputs(Ops::LoadBytes(x)), factors);
    }
    for (; rest >= kBytes; rest -= kBytes, x += kBytes)
      sums[0] = Ops::AddProducts(sums[0], Ops::Inputs(Ops::LoadBytes(x)), factors);
    if (rest > 0) {
      alignas(64) uint8_t last[kBytes] = {};
      std::memcpy(last, x, static_cast<size_t>(rest));
      sums[1] = Ops::AddProducts(sums[1], Ops::Inputs(Ops::LoadBytes(last)), factors);
    }
  }
  alignas(64) int32_t lanes[Ops::kLanes];
  Ops::StoreSums(Ops::Sum(Ops::Sum(sums[0], sums[1]), Ops::Sum(sums[2], sums[3])), lanes);
  int32_t sum = 0;
  for (const int32_t lane : lanes) sum += lane;
  return sum;
}

/// Calls add(at, packed) for the steps that lie together in packed weights: where the inputs of the first are
/// in a window, and [across][vector of a packing].
template <int kAcross, WeightPacking kPacking, class Add>
HWY_INLINE void ForEachPacked(const WindowSums& w, const Add& add) {
  constexpr PackingShape kShape = packing_shape(kPacking);
  const auto* weights = reinterpret_cast<const uint8_t*>(w.weights);
  for (int64_t run = 0; run < w.run_count; ++run) {
    for (int64_t step = 0; step < w.run_steps; step += kShape.steps) {
      Ops::V packed[size_t{kAcross}][size_t{kShape.vectors}];
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v) {
#pragma GCC unroll 3
        for (int p = 0; p < kShape.vectors; ++p)
          packed[v][p] = Ops::LoadBytes(weights + (p * kAcross + v) * Ops::kBytes);
      }
      weights += int64_t{kShape.vectors} * kAcross * Ops::kBytes;
      add(w.runs[run] + step * kStepInputs, packed);
    }
  }
}
