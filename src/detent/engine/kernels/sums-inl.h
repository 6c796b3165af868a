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

/// Sums of all blocks of one window.
template <int kBlocks, class O = Ops>
inline void FinishWindow(const WindowSums& w, const typename O::V* sums, std::byte* result) {
  if constexpr (kPacksBytes) {
    if (w.finish.cuts_bytes) {
      const auto bytes = O::template PackedBlocks<kBlocks>(sums, w.finish.multiplier, w.finish);
      auto* to = reinterpret_cast<uint8_t*>(result);
      if (w.outputs == kBlocks * kBlockOutputs) {
        O::template StoreBlocks<kBlocks>(bytes, to);
      } else {
        O::StoreBytes(bytes, to, w.outputs);
      }
      return;
    }
  }
  for (int b = 0; b < kBlocks; ++b) FinishBlock(w, sums + b * kVectors, b, result);
}

/// Four vectors of sums, whose bytes follow each other within 16.
template <class O = Ops>
inline void FinishInterleaved(const SumFinish& f, int64_t at, typename O::V* sums, uint8_t* result,
                              int64_t count) {
  if constexpr (kPacksBytes) {
    if (f.cuts_bytes) {
      O::StoreBytes(O::Packed(sums, f.multiplier + at, f), result, count);
      return;
    }
  }
  for (int q = 0; q < 4; ++q) sums[q] = Steps(f, at + q * O::kLanes, sums[q]);
  O::StoreInterleaved(sums, result, count);
}

template <int kWindows, int kBlocks>
void AddTile(const WindowSums& w, int64_t first, const int8_t* next, int64_t next_step) {
  constexpr int kAcross = kBlocks * static_cast<int>(kVectors);
  Ops::V sums[size_t{kWindows}][size_t{kAcross}];
#pragma GCC unroll 32
  for (int v = 0; v < kAcross; ++v) {
    const Ops::V start = Ops::LoadSums(w.start + v * Ops::kLanes);
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) sums[i][v] = start;
  }
  const int64_t place = first * kAcross * Ops::kLanes;
  if (w.sums_before != nullptr) {
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v)
        sums[i][v] = Ops::LoadSums(w.sums_before + place + (i * kAcross + v) * Ops::kLanes);
    }
  }
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
  if (w.sums_behind != nullptr) {
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v)
        Ops::StoreSums(sums[i][v], w.sums_behind + place + (i * kAcross + v) * Ops::kLanes);
    }
    return;
  }
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) FinishWindow<kBlocks>(w, sums[i], w.results[first + i]);
}

using TileFunction = void (*)(const WindowSums&, int64_t, const int8_t*, int64_t);

