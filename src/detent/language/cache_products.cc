#include "detent/language/cached_tensor.h"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/language/cache_products.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/parallel.h"
#include "detent/kernels/product.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::CappedTag<int32_t, 16>;
using Singles = hn::CappedTag<float, 16>;

/// sums[i] += sum over k of (a[k] - zero) * b[k * stride + i], modulo 2^32.
void AddCodeRows(const int32_t* a, int32_t zero, int64_t depth, const int32_t* b, int64_t stride,
                 int64_t columns, int32_t* sums) {
  const Words d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kVectors = 4;
  int64_t i = 0;
  for (; i + kVectors * lanes <= columns; i += kVectors * lanes) {
    hn::VFromD<Words> sum[kVectors];
    for (int64_t v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, sums + i + v * lanes);
    for (int64_t k = 0; k < depth; ++k) {
      const auto factor = hn::Set(d, a[k] - zero);
      const int32_t* const row = b + k * stride + i;
      for (int64_t v = 0; v < kVectors; ++v)
        sum[v] = hn::Add(sum[v], hn::Mul(factor, hn::LoadU(d, row + v * lanes)));
    }
    for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + i + v * lanes);
  }
  for (; i < columns; ++i) {
    auto sum = static_cast<uint32_t>(sums[i]);
    for (int64_t k = 0; k < depth; ++k)
      sum += static_cast<uint32_t>(a[k] - zero) * static_cast<uint32_t>(b[k * stride + i]);
    sums[i] = static_cast<int32_t>(sum);
  }
}

HWY_INLINE hn::VFromD<Words> LoadIntegers(const PackedRows& p, int64_t row, int64_t column) {
  const Words d;
  const hn::Rebind<int8_t, Words> narrow;
  const int64_t line = p.are_nibbles ? row / 2 : row;
  const auto bytes = hn::PromoteTo(d, hn::LoadU(narrow, p.bytes + line * p.columns + column));
  if (!p.are_nibbles) return bytes;
  return row % 2 == 0 ? hn::ShiftRight<28>(hn::ShiftLeft<28>(bytes)) : hn::ShiftRight<4>(bytes);
}

/// (integer - zero point) * scale, or the table's value times the scale.
void WidenValues(const PackedRows& p, float* to) {
  const Singles d;
  const Words words;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto mask = hn::Set(words, p.are_nibbles ? 15 : 255);
  for (int64_t row = 0; row < p.rows; ++row) {
    const auto number = [&](const float* numbers, int64_t column) HWY_ATTR {
      return p.are_of_rows ? hn::Set(d, numbers[row]) : hn::LoadU(d, numbers + column);
    };
    for (int64_t column = 0; column < p.columns; column += lanes, to += lanes) {
      const auto integers = LoadIntegers(p, row, column);
      auto values = p.table == nullptr ? hn::ConvertTo(d, integers)
                                       : hn::GatherIndex(d, p.table, hn::And(integers, mask));
      if (p.zero_points != nullptr) values = hn::Sub(values, number(p.zero_points, column));
      if (p.scales != nullptr) values = hn::Mul(values, number(p.scales, column));
      hn::StoreU(values, d, to);
    }
  }
}

void WidenCodes(const PackedRows& p, int32_t* to) {
  const Words d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto offset = hn::Set(d, p.offset);
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t column = 0; column < p.columns; column += lanes, to += lanes)
      hn::StoreU(hn::Add(LoadIntegers(p, row, column), offset), d, to);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AddCodeRows);
HWY_EXPORT(WidenValues);
HWY_EXPORT(WidenCodes);

namespace {

void widen(const PackedRows& rows, float* to) { HWY_DYNAMIC_DISPATCH(WidenValues)(rows, to); }
void widen(const PackedRows& rows, int32_t* to) { HWY_DYNAMIC_DISPATCH(WidenCodes)(rows, to); }

/// Values that products read of one head after the other, a page at a time, as float values or int32 codes.
template <class T>
class HeadPages {
 public:
  HeadPages(const CachedTensor& cache, int64_t tokens) : cache_(cache), tokens_(tokens) {
    const CachedTensor::Part part = cache.part(0, 0);
    columns_ = part.columns;
    if (cache.codec() != nullptr) tile_.resize(static_cast<size_t>(part.rows * part.columns));
  }

  int64_t count() const { return (tokens_ + CachedTensor::kPageTokens - 1) / CachedTensor::kPageTokens; }
  int64_t columns() const { return columns_; }
  /// Tokens of a page that count.
  int64_t tokens(int64_t page) const {
    return std::min(CachedTensor::kPageTokens, tokens_ - page * CachedTensor::kPageTokens);
  }

