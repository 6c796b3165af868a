// Included by target_*.cc behind a definition of Ops: no include guard.

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

/// What the sums of a tile begin with: the same for each window, or what others left.
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
    if (w.finish.cuts_bytes && w.sums_behind == nullptr)
      return FinishTile<kWindows, kAcross, Ops>(w, sums, first);
  }
  alignas(64) int32_t stored[size_t{kWindows * kAcross * Ops::kLanes}];
  int32_t* to = w.sums_behind == nullptr ? stored : w.sums_behind + first * int64_t{kAcross * Ops::kLanes};
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) Ops::StoreSums(sums[i][v], to + (i * kAcross + v) * Ops::kLanes);
  }
  if (w.sums_behind == nullptr) FinishStored(w, stored, first, kWindows);
}

/// Four vectors of sums, whose bytes follow each other within 16.
template <class O = Ops>
inline void FinishInterleaved(const SumFinish& f, int64_t at, typename O::V* sums, uint8_t* result,
                              int64_t count) {
  for (int q = 0; q < 4; ++q) sums[q] = Steps(f, at + q * O::kLanes, sums[q]);
  O::StoreInterleaved(sums, result, count);
}

template <int kWindows, int kBlocks>
void AddTile(const WindowSums& w, int64_t first, const int8_t* next, int64_t next_step) {
  constexpr int kAcross = kBlocks * static_cast<int>(kVectors);
  Ops::V sums[size_t{kWindows}][size_t{kAcross}];
  LoadTile<kWindows, kAcross>(w, first, sums);
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) __builtin_prefetch(w.results[first + i] + w.result_offset, 1);
  const int8_t* weights = w.weights;
  for (int64_t run = 0; run < w.run_count; ++run) {
    const int64_t offset = w.runs[run];
    const uint8_t* inputs[size_t{kWindows}];
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) inputs[i] = w.windows[first + i] + offset;
    for (int64_t step = 0; step < w.run_steps; ++step) {
      Ops::W factors[size_t{kAcross}];
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v) factors[v] = Ops::LoadWeights(weights + v * Ops::kBytes);
      weights += kAcross * Ops::kBytes;
      __builtin_prefetch(next, 0, 2);
      next += next_step;
#pragma GCC unroll 32
      for (int i = 0; i < kWindows; ++i) {
        const Ops::X x = Ops::Broadcast(inputs[i] + step * kStepInputs);
#pragma GCC unroll 32
        for (int v = 0; v < kAcross; ++v) sums[i][v] = Ops::AddProducts(sums[i][v], x, factors[v]);
      }
    }
  }
  LeaveTile<kWindows, kAcross>(w, sums, first);
}

using TileFunction = void (*)(const WindowSums&, int64_t, const int8_t*, int64_t);

template <int kBlocks, int... kWindows>
constexpr auto TilesOf(std::integer_sequence<int, kWindows...>) {
  return std::array<TileFunction, sizeof...(kWindows)>{AddTile<kWindows + 1, kBlocks>...};
}

/// Windows of three positions that lie next to each other share them: each group of four inputs is broadcast
/// once instead of three times.
template <int kWindows>
void AddColumnTile(const WindowSums& w, int64_t first) {
  constexpr int kColumns = 3;
  Ops::V sums[size_t{kWindows}][1];
  LoadTile<kWindows, 1>(w, first, sums);
  const int64_t steps = w.run_steps / kColumns;  // of a position
  for (int64_t run = 0; run < w.run_count; ++run) {
    const uint8_t* input = w.windows[first] + w.runs[run];
    const int8_t* weights = w.weights + run * w.run_steps * kBlockBytes;
    for (int64_t step = 0; step < steps; ++step) {
      Ops::W factors[kColumns];
#pragma GCC unroll 3
      for (int k = 0; k < kColumns; ++k)
        factors[k] = Ops::LoadWeights(weights + (k * steps + step) * kBlockBytes);
      const uint8_t* column = input + step * kStepInputs;
#pragma GCC unroll 32
      for (int c = 0; c < kWindows + kColumns - 1; ++c) {
        const Ops::X x = Ops::Broadcast(column);
        column += w.column_bytes;
#pragma GCC unroll 3
        for (int k = 0; k < kColumns; ++k) {
          if (c >= k && c - k < kWindows) sums[c - k][0] = Ops::AddProducts(sums[c - k][0], x, factors[k]);
        }
      }
    }
  }
  LeaveTile<kWindows, 1>(w, sums, first);
}

