#include "detent/language/cache_products.h"

#include <algorithm>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/language/cache_products.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/parallel.h"
#include "detent/core/product.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::CappedTag<int32_t, 16>;

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

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AddCodeRows);

Tensor cache_product(const Tensor& a, const CachedTensor& cache, int64_t tokens) {
  const bool are_keys = cache.kind() == CachedTensor::Kind::kKeys;
  const int64_t rows = a.dim(2);
  const int64_t depth = a.dim(3);
  const int64_t columns = are_keys ? tokens : cache.size();
  const int64_t padded =
      (columns + FloatProduct::kPadding - 1) / FloatProduct::kPadding * FloatProduct::kPadding;
  constexpr int64_t kDepth = 128;  // the part of the cache under one tile stays in the first-level cache
  Tensor result(DType::kFloat32, {1, cache.heads(), rows, columns});
  float* const results = result.values<float>().data();
  parallel_for(cache.heads(), 1, [&](int64_t begin, int64_t end) {
    std::vector<float> sums(static_cast<size_t>(rows * padded));
    for (int64_t head = begin; head < end; ++head) {
      std::ranges::fill(sums, 0.0F);
      const float* const from = a.values<float>().data() + head * rows * depth;
      for (int64_t k = 0; k < depth; k += kDepth) {
        add_product({.a = from + k,
                     .a_row = depth,
                     .a_column = 1,
                     .b = cache.head(head) + k * cache.stride(),
                     .b_stride = cache.stride(),
                     .c = sums.data(),
                     .c_stride = padded,
                     .rows = rows,
                     .depth = std::min(kDepth, depth - k),
                     .column_begin = 0,
                     .column_end = padded});
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
    for (int64_t row = begin * rows; row < end * rows; ++row) {
      const int32_t* const from = codes + row * depth;
      // The zero point of the cache, times the sum of what it is multiplied by.
      uint32_t steps = 0;
      for (int64_t k = 0; k < depth; ++k) steps += static_cast<uint32_t>(from[k] - form.a.zero_point);
      const uint32_t start = 0U - steps * static_cast<uint32_t>(form.b.zero_point);
      int32_t* const sums = results + row * columns;
      std::fill_n(sums, columns, static_cast<int32_t>(start));
      HWY_DYNAMIC_DISPATCH(AddCodeRows)
      (from, form.a.zero_point, depth, cache.codes(row / rows), cache.stride(), columns, sums);
    }
  });
  return result;
}

}  // namespace detent
#endif  // HWY_ONCE
