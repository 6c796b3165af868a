#include <limits>

#include "detent/core/error.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Windows of ONNX Runtime's domain as elements of a dimension of their own.

/// All windows of `size` positions, `step` apart, of a dimension: their elements become the last dimension.
NodeInput windows_along(NodeImport& node, const NodeInput& x, int64_t dim, int64_t size, int64_t step) {
  const NodeInput beyond = node.add("sub", {node.size_of(x, dim), NodeImport::integer_of(size)});
  const NodeInput count = node.add(
      "div", {node.add("add", {beyond, NodeImport::integer_of(step)}), NodeImport::integer_of(step)});
  const NodeInput starts = node.add("mul", {node.integers_below(count), NodeImport::integer_of(step)});
  std::vector<int64_t> within;
  for (int64_t i = 0; i < size; ++i) within.push_back(i);
  const NodeInput places = node.add("add", {node.add("unsqueeze", {starts, NodeImport::list_of({1})}),
                                            node.constant_of(Tensor::from({size}, within))});
  const NodeInput windows = node.add("gather", {x, places}, {{"dim", dim}});
  std::vector<int64_t> order;
  for (int64_t d = 0; d < std::ssize(node.type_of(windows).shape); ++d)
    if (d != dim + 1) order.push_back(d);
  order.push_back(dim + 1);
  return node.add("permute", {windows}, {{"dims", Value(order)}});
}

constexpr int64_t kMostPositions = int64_t{1} << 20;

void convert_unfold(NodeImport& node) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t dim = node.integer("dim", -1);
  if (dim < 0) dim += rank;
  const int64_t size = node.integer("size", 0);
  const int64_t step = node.integer("step", 1);
  if (dim < 0 || dim >= rank || size < 1 || size > kMostPositions || step < 1 || step > kMostPositions)
    fail("windows of {} positions, {} apart, of dimension {} of {}", size, step, dim, rank);
  if (const auto length = node.size(0, dim); length && *length < size)
    fail("windows of {} positions of dimension {} of size {}", size, dim, *length);
  node.set_output(0, windows_along(node, node.input(0), dim, size, step));
}

/// 1 where the mask is 0, for each channel of x. ONNX Runtime reads the masks of several channels from the
/// first on, channel c from the place c * positions % channels on; and the mask's first element only of one
/// dimension.
NodeInput masked_positions(NodeImport& node, const Shape& shape) {
  const Shape mask = node.shape(1);
  const Shape positions(shape.begin() + 2, shape.end());
  if (mask.size() != shape.size() || Shape(mask.begin() + 2, mask.end()) != positions ||
      mask[0] * mask[1] < 1)
    fail("a mask of shape {} for an input of shape {}", shape_text(mask), shape_text(shape));
  const int64_t channels = mask[0] * mask[1];
  const int64_t count = element_count(positions);
  Tensor places(DType::kInt64, {channels == 1 ? 1 : shape[0] * shape[1], count});
  for (int64_t i = 0; int64_t & place : places.values<int64_t>()) {
    place = i / count * count % channels + i % count;
    ++i;
  }
  Tensor counts(DType::kInt32, positions);
  for (int32_t& number : counts.values<int32_t>()) number = 1;
  if (positions.size() > 1 && count > 0) counts.values<int32_t>()[0] = 0;
  const NodeInput all = node.add("dynamic_reshape", {node.input(1), NodeImport::list_of({-1})});
  NodeInput values = node.add("gather", {all, node.constant_of(places)}, {{"dim", 0}});
  Shape result = shape;
  if (channels == 1) result[0] = result[1] = 1;
  values = node.add("dynamic_reshape", {values, NodeImport::list_of(result)});
  const NodeInput zeros = node.add("eq", {values, NodeImport::integer_of(0)});
  return node.add("mul", {node.add("cast", {zeros}, {{"dtype", "int32"}}), node.constant_of(counts)});
}

/// The largest element of each window; what follows a masked position in a row of the last dimension does not
/// count.
void convert_masked_max_pool(NodeImport& node) {
  const ImportedWindow window = imported_window(node);
  const Shape shape = node.shape(0);
  const size_t dims = window.kernel.size();
  if (dims < 1 || dims > 3 || window.cuts()) node.refuse("windows of other than one to three dimensions");
  constexpr double kLowest = std::numeric_limits<float>::lowest();
  const NodeInput borders = spatial_borders(window.before, window.after);
  NodeInput x = node.add("dynamic_pad", {node.input(0), borders, NodeImport::number_of(kLowest)});
  NodeInput masked = node.add("dynamic_pad", {masked_positions(node, shape), borders});
  for (size_t d = 0; d < dims; ++d) {
    const auto dim = static_cast<int64_t>(d) + 2;
    x = windows_along(node, x, dim, window.kernel[d], window.stride[d]);
    masked = windows_along(node, masked, dim, window.kernel[d], window.stride[d]);
  }
  const NodeInput before = node.add("cumsum", {masked, NodeImport::list_of({-1})});
  const NodeInput counts = node.add("eq", {before, NodeImport::integer_of(0)});
  std::vector<int64_t> last;
  for (size_t d = 0; d < dims; ++d) last.push_back(static_cast<int64_t>(d + dims) + 2);
  const NodeInput chosen = node.add("where", {counts, x, NodeImport::number_of(kLowest)});
  node.set_output(0, node.add("amax", {chosen, NodeImport::list_of(last)}));
}

}  // namespace

OnnxConverterList microsoft_window_converters() {
  return {{"UnfoldTensor", convert_unfold}, {"MaxpoolWithMask", convert_masked_max_pool}};
}

}  // namespace detent