template <int... kWindows>
constexpr auto ColumnTilesOf(std::integer_sequence<int, kWindows...>) {
  return std::array{AddColumnTile<kWindows + 1>...};
}

/// One block of outputs; windows that follow each other are found here.
void AddColumns(const WindowSums& w) {
  constexpr int64_t kMost = 16;
  static constexpr auto kTiles = ColumnTilesOf(std::make_integer_sequence<int, kMost>());
  for (int64_t first = 0; first < w.count;) {
    int64_t end = first + 1;
    while (end < w.count && w.windows[end] - w.windows[end - 1] == w.column_bytes) ++end;
    for (int64_t tiles = (end - first + kMost - 1) / kMost; tiles > 0; --tiles) {
      const int64_t count = (end - first + tiles - 1) / tiles;
      kTiles[static_cast<size_t>(count - 1)](w, first);
      first += count;
    }
  }
}

/// As few tiles as there can be, of about the same size.
template <int kBlocks>
void AddTiles(const WindowSums& w) {
  constexpr int64_t kMost = kMostWindows[kBlocks];
  static constexpr auto kTiles = TilesOf<kBlocks>(std::make_integer_sequence<int, kMost>());
  int64_t tiles = (w.count + kMost - 1) / kMost;
  constexpr int64_t kLine = 64;
  const int64_t lines = w.run_count * w.run_steps;  // that a tile has time for
  int64_t next = 0;
  for (int64_t first = 0; tiles > 0; --tiles) {
    const int64_t count = (w.count - first + tiles - 1) / tiles;
    const bool fetches = next + lines * kLine <= w.next_bytes;
    kTiles[static_cast<size_t>(count - 1)](w, first, fetches ? w.next + next : w.weights,
                                           fetches ? kLine : 0);
    if (fetches) next += lines * kLine;
    first += count;
  }
}

/// Adds the products of one step of weights that are being unpacked, to one of the chains of sums.
template <WeightPacking kPacking, int kStep, int kWindows, int kAcross, int kPlanes, int kChains>
HWY_INLINE void AddUnpacked(const WindowSums& w, int64_t first, int64_t at,
                            Ops::V (&packed)[size_t{kAcross}][size_t{kPlanes}],
                            Ops::V (&sums)[size_t{kChains}][size_t{kWindows}][size_t{kAcross}]) {
  Ops::W factors[size_t{kAcross}];
#pragma GCC unroll 32
  for (int v = 0; v < kAcross; ++v) factors[v] = Ops::Factors(Ops::Unpacked<kPacking, kStep>(packed[v]));
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
    const Ops::X x = Ops::Broadcast(w.windows[first + i] + at + kStep * kStepInputs);
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) {
      Ops::V& sum = sums[kStep % kChains][i][v];
      sum = Ops::AddProducts(sum, x, factors[v]);
    }
  }
}

/// Weights of fewer than 8 bits are unpacked where they are multiplied, to the high bits of bytes.
template <int kWindows, int kBlocks, WeightPacking kPacking>
void AddPackedTile(const WindowSums& w, int64_t first) {
  constexpr int kAcross = kBlocks * static_cast<int>(kVectors);
  constexpr PackingShape kShape = packing_shape(kPacking);
  constexpr int kChains = kWindows == 1 ? 2 : 1;  // so that additions need not wait for each other
  Ops::V sums[size_t{kChains}][size_t{kWindows}][size_t{kAcross}];
#pragma GCC unroll 2
  for (int c = 0; c < kChains; ++c) {
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v) sums[c][i][v] = Ops::Zero();
    }
  }
  const int8_t* weights = w.weights;
  for (int64_t run = 0; run < w.run_count; ++run) {
    for (int64_t step = 0; step < w.run_steps; step += kShape.steps) {
      Ops::V packed[size_t{kAcross}][size_t{kShape.vectors}];
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v) {
#pragma GCC unroll 3
        for (int p = 0; p < kShape.vectors; ++p)
          packed[v][p] = Ops::LoadPacked(weights + (p * kAcross + v) * Ops::kBytes);
      }
      weights += int64_t{kShape.vectors * kAcross * Ops::kBytes};
      const int64_t at = w.runs[run] + step * kStepInputs;
      [&]<int... kStep>(std::integer_sequence<int, kStep...>) {
        (AddUnpacked<kPacking, kStep, kWindows, kAcross, kShape.vectors, kChains>(w, first, at, packed, sums),
         ...);
      }
      (std::make_integer_sequence<int, kShape.steps>());
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
    for (int v = 0; v < kAcross; ++v) {
      Ops::V& sum = sums[0][i][v];
      if (kChains > 1) sum = Ops::Sum(sum, sums[kChains - 1][i][v]);
      sum = Ops::Unscaled<kShape.shift>(sum, Ops::LoadSums(w.start + v * Ops::kLanes));
    }
  }
  LeaveTile<kWindows, kAcross>(w, sums[0], first);
}

