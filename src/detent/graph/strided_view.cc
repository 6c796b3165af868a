#include "detent/graph/strided_view.h"

namespace detent {

StridedView StridedView::of(const Shape& shape) {
  StridedView view{shape, std::vector<int64_t>(shape.size(), 1)};
  for (size_t i = shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * shape[i];
  return view;
}

StridedView StridedView::broadcast(const Shape& from, const Shape& to) {
  const StridedView whole = of(from);
  StridedView view{to, std::vector<int64_t>(to.size(), 0)};
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t at = to.size() - 1 - i;
    const size_t source = from.size() - 1 - i;
    if (from[source] == to[at]) view.strides[at] = whole.strides[source];
  }
  return view;
}

}  // namespace detent
