#include "detent/inference/sparse_planes.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/inference/sparse_planes.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// sums[x] += weight * from[x]. Products of floats are exact in double: one that is fused with the addition
/// is rounded as one that is not.
HWY_INLINE void AddProducts(double weight, const float* from, int64_t count, double* sums) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> floats;
  const auto weights = hn::Set(d, weight);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t x = 0;
  for (; x + lanes <= count; x += lanes) {
    const auto values = hn::PromoteTo(d, hn::LoadU(floats, from + x));
    hn::StoreU(hn::MulAdd(weights, values, hn::LoadU(d, sums + x)), d, sums + x);
  }
  for (; x < count; ++x) sums[x] += weight * static_cast<double>(from[x]);
}

/// A connection's products for a row of windows.
HWY_INLINE void AddRow(double weight, const float* row, const WindowDimension& across, int64_t offset,
                       const WindowsInside& inside, double* sums) {
  const double outside = weight * 0;
  for (int64_t x = 0; x < inside.begin; ++x) sums[x] += outside;
  const float* const first = row + offset + inside.begin * across.stride;
  if (across.stride == 1) {
    AddProducts(weight, first, inside.end - inside.begin, sums + inside.begin);
  } else {
    for (int64_t x = inside.begin; x < inside.end; ++x)
      sums[x] += weight * static_cast<double>(first[(x - inside.begin) * across.stride]);
  }
  for (int64_t x = inside.end; x < across.count; ++x) sums[x] += outside;
}

void AddPlane(std::span<const Connections::Connection> connections, const Planes& planes, const float* input,
              double* sums) {
  const WindowDimension& down = planes.down;
  const WindowDimension& across = planes.across;
  for (const auto& [index, value] : connections) {
    const auto weight = static_cast<double>(value);
    const int64_t row = index / across.kernel % down.kernel;
    const int64_t offset = across.place(0, index % across.kernel);
    const WindowsInside inside(offset, across);
    const float* const channel = input + index / (across.kernel * down.kernel) * down.size * across.size;
    double* of_row = sums;
    for (int64_t at = 0; at < down.count; ++at, of_row += across.count) {
      const int64_t y = down.place(at, row);
      if (y >= 0 && y < down.size) {
        AddRow(weight, channel + y * across.size, across, offset, inside, of_row);
      } else {
        for (int64_t x = 0; x < across.count; ++x) of_row[x] += weight * 0;
      }
    }
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AddPlane);

void add_plane(std::span<const Connections::Connection> connections, const Planes& planes, const float* input,
               double* sums) {
  HWY_DYNAMIC_DISPATCH(AddPlane)(connections, planes, input, sums);
}

}  // namespace detent
#endif  // HWY_ONCE
