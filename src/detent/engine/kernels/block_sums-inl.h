// Included by target_*.cc behind sums-inl.h and a definition of Blocks: no include guard.

/// Leaves 16 outputs of a row, of which the last may be filled up.
inline void LeaveSteps(const BlockSums& s, const float* steps, int64_t row, int64_t group) {
  const int64_t first = group * kBlockOutputs;
  const int64_t count = std::min(kBlockOutputs, s.outputs - first);
  std::byte* const to = s.results + row * s.result_row;
  if (s.finish.gives_values) {
    std::memcpy(to + first * 4, steps, static_cast<size_t>(count) * 4);
    return;
  }
  constexpr float kWhole = 0x1.8p23F;  // behind these 24 bits there is no place for a fraction
  alignas(16) uint8_t bytes[kBlockOutputs];
  for (int64_t i = 0; i < kBlockOutputs; ++i) {
    const float below = steps[i] < s.finish.most ? steps[i] : s.finish.most;
    const float held = below > s.finish.least ? below : s.finish.least;
    bytes[i] = static_cast<uint8_t>(static_cast<int32_t>((held + kWhole) - kWhole) + s.finish.zero);
  }
  std::memcpy(reinterpret_cast<uint8_t*>(to) + first, bytes, static_cast<size_t>(count));
}

/// Adds the products of four inputs.
template <int kAcross>
HWY_INLINE void AddStep(const int8_t* inputs, const Ops::V (&weights)[size_t{kAcross}],
                        Ops::V (&products)[size_t{kAcross}]) {
  const Ops::W x = Ops::Factors(Blocks::Four(inputs));
#pragma GCC unroll 16
  for (int v = 0; v < kAcross; ++v) products[v] = Ops::AddProducts(products[v], Ops::Inputs(weights[v]), x);
}

/// Weights are unsigned here and inputs signed: with w' = w + offset and x' = x - difference,
/// sum x w = sum x' w' - offset sum x' + difference sum w.
template <int kGroups, bool kNibbles, bool kPowers>
void AddBlockTile(const BlockSums& s, int64_t row, int64_t group) {
  constexpr int kAcross = kGroups * static_cast<int>(kVectors);
  constexpr int kSteps = kNibbles ? 2 : 1;  // in a vector
  const Ops::V table = Blocks::Table(s.table);
  const int8_t* inputs = s.inputs + row * s.blocks * s.steps * kStepInputs;
  const int64_t group_bytes = s.blocks * s.steps / kSteps * kBlockBytes;
  const uint8_t* weights = s.weights + group * group_bytes;
  const uint8_t* exponents = kPowers ? s.exponents + group * s.blocks * kBlockOutputs : nullptr;
  const uint16_t* scales = kPowers ? nullptr : s.scales + group * s.blocks * kBlockOutputs;
  const int16_t* weight_sums = s.weight_sums + group * s.blocks * kBlockOutputs;
  Blocks::F sums[size_t{kAcross}];
#pragma GCC unroll 16
  for (int v = 0; v < kAcross; ++v) sums[v] = Blocks::NoSum();
  for (int64_t b = 0; b < s.blocks; ++b) {
    Ops::V products[size_t{kAcross}];
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) products[v] = Blocks::Same(s.input_sums[row * s.blocks + b]);
    for (int64_t step = 0; step < s.steps; step += kSteps) {
      Ops::V packed[size_t{kAcross}];
      Ops::V unpacked[size_t{kAcross}];
#pragma GCC unroll 16
      for (int v = 0; v < kAcross; ++v) {
        packed[v] = Ops::LoadBytes(weights + v / static_cast<int>(kVectors) * group_bytes +
                                   v % static_cast<int>(kVectors) * Ops::kBytes);
        unpacked[v] = kNibbles ? Blocks::OfLow(table, packed[v]) : packed[v];
      }
      weights += kBlockBytes;
      AddStep<kAcross>(inputs, unpacked, products);
      inputs += kStepInputs;
      if constexpr (kNibbles) {
#pragma GCC unroll 16
        for (int v = 0; v < kAcross; ++v) unpacked[v] = Blocks::OfHigh(table, packed[v]);
        AddStep<kAcross>(inputs, unpacked, products);
        inputs += kStepInputs;
      }
    }
#pragma GCC unroll 16
    for (int v = 0; v < kAcross; ++v) {
      const int64_t at = (v / static_cast<int>(kVectors) * s.blocks + b) * kBlockOutputs +
                         v % static_cast<int>(kVectors) * Ops::kLanes;
      if (s.difference != 0)
        products[v] = Ops::Sum(products[v], Blocks::Times(weight_sums + at, s.difference));
      const Blocks::F scale = kPowers ? Blocks::Powers(exponents + at) : Blocks::Halves(scales + at);
      sums[v] = Blocks::AddScaled(sums[v], products[v], scale);
    }
  }
  alignas(64) float steps[size_t{kAcross} * Ops::kLanes];
#pragma GCC unroll 16
  for (int v = 0; v < kAcross; ++v)
    Blocks::StoreSteps(sums[v], s.multiplier, s.start + group * kBlockOutputs + v * Ops::kLanes,
                       steps + v * Ops::kLanes);
  for (int64_t g = 0; g < kGroups; ++g) LeaveSteps(s, steps + g * kBlockOutputs, row, group + g);
}

template <bool kNibbles, bool kPowers>
void AddBlockTiles(const BlockSums& s) {
  constexpr int kMost = Blocks::kMostGroups;
  int64_t group = s.first_group;
  for (; group + kMost <= s.last_group; group += kMost) {
    for (int64_t row = 0; row < s.rows; ++row) AddBlockTile<kMost, kNibbles, kPowers>(s, row, group);
  }
  for (; group < s.last_group; ++group) {
    for (int64_t row = 0; row < s.rows; ++row) AddBlockTile<1, kNibbles, kPowers>(s, row, group);
  }
}

void AddBlocksOfInputs(const BlockSums& s) {
  if (s.exponents != nullptr) {
    s.nibbles ? AddBlockTiles<true, true>(s) : AddBlockTiles<false, true>(s);
  } else {
    s.nibbles ? AddBlockTiles<true, false>(s) : AddBlockTiles<false, false>(s);
  }
}
