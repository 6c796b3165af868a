// Included by target_avx512*.cc.

/// A table for four bits.
struct Blocks : CommonBlocks {
  static V OfLow(V table, V packed) {
    return _mm512_shuffle_epi8(table, _mm512_and_si512(packed, _mm512_set1_epi8(15)));
  }
  static V OfHigh(V table, V packed) { return OfLow(table, _mm512_srli_epi16(packed, 4)); }
};
