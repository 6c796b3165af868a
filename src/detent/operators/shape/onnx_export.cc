#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "detent/core/error.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

constexpr int64_t kAllowZeroSince = 14;
constexpr int64_t kShapeRangeSince = 15;
constexpr int64_t kPadAxesSince = 18;
constexpr int64_t kPadWrapSince = 19;
constexpr int64_t kToTheEnd = std::numeric_limits<int64_t>::max();

/// The numbers of inputs `first`, `first` + 1, ... as one list.
std::string sizes_of(NodeExport& node, size_t first) {
  std::vector<int64_t> known;
  for (size_t i = first; i < node.input_count(); ++i) {
    const auto* number = node.node().inputs[i].constant.get_if<int64_t>();
    if (number == nullptr) break;
    known.push_back(*number);
  }
  if (known.size() == node.input_count() - first) return node.list_of(known);
  OnnxValues parts;
  for (size_t i = first; i < node.input_count(); ++i) parts.push_back(node.list(i));
  return node.add("Concat", std::move(parts), {{"axis", 0}});
}

/// The size of one dimension, a number.
void export_size(NodeExport& node) {
  const int64_t dim = node.dimension(node.integers(1)->front());
  const std::string shape = node.add("Shape", {node.input(0)});
  node.emit("Gather", {shape, node.number_of(dim, DType::kInt64)}, {{"axis", 0}});
}

/// 0 is a size where it says so.
void export_view(NodeExport& node) {
  const std::string input = node.input(0);
  bool has_zero = false;
  for (size_t i = 1; i < node.input_count(); ++i) {
    const auto* number = node.node().inputs[i].constant.get_if<int64_t>();
    has_zero = has_zero || (number != nullptr && *number == 0);
  }
  if (has_zero) node.need_opset(kAllowZeroSince, "a size of 0");
  node.emit("Reshape", {input, sizes_of(node, 1)}, has_zero ? Table{{"allowzero", 1}} : Table{});
}

void export_dynamic_reshape(NodeExport& node) {
  const bool allow_zero = node.flag("allow_zero");
  if (allow_zero) node.need_opset(kAllowZeroSince, "a size of 0");
  node.emit("Reshape", {node.input(0), node.list(1)}, allow_zero ? Table{{"allowzero", 1}} : Table{});
}

/// Sizes of dimensions of input 0; nothing where one is open.
std::optional<std::vector<int64_t>> known_sizes(const NodeExport& node, int64_t first, int64_t end) {
  std::vector<int64_t> sizes;
  for (int64_t d = first; d < end; ++d) {
    const auto size = node.size(0, static_cast<size_t>(d));
    if (!size) return std::nullopt;
    sizes.push_back(*size);
  }
  return sizes;
}

bool has_no_elements(const NodeExport& node) {
  for (size_t d = 0; d < node.rank(0); ++d) {
    if (node.size(0, d) == 0) return true;
  }
  return false;
}

/// Where there are no elements, no size follows from the others, and 0 is a size.
void export_empty_flatten(NodeExport& node, int64_t start, int64_t end) {
  node.need_opset(kAllowZeroSince, "a size of 0");
  const std::string input = node.input(0);
  const auto rank = static_cast<int64_t>(node.rank(0));
  const auto part = [&](int64_t first, int64_t last) {
    if (const auto known = known_sizes(node, first, last)) return node.list_of(*known);
    return node.add("Slice", {node.add("Shape", {input}), node.list_of({first}), node.list_of({last}),
                              node.list_of({0})});
  };
  const auto joined = known_sizes(node, start, end + 1);
  OnnxValues parts;
  if (start > 0) parts.push_back(part(0, start));
  parts.push_back(joined ? node.list_of({element_count(*joined)})
                         : node.add("ReduceProd", {part(start, end + 1)}, {{"keepdims", 1}}));
  if (end + 1 < rank) parts.push_back(part(end + 1, rank));
  const std::string sizes = node.add("Concat", std::move(parts), {{"axis", 0}});
  node.emit("Reshape", {input, sizes}, {{"allowzero", 1}});
}

