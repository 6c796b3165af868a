// Included by target_*.cc after narrow_codes-inl.h where an instruction adds four products to 32 bits.

/// Weights times 2^shift: in the high bits of bytes, of which the highest, the sign, is the other.
template <WeightPacking kPacking, int kStep, size_t kPlanes>
HWY_INLINE Ops::V HighWeights(Ops::V (&packed)[kPlanes]) {
  if constexpr (kPacking == WeightPacking::kFour) {
    return Ops::HighBits(Ops::Shifted<4 - 4 * kStep>(packed[0]), 0xF0);
  } else if constexpr (kPacking == WeightPacking::kTwo) {
    return Ops::HighBits(Ops::Shifted<6 - 2 * kStep>(packed[0]), 0xC0);
  } else if constexpr (kPacking == WeightPacking::kTernary) {
    return Ops::HighBits(NextDigit(packed[0]), 0xC0);
  } else if constexpr (kStep < 6) {
    return Ops::HighBits(Ops::Shifted<kStep % 2 * 3>(packed[kStep / 2]), 0xE0);
  } else {
    return Ops::HighBits(Ops::Shifted<5>(Codes<kPacking, kStep>(packed)), 0xE0);
  }
}

/// Where a tile of one window, which waits for nothing but unpacking, multiplies by the weights of a step: at
/// the bits of a vector where they lie (-1: moved to the lowest). Sums of different bits are different
/// chains.
struct InPlace {
  int vector;
  int bit;
  int chain;
};
constexpr InPlace in_place(WeightPacking packing, int step) {
  switch (packing) {
    case WeightPacking::kFour:
      return {0, 4 * step, step};
    case WeightPacking::kTwo:
      return {0, 2 * step, step};
    case WeightPacking::kThree:
      if (step < 6) return {step / 2, step % 2 == 0 ? 5 : 2, step % 2};
      return {-1, 0, 2};
    default:
      return {-1, 0, step % 2};
  }
}
constexpr int chains_in_place(WeightPacking packing) {
  return packing == WeightPacking::kTwo ? 4 : packing == WeightPacking::kThree ? 3 : 2;
}
constexpr int bit_of_chain(WeightPacking packing, int chain) {
  for (int step = 0;; ++step) {
    if (in_place(packing, step).chain == chain) return in_place(packing, step).bit;
  }
}
/// Weights in the highest bits have a sign, others are codes.
constexpr bool has_sign(WeightPacking packing, int step) {
  return in_place(packing, step).bit == packing_shape(packing).shift;
}
constexpr unsigned signed_steps(WeightPacking packing) {
  unsigned steps = 0;
  for (int step = 0; step < packing_shape(packing).steps; ++step)
    steps |= unsigned{has_sign(packing, step)} << static_cast<unsigned>(step);
  return steps;
}

template <WeightPacking kPacking, int kStep, size_t kPlanes>
HWY_INLINE Ops::V WeightsInPlace(Ops::V (&packed)[kPlanes]) {
  constexpr InPlace kWhere = in_place(kPacking, kStep);
  constexpr auto kMask = static_cast<uint8_t>((2 * Half(kPacking) - 1) << kWhere.bit);
  if constexpr (kWhere.vector < 0) {
    return Codes<kPacking, kStep>(packed);
  } else if constexpr (has_sign(kPacking, kStep)) {
    return Ops::HighBits(packed[kWhere.vector], kMask);
  } else {
    return Ops::Masked(packed[kWhere.vector], kMask);
  }
}

/// Adds the products of one step of weights that are being unpacked.
template <WeightPacking kPacking, int kStep, int kWindows, int kAcross, int kPlanes, int kChains>
HWY_INLINE void AddUnpacked(const WindowSums& w, int64_t first, int64_t at,
                            Ops::V (&packed)[size_t{kAcross}][size_t{kPlanes}],
                            Ops::V (&sums)[size_t{kChains}][size_t{kWindows}][size_t{kAcross}]) {
  constexpr bool kIsInPlace = kWindows == 1;
  constexpr int kChain = kIsInPlace ? in_place(kPacking, kStep).chain : 0;
  Ops::V weights[size_t{kAcross}];
#pragma GCC unroll 32
  for (int v = 0; v < kAcross; ++v) {
    if constexpr (kIsInPlace) {
      weights[v] = WeightsInPlace<kPacking, kStep>(packed[v]);
    } else {
      weights[v] = HighWeights<kPacking, kStep>(packed[v]);
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
    const Ops::V x = Ops::Four(w.windows[first + i] + at + kStep * kStepInputs);
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) {
      Ops::V& sum = sums[kChain][i][v];
      sum = Ops::AddProducts(sum, x, weights[v]);
    }
  }
}

template <int kWindows, int kAcross, WeightPacking kPacking, int kChains>
HWY_INLINE void AddPacked(const WindowSums& w, int64_t first,
                          Ops::V (&sums)[size_t{kChains}][size_t{kWindows}][size_t{kAcross}]) {
  constexpr PackingShape kShape = packing_shape(kPacking);
#pragma GCC unroll 32
  for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v) sums[c][i][v] = Ops::Zero();
    }
  }
  ForEachPacked<kAcross, kPacking>(w, [&](int64_t at, auto& packed) {
    [&]<int... kStep>(std::integer_sequence<int, kStep...>) {
      (AddUnpacked<kPacking, kStep, kWindows, kAcross, kShape.vectors, kChains>(w, first, at, packed, sums),
       ...);
    }
    (std::make_integer_sequence<int, kShape.steps>());
  });
}

template <int kWindows, int kBlocks, WeightPacking kPacking>
void AddPackedTile(const WindowSums& w, int64_t first) {
  constexpr int kAcross = kBlocks * static_cast<int>(kVectors);
  if constexpr (kWindows == 1) {
    constexpr int kChains = chains_in_place(kPacking);
    const Ops::V excess = Ops::Same(Excess<kPacking, signed_steps(kPacking)>(w, w.windows[first]));
    Ops::V sums[size_t{kChains}][1][size_t{kAcross}];
    AddPacked<1, kAcross, kPacking, kChains>(w, first, sums);
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) {
      Ops::V sum = Ops::Sum(Ops::LoadSums(w.start + v * Ops::kLanes), excess);
      [&]<int... kChain>(std::integer_sequence<int, kChain...>) {
        ((sum = Ops::Sum(sum, Ops::Unscaled<bit_of_chain(kPacking, kChain)>(sums[kChain][0][v]))), ...);
      }
      (std::make_integer_sequence<int, kChains>());
      sums[0][0][v] = sum;
    }
    LeaveTile<1, kAcross>(w, sums[0], first);
  } else {
    Ops::V sums[1][size_t{kWindows}][size_t{kAcross}];
    AddPacked<kWindows, kAcross, kPacking, 1>(w, first, sums);
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v) {
        sums[0][i][v] = Ops::Sum(Ops::Unscaled<packing_shape(kPacking).shift>(sums[0][i][v]),
                                 Ops::LoadSums(w.start + v * Ops::kLanes));
      }
    }
    LeaveTile<kWindows, kAcross>(w, sums[0], first);
  }
}
