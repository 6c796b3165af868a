// Included by target_*.cc after tiles-inl.h and how it adds packed tiles: no include guard.

/// Four vectors of sums, whose bytes follow each other within 16.
template <class O = Ops>
inline void FinishInterleaved(const SumFinish& f, int64_t at, typename O::V* sums, uint8_t* result,
                              int64_t count) {
  for (int q = 0; q < 4; ++q) sums[q] = Steps(f, at + q * O::kLanes, sums[q]);
  O::StoreInterleaved(sums, result, count);
}

/// Their float32 values likewise.
template <class O = Ops>
inline void StoreInterleavedValues(const SumFinish& f, int64_t at, typename O::V* sums, uint8_t* result,
                                   int64_t count) {
  constexpr int64_t kTogether = 4;  // lanes whose channels follow each other
  alignas(64) float values[4 * O::kLanes];
  for (int64_t q = 0; q < 4; ++q) {
    alignas(64) float lanes[O::kLanes];
    O::StoreValues(sums[q], f.multiplier + at + q * O::kLanes, lanes);
    for (int64_t l = 0; l < O::kLanes; l += kTogether)
      std::memcpy(values + 4 * l + q * kTogether, lanes + l, kTogether * sizeof(float));
  }
  std::memcpy(result, values, static_cast<size_t>(count) * sizeof(float));
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
    uint8_t* const to = d.result + (j * d.result_row + at) * d.result_bytes;
    (d.finish.gives_values ? StoreInterleavedValues<O> : FinishInterleaved<O>)(d.finish, chunk * O::kBytes,
                                                                               row, to, count);
  }
}

/// Makes sums of upper bytes the beginning of those of lower ones; without any, they begin anew.
template <int kRows>
HWY_INLINE void BeginDepthwise(const DepthwiseSums& d, int64_t chunk, bool has_upper,
                               Ops::V (&sums)[size_t{kRows}][4]) {
#pragma GCC unroll 4
  for (int j = 0; j < kRows; ++j) {
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const Ops::V start = Ops::LoadSums(d.start + chunk * Ops::kBytes + q * Ops::kLanes);
      sums[j][q] = has_upper ? Ops::Sum(Ops::Times256(sums[j][q]), start) : start;
    }
  }
}

/// Rows of inputs are interleaved once for all rows of results whose windows reach them.
template <int kRows>
void AddDepthwiseRows(const DepthwiseSums& d) {
  constexpr int64_t kQuadBytes = 4 * Ops::kBytes;
  const int64_t plane_weights = d.height * d.quads * kQuadBytes;
  int64_t chunk = 0;
  for (int64_t at = 0; at < d.bytes; at += Ops::kBytes) {
    Ops::V sums[size_t{kRows}][4] = {};
    for (int64_t part = d.upper == 0 ? 1 : 0; part < 2; ++part) {
      if (part == 1) BeginDepthwise<kRows>(d, chunk, d.upper != 0, sums);
      const int8_t* weights = d.weights + chunk * d.planes * plane_weights;
      const uint8_t* plane = d.input + (part == 0 ? d.upper : 0) + at;
      for (int64_t z = 0; z < d.planes; ++z, plane += d.plane_bytes, weights += plane_weights) {
        for (int64_t row = 0; row < d.input_rows[kRows - 1]; ++row) {
          for (int64_t quad = 0; quad < d.quads; ++quad) {
            const Mixed mixed(plane + row * d.input_row, d.taps + 4 * quad);
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
    Ops::V sums[size_t{kRows}][4] = {};
    for (int64_t part = d.upper == 0 ? 1 : 0; part < 2; ++part) {
      if (part == 1) BeginDepthwise<kRows>(d, chunk, d.upper != 0, sums);
      const int8_t* weights = d.weights + chunk * kSide * kQuadBytes;
      const uint8_t* x = d.input + (part == 0 ? d.upper : 0) + at;
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
            sums[j][q] =
                Ops::AddProducts(sums[j][q], mixed.quarters[q], Ops::LoadWeights(w + q * Ops::kBytes));
        }
      }
    }
    FinishDepthwise<kRows>(d, chunk, sums, at, std::min<int64_t>(Ops::kBytes, d.bytes - at));
    if (++chunk == d.chunks) chunk = 0;
  }
}

template <int kRows>
void AddDepthwiseWindows(const DepthwiseSums& d) {
  const bool is_3x3 =
      d.planes == 1 && d.height == 3 && d.quads == 1 && d.taps[3] == d.taps[0] && d.dilation == 1;
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
    window.result += d.result_step * d.result_bytes;
  }
}

template <int... kRows>
void AddDepthwiseOf(const DepthwiseSums& d, std::integer_sequence<int, kRows...>) {
  static_cast<void>(((d.rows == kRows + 1 ? (AddDepthwiseWindows<kRows + 1>(d), true) : false) || ...));
}

void AddDepthwise(const DepthwiseSums& d) { AddDepthwiseOf(d, std::make_integer_sequence<int, kMostRows>()); }
