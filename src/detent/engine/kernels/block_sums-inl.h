// Included by target_*.cc behind sums-inl.h and a definition of Blocks: no include guard.

/// Some inputs of a block; returns their sum. `kCount`: so many, if not 0.
template <int64_t kCount>
HWY_INLINE int32_t TakeBytes(const uint8_t* from, int64_t count, const BlockInputs& s, int8_t* to) {
  if constexpr (kCount != 0) count = kCount;
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<int8_t>(static_cast<uint8_t>(from[i] - s.from));
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += to[i];
  return sum;
}

/// Steps as 256 high + low: four lows, four highs, ...
template <int64_t kCount>
HWY_INLINE int32_t TakeValues(const float* from, int64_t count, const BlockInputs& s, int8_t* to) {
  constexpr float kWhole = 0x1.8p23F;  // behind these 24 bits there is no place for a fraction
  constexpr int64_t kMost = 256;
  if constexpr (kCount != 0) count = kCount;
  alignas(64) int32_t steps[kMost];
  alignas(64) int8_t low[kMost];
  alignas(64) int8_t high[kMost];
  int32_t sum = 0;
  for (int64_t first = 0; first < count; first += kMost) {
    const int64_t some = kCount != 0 ? kCount : std::min(kMost, count - first);
    for (int64_t i = 0; i < some; ++i)
      steps[i] = static_cast<int32_t>((from[first + i] / s.scale + kWhole) - kWhole) - s.steps_of;
    for (int64_t i = 0; i < some; ++i) sum += steps[i];
    for (int64_t i = 0; i < some; ++i) low[i] = static_cast<int8_t>(steps[i]);
    for (int64_t i = 0; i < some; ++i) high[i] = static_cast<int8_t>((steps[i] + 128) >> 8);
    int8_t* step = to + 2 * first;
    for (int64_t i = 0; i < some; i += kStepInputs, step += 2 * kStepInputs) {
      const auto bytes = static_cast<size_t>(std::min(kStepInputs, some - i));
      std::memcpy(step, low + i, bytes);
      std::memcpy(step + kStepInputs, high + i, bytes);
    }
  }
  return sum;
}

template <class Element, class Take>
void TakeEachBlock(const BlockInputs& s, const Element* from, int64_t block_bytes, const Take& take) {
  int8_t* to = s.codes;
  int32_t* sums = s.sums;
  for (int64_t group = 0; group < s.positions * s.groups; ++group, from += s.inputs) {
    for (int64_t first = 0; first < s.inputs; first += s.block, to += block_bytes) {
      const int64_t count = std::min(s.block, s.inputs - first);
      if (count < s.steps * kStepInputs) std::memset(to, 0, static_cast<size_t>(block_bytes));
      const int32_t sum = take(from + first, count, to);
      *sums++ = static_cast<int32_t>(static_cast<uint32_t>(s.factor) * static_cast<uint32_t>(sum));
    }
  }
}

void TakeBlocks(const BlockInputs& s) {
  const int64_t bytes = s.steps * kStepInputs;
  if (s.bytes != nullptr) {
    TakeEachBlock(s, s.bytes, bytes, [&](const uint8_t* from, int64_t count, int8_t* to) {
      return count == 32   ? TakeBytes<32>(from, count, s, to)
             : count == 16 ? TakeBytes<16>(from, count, s, to)
                           : TakeBytes<0>(from, count, s, to);
    });
  } else {
    TakeEachBlock(s, s.values, 2 * bytes, [&](const float* from, int64_t count, int8_t* to) {
      return count == 32   ? TakeValues<32>(from, count, s, to)
             : count == 16 ? TakeValues<16>(from, count, s, to)
                           : TakeValues<0>(from, count, s, to);
    });
  }
}

/// Leaves 16 outputs of a window, of which the last may be filled up.
inline void LeaveSteps(const BlockSums& s, const float* steps, int64_t window, int64_t group) {
  const int64_t first = group * kBlockOutputs;
  const int64_t count = std::min(kBlockOutputs, s.outputs - first);
  std::byte* const to = s.results[window] + s.result_offset;
  if (s.finish.gives_values) {
    std::memcpy(to + first * 4, steps, static_cast<size_t>(count) * 4);
    return;
  }
  constexpr float kWhole = 0x1.8p23F;  // behind these 24 bits there is no place for a fraction
  alignas(64) float whole[kBlockOutputs];
  for (int64_t i = 0; i < kBlockOutputs; ++i) {
    const float below = steps[i] < s.finish.most ? steps[i] : s.finish.most;
    const float held = below > s.finish.least ? below : s.finish.least;
    whole[i] = (held + kWhole) - kWhole;
  }
  if (s.unit != 0) {
    for (float& value : whole) value *= s.unit;
    std::memcpy(to + first * 4, whole, static_cast<size_t>(count) * 4);
    return;
  }
  alignas(16) uint8_t bytes[kBlockOutputs];
  for (int64_t i = 0; i < kBlockOutputs; ++i)
    bytes[i] = static_cast<uint8_t>(static_cast<int32_t>(whole[i]) + s.finish.zero);
  std::memcpy(reinterpret_cast<uint8_t*>(to) + first, bytes, static_cast<size_t>(count));
}