template <int kBlocks, int... kWindows>
constexpr auto TilesOf(std::integer_sequence<int, kWindows...>) {
  return std::array<TileFunction, sizeof...(kWindows)>{AddTile<kWindows + 1, kBlocks>...};
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

/// Weights of fewer than 8 bits are unpacked where they are multiplied.
template <int kWindows, int kBlocks, int kBits>
void AddPackedTile(const WindowSums& w, int64_t first) {
  constexpr int kAcross = kBlocks * static_cast<int>(kVectors);
  constexpr int kSteps = 8 / kBits;
  Ops::V sums[size_t{kWindows}][size_t{kAcross}];
#pragma GCC unroll 32
  for (int v = 0; v < kAcross; ++v) {
    const Ops::V start = Ops::LoadSums(w.start + v * Ops::kLanes);
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) sums[i][v] = start;
  }
  const int8_t* weights = w.weights;
  for (int64_t run = 0; run < w.run_count; ++run) {
    for (int64_t step = 0; step < w.run_steps; step += kSteps) {
      const int64_t at = w.runs[run] + step * kStepInputs;
      Ops::V packed[size_t{kAcross}];
#pragma GCC unroll 32
      for (int v = 0; v < kAcross; ++v) packed[v] = Ops::LoadPacked(weights + v * Ops::kBytes);
      weights += kAcross * Ops::kBytes;
#pragma GCC unroll 4
      for (int s = 0; s < kSteps; ++s) {
        Ops::W factors[size_t{kAcross}];
#pragma GCC unroll 32
        for (int v = 0; v < kAcross; ++v) factors[v] = Ops::template Unpacked<kBits>(packed[v], s);
#pragma GCC unroll 32
        for (int i = 0; i < kWindows; ++i) {
          const Ops::X x = Ops::Broadcast(w.windows[first + i] + at + s * kStepInputs);
#pragma GCC unroll 32
          for (int v = 0; v < kAcross; ++v) sums[i][v] = Ops::AddProducts(sums[i][v], x, factors[v]);
        }
      }
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) FinishWindow<kBlocks>(w, sums[i], w.results[first + i]);
}

template <int kBlocks, int kBits>
void AddPackedTiles(const WindowSums& w) {
  constexpr int64_t kMost = 3;
  int64_t first = 0;
  for (; first + kMost <= w.count; first += kMost) AddPackedTile<kMost, kBlocks, kBits>(w, first);
  for (; first < w.count; ++first) AddPackedTile<1, kBlocks, kBits>(w, first);
}

template <int... kBlocks>
void AddGroup(const WindowSums& w, std::integer_sequence<int, kBlocks...>) {
  const auto add = [&]<int kCount>() {
    if (w.bits == 8) return AddTiles<kCount>(w);
    return w.bits == 4 ? AddPackedTiles<kCount, 4>(w) : AddPackedTiles<kCount, 2>(w);
  };
  static_cast<void>(
      ((w.blocks == kBlocks + 1 ? (add.template operator()<kBlocks + 1>(), true) : false) || ...));
}

void AddWindows(const WindowSums& w) { AddGroup(w, std::make_integer_sequence<int, kMostBlocks>()); }

/// Four taps of a vector of channels become four vectors of sums, each lane that of one channel: bytes are
/// interleaved within 16 bytes, so lane l of vector q holds channel l / 4 * 16 + q * 4 + l % 4.
void AddDepthwise(const DepthwiseSums& d) {
  int64_t chunk = 0;
  for (int64_t at = 0; at < d.bytes; at += Ops::kBytes) {
    const int64_t count = std::min<int64_t>(Ops::kBytes, d.bytes - at);
    Ops::V sums[4];
    for (int q = 0; q < 4; ++q) sums[q] = Ops::LoadSums(d.start + chunk * Ops::kBytes + q * Ops::kLanes);
    const int8_t* weights = d.weights + chunk * d.quads * 4 * Ops::kBytes;
    for (int64_t quad = 0; quad < d.quads; ++quad) {
      const int64_t* taps = d.taps + 4 * quad;
      const uint8_t* x = d.input + at;
      const Ops::V a = Ops::LoadBytes(x + taps[0]);
      const Ops::V b = Ops::LoadBytes(x + taps[1]);
      const Ops::V c = Ops::LoadBytes(x + taps[2]);
      const Ops::V e = Ops::LoadBytes(x + taps[3]);
      const Ops::V low_ab = Ops::LowBytes(a, b);
      const Ops::V high_ab = Ops::HighBytes(a, b);
      const Ops::V low_ce = Ops::LowBytes(c, e);
      const Ops::V high_ce = Ops::HighBytes(c, e);
      const Ops::V mixed[4] = {Ops::LowPairs(low_ab, low_ce), Ops::HighPairs(low_ab, low_ce),
                               Ops::LowPairs(high_ab, high_ce), Ops::HighPairs(high_ab, high_ce)};
      for (int q = 0; q < 4; ++q) {
        sums[q] =
            Ops::AddProducts(sums[q], Ops::Inputs(mixed[q]), Ops::LoadWeights(weights + q * Ops::kBytes));
      }
      weights += 4 * Ops::kBytes;
    }
    FinishInterleaved(d.finish, chunk * Ops::kBytes, sums, d.result + at, count);
    if (++chunk == d.chunks) chunk = 0;
  }
}