template <int kBlocks, WeightPacking kPacking>
void AddPackedTiles(const WindowSums& w) {
  constexpr int64_t kMost = 3;
  int64_t first = 0;
  for (; first + kMost <= w.count; first += kMost) AddPackedTile<kMost, kBlocks, kPacking>(w, first);
  for (; first < w.count; ++first) AddPackedTile<1, kBlocks, kPacking>(w, first);
}

template <int kBlocks>
void AddBlocks(const WindowSums& w) {
  switch (w.packing) {
    case WeightPacking::kBytes:
      if constexpr (kPacksBytes && kBlocks == 1) {
        if (w.column_bytes > 0) return AddColumns(w);
      }
      return AddTiles<kBlocks>(w);
    case WeightPacking::kFour:
      return AddPackedTiles<kBlocks, WeightPacking::kFour>(w);
    case WeightPacking::kThree:
      return AddPackedTiles<kBlocks, WeightPacking::kThree>(w);
    case WeightPacking::kTwo:
      return AddPackedTiles<kBlocks, WeightPacking::kTwo>(w);
    case WeightPacking::kTernary:
      return AddPackedTiles<kBlocks, WeightPacking::kTernary>(w);
    case WeightPacking::kBitPlanes:
    case WeightPacking::kSigns:
      return;  // KernelSet::add_bit_planes
  }
}

template <int... kBlocks>
void AddGroup(const WindowSums& w, std::integer_sequence<int, kBlocks...>) {
  static_cast<void>(((w.blocks == kBlocks + 1 ? (AddBlocks<kBlocks + 1>(w), true) : false) || ...));
}

void AddWindows(const WindowSums& w) { AddGroup(w, std::make_integer_sequence<int, kMostBlocks>()); }

/// Four neighbouring bytes of four vectors of channels, in four vectors: bytes are interleaved within 16, so
/// lane l of vector q holds channel l / 4 * 16 + q * 4 + l % 4.
struct Mixed {
  Mixed(const uint8_t* x, const int64_t* taps)
      : Mixed(Ops::LoadBytes(x + taps[0]), Ops::LoadBytes(x + taps[1]), Ops::LoadBytes(x + taps[2]),
              Ops::LoadBytes(x + taps[3])) {}
  Mixed(Ops::V a, Ops::V b, Ops::V c, Ops::V e) {
    const Ops::V low_ab = Ops::LowBytes(a, b);
    const Ops::V high_ab = Ops::HighBytes(a, b);
    const Ops::V low_ce = Ops::LowBytes(c, e);
    const Ops::V high_ce = Ops::HighBytes(c, e);
    quarters[0] = Ops::Inputs(Ops::LowPairs(low_ab, low_ce));
    quarters[1] = Ops::Inputs(Ops::HighPairs(low_ab, low_ce));
    quarters[2] = Ops::Inputs(Ops::LowPairs(high_ab, high_ce));
    quarters[3] = Ops::Inputs(Ops::HighPairs(high_ab, high_ce));
  }
  Ops::X quarters[4];
};

template <int kRows, class O = Ops>
HWY_INLINE void FinishDepthwise(const DepthwiseSums& d, int64_t chunk,
                                typename O::V (&sums)[size_t{kRows}][4], int64_t at, int64_t count) {
  if constexpr (kPacksBytes) {
    if (d.finish.cuts_bytes) {
      const typename O::Cut cut(d.finish);
      const float* m = d.finish.multiplier + chunk * O::kBytes;
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) {
        const auto steps = [&](int q) { return O::StepsOf(sums[j][q], m + q * O::kLanes); };
        O::StoreBytes(O::Packed(steps(0), steps(1), steps(2), steps(3), cut),
                      d.result + j * d.result_row + at, count);
      }
      return;
    }
  }
  alignas(64) int32_t stored[size_t{kRows}][4 * O::kLanes];
#pragma GCC unroll 4
  for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) O::StoreSums(sums[j][q], stored[j] + q * O::kLanes);
  }
  for (int j = 0; j < kRows; ++j) {
    typename O::V row[4];
    for (int q = 0; q < 4; ++q) row[q] = O::LoadSums(stored[j] + q * O::kLanes);
    FinishInterleaved(d.finish, chunk * O::kBytes, row, d.result + j * d.result_row + at, count);
  }
}