/// The dimensions in front are kept, those after as they are known or as the shape says.
void export_flatten(NodeExport& node) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  const int64_t start = node.dimension(node.integer("start_dim"));
  const int64_t end = node.dimension(node.integer("end_dim"));
  if (start == 1 && end == rank - 1) return node.emit("Flatten", {node.input(0)}, {{"axis", 1}});
  if (has_no_elements(node)) return export_empty_flatten(node, start, end);
  const std::string input = node.input(0);
  std::vector<int64_t> sizes(static_cast<size_t>(start), 0);
  const auto joined = known_sizes(node, start, end + 1);
  sizes.push_back(joined ? element_count(*joined) : -1);  // beside an open size that is 0 in a run
  bool is_known = true;
  for (int64_t d = end + 1; d < rank; ++d) {
    const auto size = node.size(0, static_cast<size_t>(d));
    is_known = is_known && size;
    if (is_known) sizes.push_back(*size);
  }
  if (is_known) return node.emit("Reshape", {input, node.list_of(sizes)});
  sizes.resize(static_cast<size_t>(start) + 1);
  const std::string after = node.add("Slice", {node.add("Shape", {input}), node.list_of({end + 1}),
                                               node.list_of({kToTheEnd}), node.list_of({0})});
  node.emit("Reshape", {input, node.add("Concat", {node.list_of(sizes), after}, {{"axis", 0}})});
}

void export_transpose(NodeExport& node) {
  std::vector<int64_t> order(node.rank(0));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(node.dimension(node.integer("dim0")))],
            order[static_cast<size_t>(node.dimension(node.integer("dim1")))]);
  node.emit("Transpose", {node.input(0)}, {{"perm", Value(order)}});
}

void export_permute(NodeExport& node) {
  std::vector<int64_t> order = node.integers("dims");
  for (int64_t& dim : order) dim = node.dimension(dim);
  node.emit("Transpose", {node.input(0)}, {{"perm", Value(order)}});
}

/// -1 keeps a dimension, as 1 does in ONNX.
void export_expand(NodeExport& node) {
  const std::string input = node.input(0);
  std::vector<int64_t> known;
  for (size_t i = 1; i < node.input_count(); ++i) {
    const auto* number = node.node().inputs[i].constant.get_if<int64_t>();
    if (number == nullptr) break;
    known.push_back(*number == -1 ? 1 : *number);
  }
  if (known.size() + 1 == node.input_count()) return node.emit("Expand", {input, node.list_of(known)});
  OnnxValues parts;
  for (size_t i = 1; i < node.input_count(); ++i) {
    const auto* number = node.node().inputs[i].constant.get_if<int64_t>();
    parts.push_back(number != nullptr && *number == -1 ? node.list_of({1}) : node.list(i));
  }
  node.emit("Expand", {input, node.add("Concat", std::move(parts), {{"axis", 0}})});
}

template <const char* kName>
void export_with_list(NodeExport& node) {
  OnnxValues inputs = {node.input(0)};
  if (node.input_count() > 1) inputs.push_back(node.list(1));
  node.emit(kName, std::move(inputs));
}

constexpr char kExpand[] = "Expand";
constexpr char kTile[] = "Tile";
constexpr char kSqueeze[] = "Squeeze";
constexpr char kUnsqueeze[] = "Unsqueeze";

void export_shape_of(NodeExport& node) {
  const int64_t start = node.integer("start");
  const bool to_the_end = node.node().attributes.find("end")->is_na();
  if (start == 0 && to_the_end) return node.emit("Shape", {node.input(0)});
  const int64_t end = to_the_end ? kToTheEnd : node.integer("end");
  if (node.opset() >= kShapeRangeSince) {
    Table attributes = {{"start", start}};
    if (!to_the_end) attributes["end"] = end;
    return node.emit("Shape", {node.input(0)}, std::move(attributes));
  }
  const std::string shape = node.add("Shape", {node.input(0)});
  node.emit("Slice", {shape, node.list_of({start}), node.list_of({end}), node.list_of({0})});
}

/// Zeros before and after the last dimension first.
void export_pad(NodeExport& node) {
  const std::vector<int64_t> border = node.integers("pad");
  const size_t rank = node.rank(0);
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < border.size(); ++i) {
    const size_t dim = rank - 1 - i / 2;
    pads[i % 2 == 0 ? dim : dim + rank] = border[i];
  }
  node.emit("Pad", {node.input(0), node.list_of(pads)});
}