  /// Until the next one is asked for.
  const T* rows(int64_t head, int64_t page) {
    const CachedTensor::Part part = cache_.part(page, head);
    const CacheCodec* const codec = cache_.codec();
    if (codec == nullptr) return reinterpret_cast<const T*>(part.elements);
    const bool are_values = cache_.kind() == CachedTensor::Kind::kValues;
    widen({.bytes = reinterpret_cast<const int8_t*>(part.elements),
           .are_nibbles = codec->in_nibbles(),
           .rows = are_values ? tokens(page) : part.rows,
           .columns = part.columns,
           .scales = part.scales,
           .zero_points = part.zero_points,
           .are_of_rows = are_values,
           .table = codec->table(),
           .offset = codec->offset().value_or(0)},
          tile_.data());
    return tile_.data();
  }

 private:
  const CachedTensor& cache_;
  int64_t tokens_;
  int64_t columns_ = 0;
  std::vector<T> tile_;
};

/// Initial value of sums of codes: the zero point of the cache, times the sum of what it is multiplied by.
int32_t sum_of_zero_points(const ProductForm& form, const int32_t* codes, int64_t depth) {
  uint32_t steps = 0;
  for (int64_t k = 0; k < depth; ++k) steps += static_cast<uint32_t>(codes[k] - form.a.zero_point);
  return static_cast<int32_t>(0U - steps * static_cast<uint32_t>(form.b.zero_point));
}

}  // namespace

Tensor cache_product(const Tensor& a, const CachedTensor& cache, int64_t tokens) {
  const bool are_keys = cache.kind() == CachedTensor::Kind::kKeys;
  const int64_t rows = a.dim(2);
  const int64_t depth = a.dim(3);
  const int64_t columns = are_keys ? tokens : cache.size();
  Tensor result(DType::kFloat32, {1, cache.heads(), rows, columns});
  float* const results = result.values<float>().data();
  parallel_for(cache.heads(), 1, [&](int64_t begin, int64_t end) {
    HeadPages<float> pages(cache, tokens);
    // No vector: small pages that stay would lie between it and the next one in the heap.
    const int64_t padded = are_keys ? pages.count() * pages.columns() : pages.columns();
    Tensor of_head(DType::kFloat32, {rows * padded});
    const std::span<float> sums = of_head.values<float>();
    for (int64_t head = begin; head < end; ++head) {
      std::ranges::fill(sums, 0.0F);
      const float* const from = a.values<float>().data() + head * rows * depth;
      for (int64_t page = 0; page < pages.count(); ++page) {
        const int64_t first = page * CachedTensor::kPageTokens;
        add_product({.a = are_keys ? from : from + first,
                     .a_row = depth,
                     .a_column = 1,
                     .b = pages.rows(head, page),
                     .b_stride = pages.columns(),
                     .c = are_keys ? sums.data() + first : sums.data(),
                     .c_stride = padded,
                     .rows = rows,
                     .depth = are_keys ? depth : pages.tokens(page),
                     .column_begin = 0,
                     .column_end = pages.columns()});
      }
      for (int64_t row = 0; row < rows; ++row)
        std::copy_n(sums.data() + row * padded, columns, results + (head * rows + row) * columns);
    }
  });
  return result;
}

Tensor cache_code_product(const ProductForm& form, const Node& node, const Tensor& a,
                          const CachedTensor& cache, int64_t tokens) {
  const bool are_keys = cache.kind() == CachedTensor::Kind::kKeys;
  const int64_t rows = a.dim(2);
  const int64_t depth = a.dim(3);
  const int64_t columns = are_keys ? tokens : cache.size();
  form.check_depth(node, depth);
  Tensor result(DType::kInt32, {1, cache.heads(), rows, columns});
  int32_t* const results = result.values<int32_t>().data();
  const int32_t* const codes = a.values<int32_t>().data();
  parallel_for(cache.heads(), 1, [&](int64_t begin, int64_t end) {
    HeadPages<int32_t> pages(cache, tokens);
    for (int64_t head = begin; head < end; ++head) {
      const int32_t* const from = codes + head * rows * depth;
      int32_t* const sums = results + head * rows * columns;
      for (int64_t row = 0; row < rows; ++row)
        std::fill_n(sums + row * columns, columns, sum_of_zero_points(form, from + row * depth, depth));
      for (int64_t page = 0; page < pages.count(); ++page) {
        const int64_t first = page * CachedTensor::kPageTokens;
        const int32_t* const of_page = pages.rows(head, page);
        for (int64_t row = 0; row < rows; ++row) {
          HWY_DYNAMIC_DISPATCH(AddCodeRows)
          (from + row * depth + (are_keys ? 0 : first), form.a.zero_point,
           are_keys ? depth : pages.tokens(page), of_page, pages.columns(),
           are_keys ? pages.tokens(page) : columns, sums + row * columns + (are_keys ? first : 0));
        }
      }
    }
  });
  return result;
}

}  // namespace detent
#endif  // HWY_ONCE
