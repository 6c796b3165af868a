// Included by target_avx512_vnni.cc after sums-inl.h: windows in the tile registers of Intel's AMX. No
// include guard.
//
// TDPBUSD adds to a tile C of 16 windows times 16 outputs, in 32-bit integers,
//
//     C[m][n] += sum_k A[m][k] B[k / 4][4 n + k % 4],  k < 64,
//
// where A holds 64 input bytes of each window and B 16 steps of a block of weights, as they lie in memory for
// VPDPBUSD too. It takes 16 cycles and 52 until the next to the same tile, so four tiles of sums take turns:
// up to four blocks of 16 windows, two of 32 or one of 64. Integers are added modulo 2^32, in which the order
// does not matter: all bits equal those of the other kernels.

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileSteps = 16;
constexpr int64_t kTileBytes = kTileSteps * kStepInputs;  // of a row

/// Operand of LDTILECFG.
struct alignas(64) TileShapes {
  uint8_t palette = 1;
  uint8_t first_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

/// Registers 0 to 3 hold sums, 4 and 6 inputs and weights of 16 steps, 5 and 7 those of `last_steps`. Reading
/// the shapes takes a tenth of the time of setting them; they are read each time, as others in the process
/// may use tiles as well.
void ShapeTiles(int64_t windows, int64_t last_steps) {
  TileShapes wanted;
  for (int i = 0; i < 8; ++i) {
    wanted.row_bytes[i] = static_cast<uint16_t>(i == 5 ? last_steps * kStepInputs : kTileBytes);
    wanted.rows[i] = static_cast<uint8_t>(i < 6 ? windows : i == 6 ? kTileSteps : last_steps);
  }
  TileShapes found;
  _tile_storeconfig(&found);
  if (std::memcmp(&found, &wanted, sizeof(wanted)) != 0) _tile_loadconfig(&wanted);
}

void LoadTileShapes(const uint8_t* shapes) { _tile_loadconfig(shapes); }
void StoreTileShapes(uint8_t* shapes) { _tile_storeconfig(shapes); }

/// Windows `first` to `first + count`. A tile that has more rows computes windows of the next one too.
struct TileWindows {
  int64_t first, count;
  int64_t distance;  // from each to the next, in bytes; 0: not the same
};

/// A tile of inputs, at `offset` of each window: where they lie if windows are equally far from each other,
/// else copied.
struct TileInputs {
  HWY_INLINE TileInputs(const WindowSums& w, const TileWindows& tile, int64_t rows, int64_t offset,
                        __mmask64 taken, uint8_t* copy)
      : bytes(w.windows[tile.first] + offset), distance(tile.distance) {
    if (distance != 0) return;
    for (int64_t i = 0; i < rows; ++i)
      _mm512_store_si512(copy + i * kTileBytes,
                         _mm512_maskz_loadu_epi8(taken, w.windows[tile.first + i] + offset));
    bytes = copy;
    distance = kTileBytes;
  }
  const uint8_t* bytes;
  int64_t distance;
};

// The number of a register is part of its instruction.

template <int kTile>
HWY_INLINE void LoadTileRows(const void* from, int64_t distance) {
  if constexpr (kTile == 4) _tile_loadd(4, from, distance);
  if constexpr (kTile == 5) _tile_loadd(5, from, distance);
  if constexpr (kTile == 6) _tile_loadd(6, from, distance);
  if constexpr (kTile == 7) _tile_loadd(7, from, distance);
}

template <int kSums, bool kLast>
HWY_INLINE void MultiplyTiles() {
  if constexpr (kSums == 0 && !kLast) _tile_dpbusd(0, 4, 6);
  if constexpr (kSums == 1 && !kLast) _tile_dpbusd(1, 4, 6);
  if constexpr (kSums == 2 && !kLast) _tile_dpbusd(2, 4, 6);
  if constexpr (kSums == 3 && !kLast) _tile_dpbusd(3, 4, 6);
  if constexpr (kSums == 0 && kLast) _tile_dpbusd(0, 5, 7);
  if constexpr (kSums == 1 && kLast) _tile_dpbusd(1, 5, 7);
  if constexpr (kSums == 2 && kLast) _tile_dpbusd(2, 5, 7);
  if constexpr (kSums == 3 && kLast) _tile_dpbusd(3, 5, 7);
}

template <int kSums>
HWY_INLINE void StoreTileRows(int32_t* to, int64_t distance) {
  if constexpr (kSums == 0) _tile_stored(0, to, distance);
  if constexpr (kSums == 1) _tile_stored(1, to, distance);
  if constexpr (kSums == 2) _tile_stored(2, to, distance);
  if constexpr (kSums == 3) _tile_stored(3, to, distance);
}

/// Some tiles of windows times all blocks: at most four tiles of sums.
template <int kTiles, int kBlocks>
struct TileProducts {
  static_assert(kTiles * kBlocks <= 4);
  using Each = std::make_integer_sequence<int, kTiles * kBlocks>;

