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

/// By division.
inline void AddExactly(const ByteAddition& s, const uint8_t* a, const uint8_t* b, uint8_t* __restrict result,
                       int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(int32_t{a[i]} - s.zero_a) * s.scale_a;
    const float y = static_cast<float>(int32_t{b[i]} - s.zero_b) * s.scale_b;
    result[i] = StepsToByte((x + y) / s.scale, s.least, s.most, s.zero);
  }
}

/// Additions of whole vectors; false where it is not sure.
template <class O = Ops>
inline bool AddVector(const ByteAddition& s, const uint8_t* a, const uint8_t* b, uint8_t* result) {
  if constexpr (kPacksBytes) {
    const typename O::Cut cut({.least = s.least, .most = s.most, .zero = s.zero});
    return s.quick.most_away > 0 && O::AddVector(s.quick, a, b, result, cut);
  }
  return false;
}

/// Fewer bytes than a vector has, of which the first fills it up.
inline bool AddFilledUp(const ByteAddition& s, const uint8_t* a, const uint8_t* b, uint8_t* result,
                        int64_t count) {
  if (!kPacksBytes || s.quick.most_away <= 0) return false;
  constexpr size_t kRun = 64;
  uint8_t x[kRun], y[kRun], sums[kRun];
  std::memset(x, a[0], kRun);
  std::memset(y, b[0], kRun);
  std::memcpy(x, a, static_cast<size_t>(count));
  std::memcpy(y, b, static_cast<size_t>(count));
  if (!AddVector(s, x, y, sums)) return false;
  std::memcpy(result, sums, static_cast<size_t>(count));
  return true;
}

void Add(const ByteAddition& p, const uint8_t* a, const uint8_t* b, uint8_t* result, int64_t count) {
  constexpr int64_t kRun = 64;
  const ByteAddition s = p;
  uint8_t tried[kRun];
  for (int64_t first = 0; first < count; first += kRun) {
    const int64_t run = std::min(kRun, count - first);
    if (run == kRun && AddVector(s, a + first, b + first, result + first)) continue;
    if (run < kRun && AddFilledUp(s, a + first, b + first, result + first, run)) continue;
    // AddRun is not sure either where vectors are not.
    if (run < kRun) {
      if (!AddRun(s, a + first, b + first, tried, run)) AddExactly(s, a + first, b + first, tried, run);
    } else if (kPacksBytes || !AddRun(s, a + first, b + first, tried, kRun)) {
      AddExactly(s, a + first, b + first, tried, kRun);
    }
    std::memcpy(result + first, tried, static_cast<size_t>(run));
  }
}

/// As AddRun. Four roundings there and two here are less than 6 * 2^-24 of 257 steps apart.
inline bool MultiplyRun(const ByteProduct& s, float factor, const uint8_t* a, const uint8_t* b,
                        uint8_t* __restrict result, int64_t count) {
  constexpr float kWhole = 0x1.8p23F;
  constexpr float kMostAway = 0.5F - 0x1p-12F;
  int32_t near = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float steps = static_cast<float>((int32_t{a[i]} - s.zero_a) * (int32_t{b[i]} - s.zero_b)) * factor;
    const float below = steps < s.most ? steps : s.most;
    const float held = below > s.least ? below : s.least;
    const float whole = (held + kWhole) - kWhole;
    const float away = held - whole;
    const float distance = away < 0 ? -away : away;
    near |= distance > kMostAway ? 1 : 0;
    result[i] = static_cast<uint8_t>(static_cast<int32_t>(whole) + s.zero);
  }
  return near == 0;
}

inline void MultiplyExactly(const ByteProduct& s, const uint8_t* a, const uint8_t* b,
                            uint8_t* __restrict result, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = static_cast<float>(int32_t{a[i]} - s.zero_a) * s.scale_a;
    const float y = static_cast<float>(int32_t{b[i]} - s.zero_b) * s.scale_b;
    result[i] = StepsToByte(x * y / s.scale, s.least, s.most, s.zero);
  }
}

