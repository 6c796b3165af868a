#include "detent/kernels/product.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/product.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/fused-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Lanes = hn::CappedTag<T, AddedProduct<T>::kPadding>;

/// Four rows and three vectors fill the sixteen registers of AVX2.
constexpr int64_t kRows = 4;

template <class D, class V>
HWY_INLINE V Sum(D d, V factor, V value, V sum) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return Fused(d, factor, value, sum);
  } else {
    return hn::Add(hn::Mul(factor, value), sum);
  }
}

template <class T>
HWY_INLINE const T* RightRow(const AddedProduct<T>& p, int64_t k) {
  return p.b + k * p.b_stride;
}
HWY_INLINE const float* RightRow(const OffsetProduct& p, int64_t k) { return p.b + p.offsets[k]; }

/// `Rows` rows at `row` and `Vectors` vectors at `column` of C.
template <size_t Rows, size_t Vectors, class Product>
HWY_INLINE void AddTile(const Product& p, int64_t row, int64_t column) {
  using T = std::remove_pointer_t<decltype(p.c)>;
  const Lanes<T> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<Lanes<T>> sums[Rows][Vectors];
  T* c = p.c + row * p.c_stride + column;
  const auto of_row = [](size_t r, int64_t stride) { return static_cast<int64_t>(r) * stride; };
  for (size_t r = 0; r < Rows; ++r) {
    for (size_t v = 0; v < Vectors; ++v) sums[r][v] = hn::LoadU(d, c + of_row(r, p.c_stride) + v * lanes);
  }
  const T* a = p.a + row * p.a_row;
  for (int64_t k = 0; k < p.depth; ++k) {
    const T* const b = RightRow(p, k) + column;
    for (size_t r = 0; r < Rows; ++r) {
      const auto factor = hn::Set(d, a[of_row(r, p.a_row)]);
      for (size_t v = 0; v < Vectors; ++v) {
        sums[r][v] = Sum(d, factor, hn::LoadU(d, b + v * lanes), sums[r][v]);
      }
    }
    a += p.a_column;
  }
  for (size_t r = 0; r < Rows; ++r) {
    for (size_t v = 0; v < Vectors; ++v) hn::StoreU(sums[r][v], d, c + of_row(r, p.c_stride) + v * lanes);
  }
}

template <size_t Vectors, class Product>
HWY_INLINE void AddColumns(const Product& p, int64_t column) {
  int64_t row = 0;
  for (; row + kRows <= p.rows; row += kRows) AddTile<kRows, Vectors>(p, row, column);
  // Sums of one row wait for each other.
  if (p.rows - row == 3) return AddTile<3, Vectors>(p, row, column);
  if (p.rows - row == 2) return AddTile<2, Vectors>(p, row, column);
  if (row < p.rows) AddTile<1, Vectors>(p, row, column);
}

template <class Product>
HWY_INLINE void AddMatrixProduct(const Product& p) {
  const Lanes<std::remove_pointer_t<decltype(p.c)>> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t column = p.column_begin;
  const auto left = [&] { return (p.column_end - column) / lanes; };
  for (; left() == 3 || left() > 4; column += 3 * lanes) AddColumns<3>(p, column);
  for (; left() >= 2; column += 2 * lanes) AddColumns<2>(p, column);
  if (left() == 1) AddColumns<1>(p, column);
}

void AddProduct(const FloatProduct& p) { AddMatrixProduct(p); }
void AddOffsetProduct(const OffsetProduct& p) { AddMatrixProduct(p); }
void AddIntegerProduct(const IntegerProduct& p) { AddMatrixProduct(p); }

template <size_t AStep, size_t BStep, class D>
HWY_INLINE int64_t MultiplyVectors(D d, const float* a, const float* b, int64_t i, int64_t count, float* to) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes) {
    const auto left = AStep == 0 ? hn::Set(d, *a) : hn::LoadU(d, a + i);
    const auto right = BStep == 0 ? hn::Set(d, *b) : hn::LoadU(d, b + i);
    hn::StoreU(Fused(d, left, right, hn::Zero(d)), d, to + i);
  }
  return i;
}

/// Lines may be as short as a dimension of an embedding.
template <size_t AStep, size_t BStep>
HWY_INLINE void MultiplyLine(const float* a, const float* b, int64_t count, float* to) {
  int64_t i = MultiplyVectors<AStep, BStep>(hn::ScalableTag<float>(), a, b, 0, count, to);
  i = MultiplyVectors<AStep, BStep>(hn::CappedTag<float, 4>(), a, b, i, count, to);
  for (; i < count; ++i) to[i] = std::fma(a[AStep == 0 ? 0 : i], b[BStep == 0 ? 0 : i], 0.0F);
}

void MultiplyLines(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count, float* to) {
  if (a_step == 0) {
    b_step == 0 ? MultiplyLine<0, 0>(a, b, count, to) : MultiplyLine<0, 1>(a, b, count, to);
  } else {
    b_step == 0 ? MultiplyLine<1, 0>(a, b, count, to) : MultiplyLine<1, 1>(a, b, count, to);
  }
}

void AddElementwise(const float* a, const float* b, float* sums, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(Fused(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i), hn::LoadU(d, sums + i)), d, sums + i);
  for (; i < count; ++i) sums[i] = std::fma(a[i], b[i], sums[i]);
}

void AddScaled(float scale, const int32_t* integers, float* sums, int64_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<int32_t, decltype(d)> of_integers;
  const auto factor = hn::Set(d, scale);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::ConvertTo(d, hn::LoadU(of_integers, integers + i));
    hn::StoreU(Fused(d, factor, x, hn::LoadU(d, sums + i)), d, sums + i);
  }
  for (; i < count; ++i) sums[i] = std::fma(scale, static_cast<float>(integers[i]), sums[i]);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AddProduct);
HWY_EXPORT(AddIntegerProduct);
HWY_EXPORT(AddOffsetProduct);
HWY_EXPORT(AddElementwise);
HWY_EXPORT(MultiplyLines);
HWY_EXPORT(AddScaled);

void add_product(const FloatProduct& product) { HWY_DYNAMIC_DISPATCH(AddProduct)(product); }
void add_product(const OffsetProduct& product) { HWY_DYNAMIC_DISPATCH(AddOffsetProduct)(product); }
void add_product(const IntegerProduct& product) { HWY_DYNAMIC_DISPATCH(AddIntegerProduct)(product); }
void multiply_lines(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count,
                    float* to) {
  HWY_DYNAMIC_DISPATCH(MultiplyLines)(a, a_step, b, b_step, count, to);
}
void add_elementwise(const float* a, const float* b, float* sums, int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddElementwise)(a, b, sums, count);
}
void add_scaled(float scale, const int32_t* integers, float* sums, int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(scale, integers, sums, count);
}

}  // namespace detent
#endif  // HWY_ONCE