  TileProducts(const WindowSums& sums, const TileWindows* windows, int64_t tile_rows)
      : w(sums), tiles(windows), rows(tile_rows) {}

  const WindowSums& w;
  const TileWindows* tiles;
  int64_t rows;
  alignas(64) uint8_t copies[size_t{kTiles}][size_t{kTileRows * kTileBytes}];
  alignas(64) int32_t products[size_t{kTiles}][size_t{kTileRows * kBlocks * kBlockOutputs}];

  /// Products of tile i / kBlocks with block i % kBlocks: 16 steps, or the last ones of a run.
  template <int i, bool kLast>
  HWY_INLINE void Add(int64_t offset, __mmask64 taken, const int8_t* weights) {
    constexpr int kTile = i / kBlocks;
    constexpr int kBlock = i % kBlocks;
    if constexpr (kBlock == 0) {
      const TileInputs inputs(w, tiles[kTile], rows, offset, taken, copies[kTile]);
      std::atomic_signal_fence(
          std::memory_order_seq_cst);  // GCC's tile loads do not say that they read memory
      LoadTileRows<kLast ? 5 : 4>(inputs.bytes, inputs.distance);
    }
    if constexpr (i == 0 || kBlocks > 1)
      LoadTileRows<kLast ? 7 : 6>(weights + kBlock * kBlockBytes, kBlocks * kBlockBytes);
    MultiplyTiles<i, kLast>();
  }
  template <bool kLast, int... i>
  HWY_INLINE void AddEach(int64_t offset, __mmask64 taken, const int8_t* weights,
                          std::integer_sequence<int, i...>) {
    (Add<i, kLast>(offset, taken, weights), ...);
  }
  template <int... i>
  HWY_INLINE void StoreEach(std::integer_sequence<int, i...>) {
    constexpr auto kDistance = static_cast<int64_t>(kBlocks * kBlockOutputs * sizeof(int32_t));
    (StoreTileRows<i>(products[i / kBlocks] + i % kBlocks * kBlockOutputs, kDistance), ...);
  }

  void Run() {
    constexpr int64_t kStepBytes = kBlocks * kBlockBytes;  // of weights
    const int64_t last_steps = w.run_steps % kTileSteps;
    const int8_t* weights = w.weights;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t run = 0; run < w.run_count; ++run) {
      int64_t offset = w.runs[run];
      for (int64_t left = w.run_steps; left >= kTileSteps; left -= kTileSteps) {
        AddEach<false>(offset, ~__mmask64{0}, weights, Each());
        offset += kTileBytes;
        weights += kTileSteps * kStepBytes;
      }
      if (last_steps == 0) continue;
      const __mmask64 taken = (__mmask64{1} << (last_steps * kStepInputs)) - 1;
      AddEach<true>(offset, taken, weights, Each());
      weights += last_steps * kStepBytes;
    }
    StoreEach(Each());
  }
};

