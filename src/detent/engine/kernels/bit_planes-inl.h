// Included by target_avx512_vnni.cc, with the instruction that counts bits switched on.

void BitPlanes(const uint8_t* bytes, uint8_t zero, int64_t positions, int64_t channels, uint64_t* planes) {
  const __m512i zeros = _mm512_set1_epi8(static_cast<int8_t>(zero));
  for (int64_t position = 0; position < positions; ++position, bytes += channels) {
    for (int64_t first = 0; first < channels; first += kWordInputs) {
      const int64_t missing = std::max<int64_t>(kWordInputs - (channels - first), 0);
      const __mmask64 taken = ~uint64_t{0} >> missing;
      const __m512i x = _mm512_mask_loadu_epi8(zeros, taken, bytes + first);
      *planes++ = _mm512_cmpneq_epi8_mask(x, zeros);
      *planes++ = _mm512_cmplt_epu8_mask(x, zeros);
    }
  }
}

/// With x and w of -1, 0 and 1: both are other than 0 in p places, in d of which their signs differ; the sum
/// of their products is p - 2 d.
template <int kWindows>
void AddBitTile(const WindowSums& w, int64_t first) {
  __m512i both[size_t{kWindows}][2];
  __m512i differing[size_t{kWindows}][2];
#pragma GCC unroll 8
  for (int i = 0; i < kWindows; ++i) {
    both[i][0] = both[i][1] = _mm512_setzero_si512();
    differing[i][0] = differing[i][1] = _mm512_setzero_si512();
  }
  const int8_t* weights = w.weights;
  for (int64_t run = 0; run < w.run_count; ++run) {
    const int64_t offset = w.runs[run];
    for (int64_t word = 0; word < w.run_steps; ++word) {
      const __m512i other[2] = {_mm512_loadu_si512(weights), _mm512_loadu_si512(weights + 64)};
      const __m512i below[2] = {_mm512_loadu_si512(weights + 128), _mm512_loadu_si512(weights + 192)};
      weights += kWordBytes * kBlockOutputs;
#pragma GCC unroll 8
      for (int i = 0; i < kWindows; ++i) {
        long long x[2];
        std::memcpy(x, w.windows[first + i] + offset + word * kWordBytes, sizeof(x));
        const __m512i x_other = _mm512_set1_epi64(x[0]);
        const __m512i x_below = _mm512_set1_epi64(x[1]);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          constexpr int kFirstIfOthersDiffer = 0x60;  // a & (b ^ c)
          const __m512i p = _mm512_and_si512(x_other, other[v]);
          const __m512i d = _mm512_ternarylogic_epi64(p, x_below, below[v], kFirstIfOthersDiffer);
          both[i][v] = _mm512_add_epi64(both[i][v], _mm512_popcnt_epi64(p));
          differing[i][v] = _mm512_add_epi64(differing[i][v], _mm512_popcnt_epi64(d));
        }
      }
    }
  }
  const __m512i start = _mm512_loadu_si512(w.start);
  __m512i sums[size_t{kWindows}][1];
#pragma GCC unroll 8
  for (int i = 0; i < kWindows; ++i) {
    __m256i halves[2];
    for (int v = 0; v < 2; ++v) {
      const __m512i sum = _mm512_sub_epi64(both[i][v], _mm512_slli_epi64(differing[i][v], 1));
      halves[v] = _mm512_cvtepi64_epi32(sum);
    }
    const __m512i whole = _mm512_inserti64x4(_mm512_castsi256_si512(halves[0]), halves[1], 1);
    sums[i][0] = _mm512_add_epi32(whole, start);
  }
  LeaveTile<kWindows, 1>(w, sums, first);
}

/// One block of outputs.
void AddBitPlanes(const WindowSums& w) {
  constexpr int64_t kMost = 4;
  int64_t first = 0;
  for (; first + kMost <= w.count; first += kMost) AddBitTile<kMost>(w, first);
  for (; first < w.count; ++first) AddBitTile<1>(w, first);
}