/// The borders of all dimensions, from those of some: 0 is put after these, and taken for the others.
std::string borders_of_all(NodeExport& node, const std::vector<int64_t>& dims) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  const int64_t count = std::ssize(dims);
  std::vector<int64_t> places(static_cast<size_t>(2 * rank), 2 * count);
  for (int64_t i = 0; i < count; ++i) {
    const auto dim = static_cast<size_t>(node.dimension(dims[static_cast<size_t>(i)]));
    places[dim] = i;
    places[dim + static_cast<size_t>(rank)] = i + count;
  }
  const std::string with_zero = node.add("Concat", {node.list(1), node.list_of({0})}, {{"axis", 0}});
  return node.add("Gather", {with_zero, node.list_of(places)}, {{"axis", 0}});
}

void export_dynamic_pad(NodeExport& node) {
  const std::string& mode = node.choice("mode");
  if (mode == "wrap") node.need_opset(kPadWrapSince, "mode \"wrap\"");
  const auto dims = node.has_input(3) ? node.integers(3) : std::nullopt;
  if (node.has_input(3) && !dims) node.need_opset(kPadAxesSince, "a border of dimensions that are not known");
  OnnxValues inputs = {node.input(0), dims ? borders_of_all(node, *dims) : node.list(1)};
  if (node.input_count() > 2) inputs.push_back(node.input_as(2, node.type(0).dtype));
  if (node.has_input(3) && !dims) inputs.push_back(node.list(3));
  node.emit("Pad", std::move(inputs), {{"mode", mode}});
}

void export_split(NodeExport& node) {
  const std::string sizes = node.list_of(node.integers("sizes"));
  node.emit("Split", {node.input(0), sizes}, {{"axis", node.integer("dim")}});
}

void export_dynamic_split(NodeExport& node) {
  node.emit("Split", {node.input(0), node.list(1)}, {{"axis", node.integer("dim")}});
}

void export_slice(NodeExport& node) {
  const std::vector<int64_t> dims = node.integers("dims");
  const bool to_the_end = node.node().attributes.find("ends")->is_na();
  const std::vector<int64_t> ends =
      to_the_end ? std::vector(dims.size(), kToTheEnd) : node.integers("ends", dims.size());
  node.emit("Slice", {node.input(0), node.list_of(node.integers("starts", dims.size())), node.list_of(ends),
                      node.list_of(dims), node.list_of(node.integers("steps", dims.size()))});
}

void export_dynamic_slice(NodeExport& node) {
  OnnxValues inputs = {node.input(0)};
  for (size_t i = 1; i < node.input_count(); ++i) inputs.push_back(node.list(i));
  node.emit("Slice", std::move(inputs));
}

void export_full(NodeExport& node) {
  node.emit("ConstantOfShape", {node.list(0)}, {}, full_value(node.node()).reshaped({1}));
}

void export_range(NodeExport& node) {
  OnnxValues bounds;
  for (size_t i = 0; i < 3; ++i) {
    const NodeInput& input = node.node().inputs[i];
    const DType dtype = node.result_type().dtype;
    bounds.push_back(input.is_constant() ? node.number_of(input.constant, dtype) : node.input(i));
  }
  node.emit("Range", std::move(bounds));
}

}  // namespace

OnnxExporterList shape_exporters() {
  return {{"size", export_size},
          {"view", export_view},
          {"reshape", export_view},
          {"dynamic_reshape", export_dynamic_reshape},
          {"flatten", export_flatten},
          {"transpose", export_transpose},
          {"permute", export_permute},
          {"expand", export_expand},
          {"dynamic_expand", export_with_list<kExpand>},
          {"tile", export_with_list<kTile>},
          {"squeeze", export_with_list<kSqueeze>},
          {"unsqueeze", export_with_list<kUnsqueeze>},
          {"shape_of", export_shape_of},
          {"pad", export_pad},
          {"dynamic_pad", export_dynamic_pad},
          {"split", export_split},
          {"dynamic_split", export_dynamic_split},
          {"slice", export_slice},
          {"dynamic_slice", export_dynamic_slice},
          {"full", export_full},
          {"range", export_range}};
}

}  // namespace detent