/// Adds what sums begin with to the products of some windows, and finishes them.
template <int kWindows, int kBlocks>
void FinishProducts(const WindowSums& w, const int32_t* products, int64_t first) {
  Ops::V sums[size_t{kWindows}][size_t{kBlocks}];
  LoadTile<kWindows, kBlocks>(w, first, sums);
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
    for (int b = 0; b < kBlocks; ++b)
      sums[i][b] = Ops::Sum(sums[i][b], Ops::LoadSums(products + (i * kBlocks + b) * kBlockOutputs));
  }
  LeaveTile<kWindows, kBlocks>(w, sums, first);
}

template <int kTiles, int kBlocks>
void AddSomeTiles(const WindowSums& w, const TileWindows* tiles, int64_t rows) {
  constexpr int kTogether = 4;
  constexpr int64_t kWindowSums = kBlocks * kBlockOutputs;
  TileProducts<kTiles, kBlocks> sums(w, tiles, rows);
  sums.Run();
  for (int t = 0; t < kTiles; ++t) {
    const TileWindows& tile = tiles[t];
    int64_t i = 0;
    for (; i + kTogether <= tile.count; i += kTogether)
      FinishProducts<kTogether, kBlocks>(w, sums.products[t] + i * kWindowSums, tile.first + i);
    for (; i < tile.count; ++i)
      FinishProducts<1, kBlocks>(w, sums.products[t] + i * kWindowSums, tile.first + i);
  }
}

/// As few tiles as there can be, of about the same size. All compute as many rows as the last, the largest:
/// those of others may reach one window into the next.
template <int kBlocks>
void AddAmxWindows(const WindowSums& w) {
  constexpr int64_t kMostTiles = 4;
  constexpr int64_t kAtOnce = kBlocks >= 3 ? 1 : kMostTiles / kBlocks;
  const int64_t tiles = (w.count + kTileRows - 1) / kTileRows;
  const int64_t rows = (w.count + tiles - 1) / tiles;
  ShapeTiles(rows, w.run_steps % kTileSteps == 0 ? kTileSteps : w.run_steps % kTileSteps);
  TileWindows some[kMostTiles];
  for (int64_t done = 0; done < tiles;) {
    int64_t now = 1;
    while (2 * now <= std::min(kAtOnce, tiles - done)) now *= 2;
    for (int64_t t = 0; t < now; ++t) {
      const int64_t first = w.count * (done + t) / tiles;
      some[t] = {first, w.count * (done + t + 1) / tiles - first, w.windows[first + 1] - w.windows[first]};
      for (int64_t i = first + 2; i < first + rows; ++i) {
        if (w.windows[i] - w.windows[i - 1] != some[t].distance) some[t].distance = 0;
      }
    }
    if (now == 1) AddSomeTiles<1, kBlocks>(w, some, rows);
    if constexpr (kAtOnce >= 2) {
      if (now == 2) AddSomeTiles<2, kBlocks>(w, some, rows);
    }
    if constexpr (kAtOnce >= 4) {
      if (now == 4) AddSomeTiles<4, kBlocks>(w, some, rows);
    }
    done += now;
  }
}

/// Fewer windows or products are sooner added by vectors than tiles are loaded and stored.
void AddWindowsInTiles(const WindowSums& w) {
  constexpr int64_t kFewWindows = 8;
  constexpr int64_t kFewSteps = 8;  // of a run, and half of those of a window
  if (w.packing != WeightPacking::kBytes || w.count < kFewWindows || w.run_steps < kFewSteps ||
      w.run_count * w.run_steps < 2 * kFewSteps)
    return AddWindows(w);
  switch (w.blocks) {
    case 1:
      return AddAmxWindows<1>(w);
    case 2:
      return AddAmxWindows<2>(w);
    case 3:
      return AddAmxWindows<3>(w);
    default:
      return AddAmxWindows<kMostBlocks>(w);
  }
}