void Multiply(const ByteProduct& p, const uint8_t* a, const uint8_t* b, uint8_t* result, int64_t count) {
  constexpr int64_t kRun = 64;
  const ByteProduct s = p;
  const auto factor = static_cast<float>(double{s.scale_a} * double{s.scale_b} / double{s.scale});
  uint8_t products[kRun];  // `result` may be an operand
  for (int64_t first = 0; first < count; first += kRun) {
    const int64_t run = std::min(kRun, count - first);
    const uint8_t* const x = a + first;
    const uint8_t* const y = b + first;
    if (run < kRun) {
      if (!MultiplyRun(s, factor, x, y, products, run)) MultiplyExactly(s, x, y, products, run);
    } else if (!MultiplyRun(s, factor, x, y, products, kRun)) {
      MultiplyExactly(s, x, y, products, kRun);
    }
    std::memcpy(result + first, products, static_cast<size_t>(run));
  }
}

/// By the reciprocal, as AddRun; false too where a value is NaN.
inline bool QuantizeRun(const ByteQuantization& s, const float* values, uint8_t* __restrict result,
                        int64_t count) {
  const float reciprocal = 1 / s.scale;
  constexpr float kWhole = 0x1.8p23F;
  constexpr float kMostAway = 0.5F - 0x1p-12F;
  int32_t near = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float steps = values[i] * reciprocal;
    const float below = steps < s.most ? steps : s.most;
    const float held = below > s.least ? below : s.least;
    const float whole = (held + kWhole) - kWhole;
    const float away = held - whole;
    const float distance = away < 0 ? -away : away;
    near |= distance > kMostAway || steps != steps ? 1 : 0;
    result[i] = static_cast<uint8_t>(static_cast<int32_t>(whole) + s.zero);
  }
  return near == 0;
}

template <class O = Ops>
inline bool QuantizesRun(const ByteQuantization& s, const float* values, uint8_t* result, int64_t count) {
  if constexpr (kPacksBytes) {
    if (count == O::kBytes) return O::QuantizeVector(s, values, result);
  }
  return QuantizeRun(s, values, result, count);
}

bool Quantize(const ByteQuantization& q, const float* values, uint8_t* __restrict result, int64_t count) {
  const ByteQuantization s = q;
  constexpr int64_t kRun = 64;
  const bool has_reciprocal = s.scale > 1e-30F && s.scale < 1e30F;
  int32_t unordered = 0;
  for (int64_t first = 0; first < count; first += kRun) {
    const int64_t run = std::min(kRun, count - first);
    if (has_reciprocal && QuantizesRun(s, values + first, result + first, run)) continue;
    for (int64_t i = first; i < first + run; ++i) {
      const float x = values[i];
      unordered |= x != x ? 1 : 0;
      result[i] = StepsToByte(x / s.scale, s.least, s.most, s.zero);
    }
  }
  return unordered != 0;
}

void Split(const WideCodes& codes, const float* values, uint8_t* __restrict low, uint8_t* __restrict high,
           int64_t count) {
  const WideCodes s = codes;
  constexpr float kWhole = 0x1.8p23F;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t code = static_cast<int32_t>((values[i] / s.scale + kWhole) - kWhole) + s.zero;
    low[i] = static_cast<uint8_t>(code);
    high[i] = static_cast<uint8_t>(code >> 8);
  }
}

bool Round(const ValueRounding& rounding, const float* values, float* __restrict result, int64_t count) {
  const ValueRounding s = rounding;
  constexpr float kWhole = 0x1.8p23F;
  int32_t unordered = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float x = values[i];
    unordered |= x != x ? 1 : 0;
    const float steps = x / s.unit;
    const float below = steps < s.most ? steps : s.most;
    const float held = below > s.least ? below : s.least;
    result[i] = ((held + kWhole) - kWhole) * s.scale;
  }
  return unordered != 0;
}

/// How many bytes of each plane vectors have done.
template <class O = Ops>
inline int64_t InterleaveVectors(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* result,
                                 int64_t count) {
  int64_t i = 0;
  if constexpr (requires { &O::InterleaveSixteen; }) {
    for (; i + 16 <= count; i += 16) O::InterleaveSixteen(a + i, b + i, c + i, result + 3 * i);
  }
  return i;
}

void InterleaveThree(const uint8_t* const* planes, uint8_t* __restrict result, int64_t count) {
  const uint8_t* a = planes[0];
  const uint8_t* b = planes[1];
  const uint8_t* c = planes[2];
  for (int64_t i = InterleaveVectors(a, b, c, result, count); i < count; ++i) {
    result[3 * i] = a[i];
    result[3 * i + 1] = b[i];
    result[3 * i + 2] = c[i];
  }
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