/// Weights are unsigned here and inputs signed: with w' = w + offset and x' = x - difference,
/// sum x w = sum x' w' - offset sum x' + difference sum w. Inputs of two bytes are x' = 256 high + low.
template <int kGroups, int kWindows, bool kNibbles, bool kWide>
void AddBlockTile(const BlockSums& s, int64_t window, int64_t group) {
  constexpr int kAcross = kGroups * static_cast<int>(kVectors);
  constexpr int kSteps = kNibbles ? 2 : 1;  // in a vector
  constexpr int kBytes = kWide ? 2 : 1;     // of an input
  const Ops::V table = Blocks::Table(s.table);
  const int64_t blocks = s.tap_count * s.tap_blocks;
  const int64_t group_bytes = blocks * s.steps / kSteps * kBlockBytes;
  const uint8_t* weights = s.weights + group * group_bytes;
  int64_t lanes = group * blocks * kBlockOutputs;  // those of the block's scales
  Blocks::F sums[size_t{kWindows}][size_t{kAcross}];
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) sums[w][v] = Blocks::NoSum();
  }
  int64_t tap = 0;
  int64_t tap_block = 0;
  for (int64_t b = 0; b < blocks; ++b, lanes += kBlockOutputs) {
    const int64_t block = s.taps[tap] + tap_block;
    if (++tap_block == s.tap_blocks) {
      tap_block = 0;
      ++tap;
    }
    const int8_t* inputs[size_t{kWindows}];
    Ops::V low[size_t{kWindows}][size_t{kAcross}];
    Ops::V high[size_t{kWindows}][size_t{kAcross}];
#pragma GCC unroll 16
    for (int w = 0; w < kWindows; ++w) {
      const int64_t at = s.windows[window + w] + block;
      inputs[w] = s.inputs + at * s.steps * kStepInputs * kBytes;
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        low[w][v] = Blocks::Same(s.input_sums[at]);
        if constexpr (kWide) high[w][v] = Ops::Zero();
      }
    }
    for (int64_t step = 0; step < s.steps; step += kSteps) {
      Ops::V packed[size_t{kAcross}];
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v)
        packed[v] = Ops::LoadBytes(weights + v / static_cast<int>(kVectors) * group_bytes +
                                   v % static_cast<int>(kVectors) * Ops::kBytes);
      weights += kBlockBytes;
#pragma GCC unroll 2
      for (int half = 0; half < kSteps; ++half) {
        Ops::V unpacked[size_t{kAcross}];
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          unpacked[v] = !kNibbles   ? packed[v]
                        : half == 0 ? Blocks::OfLow(table, packed[v])
                                    : Blocks::OfHigh(table, packed[v]);
        }
#pragma GCC unroll 16
        for (int w = 0; w < kWindows; ++w) {
          const Ops::W x = Ops::Factors(Blocks::Four(inputs[w]));
#pragma GCC unroll 16
          for (int v = 0; v < kAcross; ++v)
            low[w][v] = Ops::AddProducts(low[w][v], Ops::Inputs(unpacked[v]), x);
          if constexpr (kWide) {
            const Ops::W above = Ops::Factors(Blocks::Four(inputs[w] + kStepInputs));
#pragma GCC unroll 16
            for (int v = 0; v < kAcross; ++v)
              high[w][v] = Ops::AddProducts(high[w][v], Ops::Inputs(unpacked[v]), above);
          }
          inputs[w] += kStepInputs * kBytes;
        }
      }
    }
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) {
      const int64_t at = lanes + v / static_cast<int>(kVectors) * blocks * kBlockOutputs +
                         v % static_cast<int>(kVectors) * Ops::kLanes;
      const Blocks::F scale =
          s.exponents != nullptr ? Blocks::Powers(s.exponents + at) : Blocks::Halves(s.scales + at);
      const Ops::V start = s.difference == 0 ? Ops::Zero() : Blocks::Times(s.weight_sums + at, s.difference);
#pragma GCC unroll 16
      for (int w = 0; w < kWindows; ++w) {
        if constexpr (kWide) low[w][v] = Ops::Sum(low[w][v], Blocks::Times256(high[w][v]));
        sums[w][v] = Blocks::AddScaled(sums[w][v], Ops::Sum(low[w][v], start), scale);
      }
    }
  }
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
    alignas(64) float steps[size_t{kAcross} * Ops::kLanes];
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v)
      Blocks::StoreSteps(sums[w][v], s.multiplier, s.start + group * kBlockOutputs + v * Ops::kLanes,
                         steps + v * Ops::kLanes);
    for (int64_t g = 0; g < kGroups; ++g) LeaveSteps(s, steps + g * kBlockOutputs, window + w, group + g);
  }
}

template <int kGroups, int kWindows, bool kNibbles, bool kWide>
void AddBlockWindows(const BlockSums& s, int64_t group) {
  int64_t window = 0;
  for (; window + kWindows <= s.count; window += kWindows)
    AddBlockTile<kGroups, kWindows, kNibbles, kWide>(s, window, group);
  for (; window < s.count; ++window) AddBlockTile<kGroups, 1, kNibbles, kWide>(s, window, group);
}

template <bool kNibbles, bool kWide>
void AddBlockTiles(const BlockSums& s) {
  constexpr int kMost = Blocks::kMostGroups;
  constexpr int kTile = Blocks::kTileGroups;
  int64_t group = s.first_group;
  for (; s.count < Blocks::kTileWindows && group + kMost <= s.last_group; group += kMost)
    AddBlockWindows<kMost, 1, kNibbles, kWide>(s, group);
  for (; group + kTile <= s.last_group; group += kTile)
    AddBlockWindows<kTile, Blocks::kTileWindows, kNibbles, kWide>(s, group);
  for (; group < s.last_group; ++group) AddBlockWindows<1, Blocks::kTileWindows, kNibbles, kWide>(s, group);
}

void AddBlocksOfInputs(const BlockSums& s) {
  if (s.wide) {
    s.nibbles ? AddBlockTiles<true, true>(s) : AddBlockTiles<false, true>(s);
  } else {
    s.nibbles ? AddBlockTiles<true, false>(s) : AddBlockTiles<false, false>(s);
  }
}
