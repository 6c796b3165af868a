// Included by target_*.cc after sums-inl.h and a definition of Blocks: no include guard.

/// Leaves 16 outputs of a window, of which the last may be filled up.
inline void LeaveSteps(const BlockSums& s, const float* steps, int64_t window, int64_t group) {
  const int64_t first = group * kBlockOutputs;
  const int64_t count = std::min(kBlockOutputs, s.outputs - first);
  std::byte* const to = s.results[window] + s.result_offset;
  if (s.finish.gives_values) {
    std::memcpy(to + first * 4, steps, static_cast<size_t>(count) * 4);
    return;
  }
  constexpr float kWhole = 0x1.8p23F;  // after these 24 bits there is no place for a fraction
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

// Weights are unsigned here and inputs signed: with w' = w + offset and x' = x - difference,
// sum x w = sum x' w' - offset sum x' + difference sum w. Inputs of two bytes are x' = 256 high + low.

/// How weights are stored. Large ones are above kMostSmallWeight, so that 16 bits do not hold four products.
enum class BlockCodes { kBytes, kNibbles, kLargeNibbles };

/// Adds the products of a vector of weights of each group, and goes on to the inputs after them.
template <int kWindows, int kAcross, BlockCodes kCodes, bool kWide>
HWY_INLINE void AddBlockVector(Ops::V table, const Ops::V (&packed)[size_t{kAcross}],
                               const int8_t* (&inputs)[size_t{kWindows}],
                               Ops::V (&low)[size_t{kWindows}][size_t{kAcross}],
                               Ops::V (&high)[size_t{kWindows}][size_t{kAcross}]) {
  constexpr int kSteps = kCodes == BlockCodes::kBytes ? 1 : 2;
  constexpr int64_t kStepBytes = kStepInputs * (kWide ? 2 : 1);
  Ops::V weights[size_t{kSteps}][size_t{kAcross}];
#pragma GCC unroll 16
  for (int v = 0; v < kAcross; ++v) {
    weights[0][v] = kCodes == BlockCodes::kBytes ? packed[v] : Blocks::OfLow(table, packed[v]);
    if constexpr (kSteps == 2) weights[1][v] = Blocks::OfHigh(table, packed[v]);
  }
  if constexpr (kCodes == BlockCodes::kNibbles) {
    const auto add = [&](int w, int64_t at, Ops::V(&sums)[size_t{kAcross}]) {
      const Ops::V x = Blocks::Four(inputs[w] + at);
      const Ops::V next = Blocks::Four(inputs[w] + kStepBytes + at);
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v)
        sums[v] = Ops::AddSmallProducts(sums[v], weights[0][v], x, weights[1][v], next);
    };
#pragma GCC unroll 16
    for (int w = 0; w < kWindows; ++w) {
      add(w, 0, low[w]);
      if constexpr (kWide) add(w, kStepInputs, high[w]);
    }
  } else {
    const auto add = [&](int step, int w, int64_t at, Ops::V(&sums)[size_t{kAcross}]) {
      const Ops::W x = Ops::Factors(Blocks::Four(inputs[w] + step * kStepBytes + at));
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) sums[v] = Ops::AddProducts(sums[v], Ops::Inputs(weights[step][v]), x);
    };
#pragma GCC unroll 2
    for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
      for (int w = 0; w < kWindows; ++w) {
        add(step, w, 0, low[w]);
        if constexpr (kWide) add(step, w, kStepInputs, high[w]);
      }
    }
  }
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) inputs[w] += kSteps * kStepBytes;
}

/// Brings the scales nearer that lie so many lanes after these.
HWY_INLINE void FetchScales(const BlockSums& s, int64_t at, int64_t ahead) {
  const void* const next = s.exponents != nullptr ? static_cast<const void*>(s.exponents + at + ahead)
                           : s.scales != nullptr  ? static_cast<const void*>(s.scales + at + ahead)
                                                  : s.whole_scales + at + ahead;
  __builtin_prefetch(next, 0, 2);
}

/// The sums of a tile, in steps of the result.
template <int kGroups, int kWindows>
HWY_INLINE void LeaveBlockTile(const BlockSums& s,
                               const Blocks::F (&sums)[size_t{kWindows}][size_t{kGroups} * kVectors],
                               int64_t window, int64_t group) {
  constexpr int kAcross = kGroups * static_cast<int>(kVectors);
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

/// Where sums of a block begin: at what its inputs add to all.
template <int kWindows, int kAcross, bool kWide>
HWY_INLINE void StartBlock(const int32_t* (&input_sums)[size_t{kWindows}],
                           Ops::V (&low)[size_t{kWindows}][size_t{kAcross}],
                           Ops::V (&high)[size_t{kWindows}][size_t{kAcross}]) {
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
    const Ops::V start = Ops::Same(*input_sums[w]++);
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) {
      low[w][v] = start;
      if constexpr (kWide) high[w][v] = Ops::Zero();
    }
  }
}

