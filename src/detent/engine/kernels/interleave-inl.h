// Included within Ops by target_avx*.cc.

/// Sixteen bytes of each of three planes: byte i of the result is byte i / 3 of plane i % 3.
static void InterleaveSixteen(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* to) {
  // Which byte of a plane each byte of the three parts of the result is; 128 and above: of another plane.
  static constexpr auto kFrom = [] {
    std::array<std::array<std::array<uint8_t, 16>, 3>, 3> from{};
    for (size_t i = 0; i < 48; ++i) {
      for (size_t plane = 0; plane < 3; ++plane)
        from[i / 16][plane][i % 16] = i % 3 == plane ? static_cast<uint8_t>(i / 3) : uint8_t{0x80};
    }
    return from;
  }();
  const auto load = [](const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
  const __m128i planes[3] = {load(a), load(b), load(c)};
  for (size_t part = 0; part < 3; ++part) {
    const auto moved = [&](size_t plane) {
      return _mm_shuffle_epi8(planes[plane], load(kFrom[part][plane].data()));
    };
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16 * part),
                     _mm_or_si128(moved(0), _mm_or_si128(moved(1), moved(2))));
  }
}

/// Sixteen bytes of each of four rows, less `middle`: byte i of the result is byte i / 4 of row i % 4.
static void InterleaveRows(const uint8_t* const* rows, uint8_t middle, int8_t* to) {
  const __m128i less = _mm_set1_epi8(static_cast<int8_t>(middle));
  const auto load = [&](size_t row) {
    return _mm_sub_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[row])), less);
  };
  const auto store = [&](int64_t at, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(to + at), v); };
  const __m128i a = load(0);
  const __m128i b = load(1);
  const __m128i c = load(2);
  const __m128i e = load(3);
  const __m128i low_ab = _mm_unpacklo_epi8(a, b);
  const __m128i high_ab = _mm_unpackhi_epi8(a, b);
  const __m128i low_ce = _mm_unpacklo_epi8(c, e);
  const __m128i high_ce = _mm_unpackhi_epi8(c, e);
  store(0, _mm_unpacklo_epi16(low_ab, low_ce));
  store(16, _mm_unpackhi_epi16(low_ab, low_ce));
  store(32, _mm_unpacklo_epi16(high_ab, high_ce));
  store(48, _mm_unpackhi_epi16(high_ab, high_ce));
}
