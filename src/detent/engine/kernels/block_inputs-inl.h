// Included by target_*.cc: inputs of layers whose weights share scales in blocks. No include guard.

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
  constexpr float kWhole = 0x1.8p23F;  // after these 24 bits there is no place for a fraction
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