template <int kGroups, int kWindows, BlockCodes kCodes, bool kWide>
void AddBlockTile(const BlockSums& s, int64_t window, int64_t group) {
  constexpr int kOfGroup = static_cast<int>(kVectors);
  constexpr int kAcross = kGroups * kOfGroup;
  constexpr int kSteps = kCodes == BlockCodes::kBytes ? 1 : 2;  // in a vector
  const Ops::V table = Blocks::Table(s.table);
  const int64_t block_bytes = s.steps * kStepInputs * (kWide ? 2 : 1);
  const int64_t blocks = s.tap_count * s.tap_blocks;
  const int64_t group_bytes = blocks * s.steps / kSteps * kBlockBytes;
  const uint8_t* weights = s.weights + group * group_bytes;
  int64_t lane = group * blocks * kBlockOutputs;  // of the block's scales
  // The first windows bring the groups nearer that come after these.
  const int64_t groups_ahead = window == 0 ? kGroups : 0;
  Blocks::F sums[size_t{kWindows}][size_t{kAcross}];
#pragma GCC unroll 16
  for (int w = 0; w < kWindows; ++w) {
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) sums[w][v] = Blocks::NoSum();
  }
  for (int64_t tap = 0; tap < s.tap_count; ++tap) {
    const int8_t* inputs[size_t{kWindows}];
    const int32_t* input_sums[size_t{kWindows}];
#pragma GCC unroll 16
    for (int w = 0; w < kWindows; ++w) {
      const int64_t block = s.windows[window + w] + s.taps[tap];
      inputs[w] = s.inputs + block * block_bytes;
      input_sums[w] = s.input_sums + block;
    }
    for (int64_t b = 0; b < s.tap_blocks; ++b, lane += kBlockOutputs) {
      Ops::V low[size_t{kWindows}][size_t{kAcross}];
      Ops::V high[size_t{kWindows}][size_t{kAcross}];
      StartBlock<kWindows, kAcross, kWide>(input_sums, low, high);
      for (int64_t step = 0; step < s.steps; step += kSteps, weights += kBlockBytes) {
        Ops::V packed[size_t{kAcross}];
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) {
          const uint8_t* const from = weights + v / kOfGroup * group_bytes + v % kOfGroup * Ops::kBytes;
          packed[v] = Ops::LoadBytes(from);
          if (v % kOfGroup == 0) __builtin_prefetch(from + groups_ahead * group_bytes, 0, 2);
        }
        AddBlockVector<kWindows, kAcross, kCodes, kWide>(table, packed, inputs, low, high);
      }
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        const int64_t at = lane + v / kOfGroup * blocks * kBlockOutputs + v % kOfGroup * Ops::kLanes;
        if (v % kOfGroup == 0) FetchScales(s, at, groups_ahead * blocks * kBlockOutputs);
        const Blocks::F scale = s.exponents != nullptr ? Blocks::Powers(s.exponents + at)
                                : s.scales != nullptr  ? Blocks::Halves(s.scales + at)
                                                       : Blocks::Whole(s.whole_scales + at);
        const Ops::V start =
            s.difference == 0 ? Ops::Zero() : Blocks::Times(s.weight_sums + at, s.difference);
#pragma GCC unroll 16
        for (int w = 0; w < kWindows; ++w) {
          if constexpr (kWide) low[w][v] = Ops::Sum(low[w][v], Ops::Times256(high[w][v]));
          sums[w][v] = Blocks::AddScaled(sums[w][v], Ops::Sum(low[w][v], start), scale);
        }
      }
    }
  }
  LeaveBlockTile<kGroups, kWindows>(s, sums, window, group);
}

template <int kGroups, int kWindows, BlockCodes kCodes, bool kWide>
void AddBlockWindows(const BlockSums& s, int64_t group) {
  int64_t window = 0;
  for (; window + kWindows <= s.count; window += kWindows)
    AddBlockTile<kGroups, kWindows, kCodes, kWide>(s, window, group);
  for (; window < s.count; ++window) AddBlockTile<kGroups, 1, kCodes, kWide>(s, window, group);
}

template <BlockCodes kCodes, bool kWide>
void AddBlockTiles(const BlockSums& s) {
  constexpr int kMost = Blocks::kMostGroups;
  constexpr int kTile = Blocks::kTileGroups;
  int64_t group = s.first_group;
  for (; s.count < Blocks::kTileWindows && group + kMost <= s.last_group; group += kMost)
    AddBlockWindows<kMost, 1, kCodes, kWide>(s, group);
  for (; group + kTile <= s.last_group; group += kTile)
    AddBlockWindows<kTile, Blocks::kTileWindows, kCodes, kWide>(s, group);
  for (; group < s.last_group; ++group) AddBlockWindows<1, Blocks::kTileWindows, kCodes, kWide>(s, group);
}

template <BlockCodes kCodes>
void AddBlocksOf(const BlockSums& s) {
  s.wide ? AddBlockTiles<kCodes, true>(s) : AddBlockTiles<kCodes, false>(s);
}

template <class O = Ops>
void AddNibbles(const BlockSums& s) {
  if constexpr (!O::kAddsFour) {
    if (!s.is_small) return AddBlocksOf<BlockCodes::kLargeNibbles>(s);
  }
  AddBlocksOf<BlockCodes::kNibbles>(s);
}

void AddBlocksOfInputs(const BlockSums& s) { s.nibbles ? AddNibbles(s) : AddBlocksOf<BlockCodes::kBytes>(s); }
