// Included by target_*.cc after sums-inl.h and a definition of Bits: no include guard.

void BitPlanes(const uint8_t* bytes, uint8_t zero, int64_t positions, int64_t channels, uint64_t* planes,
               int32_t* others_than_zero) {
  for (int64_t position = 0; position < positions; ++position, bytes += channels) {
    int32_t others = 0;
    for (int64_t first = 0; first < channels; first += kWordInputs) {
      const int64_t count = std::min(kWordInputs, channels - first);
      const uint64_t taken = ~uint64_t{0} >> (kWordInputs - count);
      const std::pair<uint64_t, uint64_t> compared = Bits::Compared(bytes + first, zero, count);
      planes[0] = compared.first & taken;
      planes[1] = compared.second & taken;
      others += Bits::CountOf(planes[0]);
      planes += 2;
    }
    *others_than_zero++ = others;
  }
}

/// Adds p - 2 d of the words counted so far, and counts anew.
template <bool kHasZeros, int kWindows, int kAcross>
HWY_INLINE void TakeCounts(Bits::B (&differing)[size_t{kWindows}][size_t{kAcross}],
                           [[maybe_unused]] Bits::B (&both)[size_t{kWindows}][size_t{kAcross}],
                           Bits::B (&sums)[size_t{kWindows}][size_t{kAcross}]) {
#pragma GCC unroll 8
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) {
      const Bits::B d = Bits::Whole(differing[i][v]);
      differing[i][v] = Bits::Same(0);
      sums[i][v] = Bits::Less(sums[i][v], Bits::More(d, d));
      if constexpr (kHasZeros) {
        sums[i][v] = Bits::More(sums[i][v], Bits::Whole(both[i][v]));
        both[i][v] = Bits::Same(0);
      }
    }
  }
}

template <int kWindows, int kAcross>
HWY_INLINE void LeaveBitTile(const WindowSums& w, const Bits::B (&sums)[size_t{kWindows}][size_t{kAcross}],
                             int64_t first) {
  Ops::V results[size_t{kWindows}][size_t{kVectors}];
#pragma GCC unroll 8
  for (int i = 0; i < kWindows; ++i) {
    Bits::Narrow(sums[i], results[i]);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      results[i][v] = Ops::Sum(results[i][v], Ops::LoadSums(w.start + v * Ops::kLanes));
  }
  LeaveTile<kWindows, kVectors>(w, results, first);
}

/// With x and w of -1, 0 and 1: both are other than 0 in p places, in d of which their signs differ; the sum
/// of their products is p - 2 d. Where no weight is 0, p is the window's alone.
template <bool kHasZeros, int kWindows>
void AddBitTile(const WindowSums& w, int64_t first) {
  constexpr int kAcross = kBlockOutputs / Bits::kWords;
  constexpr int64_t kPlane = kBlockOutputs * 8;
  using B = Bits::B;
  B sums[size_t{kWindows}][size_t{kAcross}];
  [[maybe_unused]] B both[size_t{kWindows}][size_t{kAcross}];
  B differing[size_t{kWindows}][size_t{kAcross}];
#pragma GCC unroll 8
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) {
      sums[i][v] = Bits::Same(kHasZeros ? 0 : w.others_than_zero[first + i]);
      differing[i][v] = Bits::Same(0);
      if constexpr (kHasZeros) both[i][v] = Bits::Same(0);
    }
  }
  const int8_t* weights = w.weights;
  int64_t left = Bits::kMostWords;
  for (int64_t run = 0; run < w.run_count; ++run) {
    const int64_t offset = w.runs[run];
    for (int64_t word = 0; word < w.run_steps; ++word) {
      B x_other[size_t{kWindows}];
      B x_below[size_t{kWindows}];
#pragma GCC unroll 8
      for (int i = 0; i < kWindows; ++i) {
        const uint8_t* x = w.windows[first + i] + offset + word * kWordBytes;
        x_other[i] = Bits::Broadcast(x);
        x_below[i] = Bits::Broadcast(x + kWordBytes / 2);
      }
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        const int8_t* plane = weights + int64_t{v} * Bits::kWords * 8;
        const B below = Bits::Load(plane + (kHasZeros ? kPlane : 0));
#pragma GCC unroll 8
        for (int i = 0; i < kWindows; ++i) {
          B p = x_other[i];
          if constexpr (kHasZeros) {
            p = Bits::Common(p, Bits::Load(plane));
            both[i][v] = Bits::Count(both[i][v], p);
          }
          differing[i][v] = Bits::Count(differing[i][v], Bits::Differing(p, x_below[i], below));
        }
      }
      weights += (kHasZeros ? 2 : 1) * kPlane;
      if constexpr (Bits::kMostWords > 0) {
        if (--left == 0) {
          TakeCounts<kHasZeros, kWindows, kAcross>(differing, both, sums);
          left = Bits::kMostWords;
        }
      }
    }
  }
  TakeCounts<kHasZeros, kWindows, kAcross>(differing, both, sums);
  LeaveBitTile<kWindows, kAcross>(w, sums, first);
}

template <bool kHasZeros>
void AddBitTiles(const WindowSums& w) {
  constexpr int kMost = kHasZeros ? Bits::kMostTernaryWindows : Bits::kMostSignWindows;
  int64_t first = 0;
  for (; first + kMost <= w.count; first += kMost) AddBitTile<kHasZeros, kMost>(w, first);
  for (; first < w.count; ++first) AddBitTile<kHasZeros, 1>(w, first);
}

/// One block of outputs.
void AddBitPlanes(const WindowSums& w) {
  w.packing == WeightPacking::kSigns ? AddBitTiles<false>(w) : AddBitTiles<true>(w);
}
