// Included by target_*.cc after narrow_codes-inl.h where there is no instruction that adds four products to
// 32 bits. Two products of an input and a code are added in 16 bits, which hold those of all steps of a
// packing.

template <WeightPacking kPacking>
constexpr bool kPairsFit = 255 * 2 * (2 * Half(kPacking) - 1) * packing_shape(kPacking).steps < 1 << 15;

template <WeightPacking kPacking, int kStep, int kWindows, size_t kPlanes>
HWY_INLINE void AddPairsOfStep(const WindowSums& w, int64_t first, int64_t at, Ops::V (&packed)[kPlanes],
                               Ops::V (&pairs)[size_t{kWindows}]) {
  const Ops::V codes = Codes<kPacking, kStep>(packed);
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
    const Ops::V products = Ops::Pairs(Ops::Four(w.windows[first + i] + at + kStep * kStepInputs), codes);
    pairs[i] = kStep == 0 ? products : Ops::SumOfPairs(pairs[i], products);
  }
}

template <int kWindows, int kBlocks, WeightPacking kPacking>
void AddPackedTile(const WindowSums& w, int64_t first) {
  static_assert(kPairsFit<kPacking>);
  constexpr int kAcross = kBlocks * static_cast<int>(kVectors);
  Ops::V sums[size_t{kWindows}][size_t{kAcross}];
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
    const Ops::V excess = Ops::Same(Excess<kPacking, 0>(w, w.windows[first + i]));
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) sums[i][v] = Ops::Sum(Ops::LoadSums(w.start + v * Ops::kLanes), excess);
  }
  ForEachPacked<kAcross, kPacking>(w, [&](int64_t at, auto& packed) {
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) {
      Ops::V pairs[size_t{kWindows}];
      [&]<int... kStep>(std::integer_sequence<int, kStep...>) {
        (AddPairsOfStep<kPacking, kStep, kWindows>(w, first, at, packed[v], pairs), ...);
      }
      (std::make_integer_sequence<int, packing_shape(kPacking).steps>());
#pragma GCC unroll 32
      for (int i = 0; i < kWindows; ++i) sums[i][v] = Ops::Sum(sums[i][v], Ops::Joined(pairs[i]));
    }
  });
  LeaveTile<kWindows, kAcross>(w, sums, first);
}