/// Rows of inputs are interleaved once for all rows of results whose windows reach them.
template <int kRows>
void AddDepthwiseRows(const DepthwiseSums& d) {
  constexpr int64_t kQuadBytes = 4 * Ops::kBytes;
  const int64_t chunk_bytes = d.height * d.quads * kQuadBytes;
  int64_t chunk = 0;
  for (int64_t at = 0; at < d.bytes; at += Ops::kBytes) {
    Ops::V sums[size_t{kRows}][4];
#pragma GCC unroll 4
    for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) sums[j][q] = Ops::LoadSums(d.start + chunk * Ops::kBytes + q * Ops::kLanes);
    }
    const int8_t* weights = d.weights + chunk * chunk_bytes;
    for (int64_t row = 0; row < d.input_rows[kRows - 1]; ++row) {
      for (int64_t quad = 0; quad < d.quads; ++quad) {
        const Mixed mixed(d.input + row * d.input_row + at, d.taps + 4 * quad);
#pragma GCC unroll 4
        for (int j = 0; j < kRows; ++j) {
          const int64_t first = d.row_quads[row * kMostDepthwiseRows + j];
          if (first < 0) continue;
          const int8_t* w = weights + (first + quad) * kQuadBytes;
#pragma GCC unroll 4
          for (int q = 0; q < 4; ++q)
            sums[j][q] =
                Ops::AddProducts(sums[j][q], mixed.quarters[q], Ops::LoadWeights(w + q * Ops::kBytes));
        }
      }
    }
    FinishDepthwise<kRows>(d, chunk, sums, at, std::min<int64_t>(Ops::kBytes, d.bytes - at));
    if (++chunk == d.chunks) chunk = 0;
  }
}

/// The same for windows of 3 x 3 neighbouring positions.
template <int kRows, int kStride>
void AddDepthwise3x3(const DepthwiseSums& d) {
  constexpr int kSide = 3;
  constexpr int64_t kQuadBytes = 4 * Ops::kBytes;
  const int64_t middle = d.taps[1];
  const int64_t right = d.taps[2];
  int64_t chunk = 0;
  for (int64_t at = 0; at < d.bytes; at += Ops::kBytes) {
    Ops::V sums[size_t{kRows}][4];
#pragma GCC unroll 4
    for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) sums[j][q] = Ops::LoadSums(d.start + chunk * Ops::kBytes + q * Ops::kLanes);
    }
    const int8_t* weights = d.weights + chunk * kSide * kQuadBytes;
    const uint8_t* x = d.input + at;
#pragma GCC unroll 16
    for (int row = 0; row < (kRows - 1) * kStride + kSide; ++row) {
      const Ops::V left = Ops::LoadBytes(x);
      const Mixed mixed(left, Ops::LoadBytes(x + middle), Ops::LoadBytes(x + right), left);
      x += d.input_row;
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) {
        const int down = row - j * kStride;
        if (down < 0 || down >= kSide) continue;
        const int8_t* w = weights + down * kQuadBytes;
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q)
          sums[j][q] = Ops::AddProducts(sums[j][q], mixed.quarters[q], Ops::LoadWeights(w + q * Ops::kBytes));
      }
    }
    FinishDepthwise<kRows>(d, chunk, sums, at, std::min<int64_t>(Ops::kBytes, d.bytes - at));
    if (++chunk == d.chunks) chunk = 0;
  }
}

template <int kRows>
void AddDepthwiseWindows(const DepthwiseSums& d) {
  const bool is_3x3 = d.height == 3 && d.quads == 1 && d.taps[3] == d.taps[0] && d.dilation == 1;
  DepthwiseSums window = d;
  for (int64_t i = 0; i < d.windows; ++i) {
    if (is_3x3 && d.stride == 1) {
      AddDepthwise3x3<kRows, 1>(window);
    } else if (is_3x3 && d.stride == 2) {
      AddDepthwise3x3<kRows, 2>(window);
    } else {
      AddDepthwiseRows<kRows>(window);
    }
    window.input += d.window_step;
    window.result += d.bytes;
  }
}

template <int... kRows>
void AddDepthwiseOf(const DepthwiseSums& d, std::integer_sequence<int, kRows...>) {
  static_cast<void>(((d.rows == kRows + 1 ? (AddDepthwiseWindows<kRows + 1>(d), true) : false) || ...));
}

void AddDepthwise(const DepthwiseSums& d) { AddDepthwiseOf(d, std::make_integer_sequence<int, kMostRows>()); }
