// Included by target_*.cc: loops that the compiler turns into vectors of the instruction set.

/// Ties to even, as CodeType::at.
inline uint8_t StepsToByte(float steps, float least, float most, int32_t zero) {
  const float below = steps < most ? steps : most;
  const float held = below > least ? below : least;
  constexpr float kWhole = 0x1.8p23F;
  return static_cast<uint8_t>(static_cast<int32_t>((held + kWhole) - kWhole) + zero);
}

/// Division by the scale is slow, so its reciprocal is tried: where no product is so near to the middle of
/// two codes that rounding of the product and of the reciprocal (2^-22 of it) could matter, the codes are
/// those of the quotient.
inline bool AddRun(const ByteAddition& s, const uint8_t* a, const uint8_t* b, uint8_t* result,
                   int64_t count) {
  const float reciprocal = 1 / s.scale;
  constexpr float kWhole = 0x1.8p23F;
  constexpr float kNear = 0.5F - 0x1p-12F;
  int32_t near = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(int32_t{a[i]} - s.zero_a) * s.scale_a;
    const float y = static_cast<float>(int32_t{b[i]} - s.zero_b) * s.scale_b;
    const float steps = (x + y) * reciprocal;
    const float below = steps < s.most ? steps : s.most;
    const float held = below > s.least ? below : s.least;
    const float whole = (held + kWhole) - kWhole;
    const float away = held - whole;
    const float distance = away < 0 ? -away : away;
    near |= distance > kNear ? 1 : 0;
    result[i] = static_cast<uint8_t>(static_cast<int32_t>(whole) + s.zero);
  }
  return near == 0;
}

/// False where it is not sure, or the instruction set has no vectors of that length.
template <class O = Ops>
inline bool AddsWhole(const ByteAddition& s, const uint8_t* a, const uint8_t* b, uint8_t* result,
                      int64_t run) {
  if constexpr (kPacksBytes) {
    return run == O::kBytes && O::AddVector(s, a, b, result);
  } else {
    return false;
  }
}

void Add(const ByteAddition& p, const uint8_t* a, const uint8_t* b, uint8_t* result, int64_t count) {
  constexpr int64_t kRun = 64;
  const ByteAddition s = p;
  uint8_t tried[kRun];
  for (int64_t first = 0; first < count; first += kRun) {
    const int64_t run = std::min(kRun, count - first);
    if (AddsWhole(s, a + first, b + first, result + first, run)) continue;
    const bool sure = run == kRun ? AddRun(s, a + first, b + first, tried, kRun)
                                  : AddRun(s, a + first, b + first, tried, run);
    if (sure) {
      std::memcpy(result + first, tried, static_cast<size_t>(run));
      continue;
    }
    for (int64_t i = first; i < first + run; ++i) {
      const float x = static_cast<float>(int32_t{a[i]} - s.zero_a) * s.scale_a;
      const float y = static_cast<float>(int32_t{b[i]} - s.zero_b) * s.scale_b;
      result[i] = StepsToByte((x + y) / s.scale, s.least, s.most, s.zero);
    }
  }
}

bool Quantize(const ByteQuantization& q, const float* values, uint8_t* __restrict result, int64_t count) {
  const ByteQuantization s = q;
  int32_t unordered = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float x = values[i];
    unordered |= x != x ? 1 : 0;
    result[i] = StepsToByte(x / s.scale, s.least, s.most, s.zero);
  }
  return unordered != 0;
}

void Dequantize(float scale, int32_t zero, const uint8_t* __restrict bytes, float* __restrict result,
                int64_t count) {
  for (int64_t i = 0; i < count; ++i) result[i] = static_cast<float>(int32_t{bytes[i]} - zero) * scale;
}

void LookUp(const uint8_t* table, const uint8_t* bytes, uint8_t* result, int64_t count) {
  for (int64_t i = 0; i < count; ++i) result[i] = table[bytes[i]];
}

void Largest(const uint8_t* const* rows, int64_t row_count, uint8_t* result, int64_t count) {
  for (int64_t i = 0; i < count; i += Ops::kBytes) {
    Ops::V largest = Ops::LoadBytes(rows[0] + i);
    for (int64_t r = 1; r < row_count; ++r) largest = Ops::LargerBytes(largest, Ops::LoadBytes(rows[r] + i));
    Ops::StoreBytes(largest, result + i, count - i);
  }
}

void Mean(const ByteMean& m, const uint8_t* const* rows, int64_t row_count, uint8_t* result, int64_t count) {
  constexpr int64_t kChunk = 256;
  int32_t sums[kChunk];
  for (int64_t first = 0; first < count; first += kChunk) {
    const int64_t chunk = std::min(kChunk, count - first);
    for (int64_t i = 0; i < chunk; ++i) sums[i] = -m.zero_sum;
    for (int64_t r = 0; r < row_count; ++r) {
      const uint8_t* row = rows[r] + first;
      for (int64_t i = 0; i < chunk; ++i) sums[i] += row[i];
    }
    const SumFinish& f = m.finish;
    if (f.fixed == nullptr) {
      const float multiplier = *f.multiplier;
      for (int64_t i = 0; i < chunk; ++i) {
        result[first + i] = StepsToByte(static_cast<float>(sums[i]) * multiplier, f.least, f.most, f.zero);
      }
      continue;
    }
    for (int64_t i = 0; i < chunk; ++i) {
      const auto steps = static_cast<float>(fixed_product(sums[i], *f.fixed));
      result[first + i] = StepsToByte(steps, f.least, f.most, f.zero);
    }
  }
}
