#include "detent/operators/quantization/onnx_import.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/verbs.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

/// Rounding to values of such codes; nothing where scales or zero points are computed, or no format has such
/// elements.
std::optional<QuantSpec> spec_of_codes(NodeImport& node, const NarrowType& type) {
  const auto scales = known_numbers(node, quantization_operand(node, 1));
  if (!scales || type.format == nullptr) return std::nullopt;
  if (node.has_input(2)) {
    const auto zeros = known_numbers(node, node.input(2));
    if (!zeros || std::ranges::any_of(*zeros, [](double zero) { return zero != 0; })) return std::nullopt;
  }
  const Format format = with_scale(parse_format(type.format));
  const auto is_usable = [](double scale) { return scale >= kAboveZero.low && scale <= kAboveZero.high; };
  if (scaled_standard(format).empty() || scales->empty() || !std::ranges::all_of(*scales, is_usable))
    return std::nullopt;
  QuantSpec spec;
  if (scales->size() > 1) {
    spec.granularity = Granularity::kChannel;
    spec.axis = axis_of(node);
  }
  spec.format = with_scales(format, {{scales->begin(), scales->end()}});
  return spec;
}

Tensor times_scales(const Tensor& codes, const QuantSpec& spec) {
  const std::vector<float> scales = given_scales(spec.format).scales;
  int64_t inner = codes.numel();
  if (scales.size() > 1) {
    const Shape& shape = codes.shape();
    inner = element_count({shape.begin() + spec.axis + 1, shape.end()});
  }
  Tensor values = codes.clone();
  const auto elements = values.values<float>();
  for (size_t i = 0; i < elements.size(); ++i)
    elements[i] *= scales[i / static_cast<size_t>(std::max<int64_t>(inner, 1)) % scales.size()];
  return values;
}

/// The value that was divided by the same scale and rounded to the node's input; nullptr for other inputs.
const NodeInput* rounded_input(NodeImport& node, const NarrowType& type, const QuantSpec& spec) {
  const Node* rounding = node.producer(0);
  const auto rounded = rounding == nullptr ? std::nullopt : rounding->rounding("data_out_0");
  if (!rounded || format_name(rounded->format) != type.format || rounding->inputs.size() != 1) return nullptr;
  if (rounding->inputs[0].is_constant()) return nullptr;
  const Node& division = node.node(rounding->inputs[0]);
  const std::vector<float> scales = given_scales(spec.format).scales;
  if (division.op != "div" || scales.size() != 1) return nullptr;
  const auto divisor = known_numbers(node, division.inputs[1]);
  const bool is_same =
      divisor && divisor->size() == 1 && static_cast<float>(divisor->front()) == scales.front();
  return is_same ? &division.inputs[0] : nullptr;
}

}  // namespace

NodeInput scales_along(NodeImport& node, size_t input) {
  if (const int64_t block = block_size_of(node); block != 0) {
    constexpr int64_t kMost = int64_t{1} << 20;
    const auto count = node.size(0, axis_of(node));
    if (!count) node.refuse("blocks of a dimension of open size");
    if (*count > kMost) node.refuse(fmt::format("blocks of a dimension of {}", *count));
    std::vector<int64_t> places;
    for (int64_t i = 0; i < *count; ++i) places.push_back(i / block);
    return node.add("gather", {node.input(input), NodeImport::list_of(places)}, {{"dim", axis_of(node)}});
  }
  NodeInput scales = quantization_operand(node, input);
  if (element_count(node.type(input).shape) == 1) return scales;
  const int64_t after = static_cast<int64_t>(node.rank(0)) - 1 - axis_of(node);
  if (after < 0) node.refuse(fmt::format("axis {} of {} dimensions", axis_of(node), node.rank(0)));
  if (after == 0) return scales;
  std::vector<int64_t> dims(static_cast<size_t>(after));
  std::iota(dims.begin(), dims.end(), int64_t{1});
  return node.add("unsqueeze", {std::move(scales), NodeImport::list_of(dims)});
}

bool became_float_rounding(NodeImport& node, const NarrowType& type) {
  if (block_size_of(node) != 0) return false;
  const std::optional<QuantSpec> spec = spec_of_codes(node, type);
  if (!spec) return false;
  if (const Tensor* codes = node.constant(0)) {
    const auto count = static_cast<int64_t>(given_scales(spec->format).scales.size());
    const bool fits =
        count == 1 || (spec->axis >= 0 && spec->axis < codes->rank() && codes->dim(spec->axis) == count);
    if (!fits || codes->dtype() != DType::kFloat32) return false;
    node.set_output(0, times_scales(*codes, *spec), *spec);
    return true;
  }
  const NodeInput* rounded = rounded_input(node, type, *spec);
  if (rounded == nullptr) return false;
  node.set_output(0, node.add_rounding(*rounded, *spec));
  return true;
}

}  // namespace detent
