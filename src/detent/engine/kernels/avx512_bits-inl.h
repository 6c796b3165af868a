// Included by target_avx512*.cc: words of bits, but for how these are counted.

struct CommonBits {
  static constexpr int kWords = 8;
  using B = __m512i;

  static B Load(const int8_t* p) { return _mm512_loadu_si512(p); }
  static B Broadcast(const uint8_t* p) {
    long long word;
    std::memcpy(&word, p, sizeof(word));
    return _mm512_set1_epi64(word);
  }
  static B Same(int64_t count) { return _mm512_set1_epi64(count); }
  static B Common(B a, B b) { return _mm512_and_si512(a, b); }
  static B Differing(B both, B a, B b) {
    constexpr int kFirstIfOthersDiffer = 0x60;  // a & (b ^ c)
    return _mm512_ternarylogic_epi64(both, a, b, kFirstIfOthersDiffer);
  }
  static B More(B a, B b) { return _mm512_add_epi64(a, b); }
  static B Less(B a, B b) { return _mm512_sub_epi64(a, b); }
  static void Narrow(const B* sums, Ops::V* to) {
    const __m512i low = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(sums[0]));
    to[0] = _mm512_inserti64x4(low, _mm512_cvtepi64_epi32(sums[1]), 1);
  }
  static int32_t CountOf(uint64_t bits) { return static_cast<int32_t>(__builtin_popcountll(bits)); }
  /// Which bytes are not `zero`, and which are below.
  static std::pair<uint64_t, uint64_t> Compared(const uint8_t* bytes, uint8_t zero, int64_t /*count*/) {
    const __m512i x = _mm512_loadu_si512(bytes);
    const __m512i zeros = _mm512_set1_epi8(static_cast<int8_t>(zero));
    return {_mm512_cmpneq_epi8_mask(x, zeros), _mm512_cmplt_epu8_mask(x, zeros)};
  }
};
