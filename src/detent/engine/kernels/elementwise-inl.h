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

/// MultiplyRun of whole vectors, where steps fit into 32 bits.
template <class O = Ops>
inline bool MultiplyVector(const ByteProduct& s, float factor, const uint8_t* a, const uint8_t* b,
                           uint8_t* result) {
  if constexpr (kPacksBytes) {
    const typename O::Cut cut({.least = s.least, .most = s.most, .zero = s.zero});
    return O::MultiplyVector(s, factor, a, b, result, cut);
  }
  return false;
}

/// As AddRun. Four roundings there and two here are less than 6 * 2^-24 of 257 steps apart.
inline bool MultiplyRun(const ByteProduct& s, float factor, const uint8_t* a, const uint8_t* b,
                        uint8_t* __restrict result, int64_t count) {
  constexpr float kWhole = 0x1.8p23F;
  constexpr float kMostAway = 0.5F - 0x1p-12F;
  int32_t near = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<float>(int32_t{a[i]} - s.zero_a);
    const auto y = static_cast<float>(int32_t{b[i]} - s.zero_b);
    const float steps = x * y * factor;
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
  const bool packs = kPacksBytes && factor < 0x1p14F;
  uint8_t products[kRun];  // `result` may be an operand
  for (int64_t first = 0; first < count; first += kRun) {
    const int64_t run = std::min(kRun, count - first);
    const uint8_t* const x = a + first;
    const uint8_t* const y = b + first;
    if (packs && run == kRun && MultiplyVector(s, factor, x, y, result + first)) continue;
    if (run < kRun) {
      if (!MultiplyRun(s, factor, x, y, products, run)) MultiplyExactly(s, x, y, products, run);
    } else if (packs || !MultiplyRun(s, factor, x, y, products, kRun)) {
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

/// Codes of values that are whole numbers of scales, at most 65,535: the product with a reciprocal is near
/// the same.
inline void CodesOf(const WideCodes& codes, const float* values, int32_t* __restrict result, int64_t count) {
  const WideCodes s = codes;
  constexpr float kWhole = 0x1.8p23F;
  if (s.scale > 1e-30F && s.scale < 1e30F) {
    const float reciprocal = 1 / s.scale;
    for (int64_t i = 0; i < count; ++i)
      result[i] = static_cast<int32_t>((values[i] * reciprocal + kWhole) - kWhole) + s.zero;
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    result[i] = static_cast<int32_t>((values[i] / s.scale + kWhole) - kWhole) + s.zero;
}

constexpr int64_t kCodesAtOnce = 256;

void Split(const WideCodes& s, const float* values, uint8_t* __restrict low, uint8_t* __restrict high,
           int64_t count) {
  int32_t codes[kCodesAtOnce];
  for (int64_t first = 0; first < count; first += kCodesAtOnce) {
    const int64_t some = std::min(kCodesAtOnce, count - first);
    CodesOf(s, values + first, codes, some);
    for (int64_t i = 0; i < some; ++i) {
      low[first + i] = static_cast<uint8_t>(codes[i]);
      high[first + i] = static_cast<uint8_t>(codes[i] >> 8);
    }
  }
}

void LookUpWide(const WideTable& table, const float* values, float* result, int64_t count) {
  const WideTable s = table;
  int32_t codes[kCodesAtOnce];
  for (int64_t first = 0; first < count; first += kCodesAtOnce) {
    const int64_t some = std::min(kCodesAtOnce, count - first);
    CodesOf(s.from, values + first, codes, some);
    for (int64_t i = 0; i < some; ++i) codes[i] = s.codes[codes[i]];
    for (int64_t i = 0; i < some; ++i)
      result[first + i] = static_cast<float>(codes[i] - s.result_zero) * s.result_scale;
  }
}

bool Round(const ValueRounding& rounding, const float* values, float* result, int64_t count) {
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

/// Sums over rows of the bytes of a vector that begins at `first` of each.
inline void SumBytes(const uint8_t* const* rows, int64_t row_count, int64_t first, int32_t* sums) {
  constexpr int64_t kFewRows = 257;  // whose bytes add up to 16 bits
  std::fill_n(sums, Ops::kBytes, 0);
  for (int64_t begin = 0; begin < row_count; begin += kFewRows) {
    const int64_t end = std::min(row_count, begin + kFewRows);
    Ops::V low = Ops::Zero();
    Ops::V high = Ops::Zero();
    for (int64_t r = begin; r < end; ++r) {
      const Ops::V bytes = Ops::LoadBytes(rows[r] + first);
      low = Ops::SumOfPairs(low, Ops::LowBytes(bytes, Ops::Zero()));
      high = Ops::SumOfPairs(high, Ops::HighBytes(bytes, Ops::Zero()));
    }
    uint16_t words[2][Ops::kBytes / 2];
    std::memcpy(words[0], &low, Ops::kBytes);
    std::memcpy(words[1], &high, Ops::kBytes);
    // Halves of 16 bytes each.
    for (int64_t i = 0; i < Ops::kBytes; ++i) sums[i] += words[i / 8 % 2][i / 16 * 8 + i % 8];
  }
}

void Mean(const ByteMean& m, const uint8_t* const* rows, int64_t row_count, uint8_t* result, int64_t count) {
  int32_t sums[Ops::kBytes];
  for (int64_t first = 0; first < count; first += Ops::kBytes) {
    const int64_t chunk = std::min(Ops::kBytes, count - first);
    SumBytes(rows, row_count, first, sums);
    for (int64_t i = 0; i < chunk; ++i) sums[i] -= m.zero_sum;
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
