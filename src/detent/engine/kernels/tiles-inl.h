// Included by target_*.cc after a definition of Ops: how tiles of sums begin and end. No include guard.

/// Whether sums are finished four vectors at once.
constexpr bool kPacksBytes = Ops::kBytes == kBlockBytes;

/// Codes as bytes in 32-bit lanes.
inline Ops::V Steps(const SumFinish& f, int64_t at, Ops::V sums) {
  if (f.fixed == nullptr) return Ops::Rounded(sums, f.multiplier + at, f.least, f.most, f.zero);
  alignas(64) int32_t lanes[Ops::kLanes];
  Ops::StoreSums(sums, lanes);
  const auto least = static_cast<int64_t>(f.least);
  const auto most = static_cast<int64_t>(f.most);
  for (int64_t i = 0; i < Ops::kLanes; ++i) {
    const int64_t steps = fixed_product(lanes[i], f.fixed[at + i]);
    const int64_t held = steps < least ? least : steps > most ? most : steps;
    lanes[i] = static_cast<int32_t>(held) + f.zero;
  }
  return Ops::LoadSums(lanes);
}

constexpr int64_t kVectors = kBlockBytes / Ops::kBytes;  // of a block

/// Finishes one block of one window.
inline void FinishBlock(const WindowSums& w, const Ops::V* sums, int64_t block, std::byte* result) {
  const int64_t first = block * kBlockOutputs;
  const int64_t count = std::min(kBlockOutputs, w.outputs - first);
  if (w.finish.gives_values) {
    alignas(64) float values[kBlockOutputs];
    for (int64_t v = 0; v < kVectors; ++v)
      Ops::StoreValues(sums[v], w.finish.multiplier + first + v * Ops::kLanes, values + v * Ops::kLanes);
    std::memcpy(result + first * 4, values, static_cast<size_t>(count) * 4);
    return;
  }
  Ops::V steps[kVectors];
  for (int64_t v = 0; v < kVectors; ++v) steps[v] = Steps(w.finish, first + v * Ops::kLanes, sums[v]);
  auto* to = reinterpret_cast<uint8_t*>(result) + first;
  if (count == kBlockOutputs) {
    Ops::StoreBlock(steps, to);
    return;
  }
  alignas(16) uint8_t bytes[kBlockOutputs];
  Ops::StoreBlock(steps, bytes);
  if (count == kBlockOutputs / 2) {
    std::memcpy(to, bytes, kBlockOutputs / 2);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = bytes[i];
  }
}

/// Finishes what a tile has left in memory, [window][block][16].
HWY_NOINLINE void FinishStored(const WindowSums& w, const int32_t* stored, int64_t first, int64_t windows) {
  for (int64_t i = first; i < first + windows; ++i) {
    for (int64_t block = 0; block < w.blocks; ++block) {
      Ops::V sums[kVectors];
      for (int64_t v = 0; v < kVectors; ++v) sums[v] = Ops::LoadSums(stored + v * Ops::kLanes);
      stored += kBlockOutputs;
      FinishBlock(w, sums, block, w.results[i] + w.result_offset);
    }
  }
}

template <int kBlocks, class O>
HWY_INLINE void StoreWindow(const WindowSums& w, typename O::V bytes, int64_t window) {
  auto* to = reinterpret_cast<uint8_t*>(w.results[window] + w.result_offset);
  if (w.outputs == kBlocks * kBlockOutputs) {
    O::template StoreBlocks<kBlocks>(bytes, to);
  } else {
    O::StoreBytes(bytes, to, w.outputs);
  }
}

/// Requantizes a tile whose vectors hold a block each: as many windows at once as have four blocks together.
template <int kWindows, int kBlocks, class O>
HWY_INLINE void FinishTile(const WindowSums& w,
                           const typename O::V (&sums)[size_t{kWindows}][size_t{kBlocks}], int64_t first) {
  constexpr int kTogether = kBlocks >= 3 ? 1 : 4 / kBlocks;
  const typename O::Cut cut(w.finish);
  const float* multiplier = w.finish.multiplier;
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; i += kTogether) {
    typename O::V steps[4];
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) {
      const int window = i + s / kBlocks;
      const bool is_filler = s / kBlocks >= kTogether || window >= kWindows;
      steps[s] =
          is_filler ? steps[0] : O::StepsOf(sums[window][s % kBlocks], multiplier + s % kBlocks * O::kLanes);
    }
    const typename O::V bytes = O::InOrder(O::Packed(steps[0], steps[1], steps[2], steps[3], cut));
    StoreWindow<kBlocks, O>(w, bytes, first + i);
    if constexpr (kTogether > 1) {
      if (i + 1 < kWindows)
        StoreWindow<kBlocks, O>(w, O::template BlocksFrom<kBlocks, kBlocks>(bytes), first + i + 1);
    }
    if constexpr (kTogether > 2) {
      if (i + 2 < kWindows) StoreWindow<kBlocks, O>(w, O::template BlocksFrom<2, 1>(bytes), first + i + 2);
      if (i + 3 < kWindows) StoreWindow<kBlocks, O>(w, O::template BlocksFrom<3, 1>(bytes), first + i + 3);
    }
  }
}

/// Initial sums of a tile: the same for each window, or partial sums.
template <int kWindows, int kAcross>
HWY_INLINE void LoadTile(const WindowSums& w, int64_t first,
                         Ops::V (&sums)[size_t{kWindows}][size_t{kAcross}]) {
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) sums[i][v] = Ops::LoadSums(w.start + v * Ops::kLanes);
  }
  if (w.sums_before == nullptr) return;
  const int32_t* const before = w.sums_before + first * int64_t{kAcross * Ops::kLanes};
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) sums[i][v] = Ops::LoadSums(before + (i * kAcross + v) * Ops::kLanes);
  }
}

/// The sums of a tile, finished, or kept for what adds to them.
template <int kWindows, int kAcross>
HWY_INLINE void LeaveTile(const WindowSums& w, const Ops::V (&sums)[size_t{kWindows}][size_t{kAcross}],
                          int64_t first) {
  if constexpr (kPacksBytes) {
    if (w.finish.cuts_bytes && w.sums_after == nullptr)
      return FinishTile<kWindows, kAcross, Ops>(w, sums, first);
  }
  alignas(64) int32_t stored[size_t{kWindows} * size_t{kAcross} * Ops::kLanes];
  int32_t* to = w.sums_after == nullptr ? stored : w.sums_after + first * int64_t{kAcross * Ops::kLanes};
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) Ops::StoreSums(sums[i][v], to + (i * kAcross + v) * Ops::kLanes);
  }
  if (w.sums_after == nullptr) FinishStored(w, stored, first, kWindows);
}
