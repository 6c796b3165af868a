#include "detent/operators/quantization/onnx_import.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/verbs.h"
#include "detent/onnx/node_import.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

constexpr std::string_view kPowers = "FLOAT8E8M0";

/// For each element the place of its scale: those of `block` positions of dimension `axis` have one.
Tensor places_of_scales(const Shape& shape, int64_t axis, int64_t block) {
  Tensor places(DType::kInt32, shape);
  const int64_t count = shape[static_cast<size_t>(axis)];
  const int64_t blocks = (count + block - 1) / block;
  const int64_t stride = element_count({shape.begin() + axis + 1, shape.end()});
  int64_t element = 0;
  for (int32_t& place : places.values<int32_t>()) {
    const int64_t row = element / (stride * count);
    place =
        static_cast<int32_t>((row * blocks + element / stride % count / block) * stride + element % stride);
    ++element;
  }
  return places;
}

std::optional<MxElement> mx_element(const NarrowType* type, DType held) {
  if (type == nullptr) return held == DType::kInt8 ? std::optional(MxElement::kInt8) : std::nullopt;
  if (type->name == "FLOAT8E4M3FN") return MxElement::kE4M3;
  if (type->name == "FLOAT8E5M2") return MxElement::kE5M2;
  if (type->name == "FLOAT4E2M1") return MxElement::kE2M1;
  return std::nullopt;
}

bool is_power_scale(float number) {
  int exponent = 0;
  return std::frexp(number, &exponent) == 0.5F;
}

/// Blocks of codes along a dimension, with what their scales are made of.
class Blocks {
 public:
  Blocks(const NodeImport& node, const Tensor& codes)
      : node_(node),
        codes_(codes),
        type_(node.narrow_type(0)),
        axis_(axis_of(node)),
        block_(block_size_of(node)),
        scales_(to_dtype(*node.constant(1), DType::kFloat32)) {
    if (axis_ < 0 || axis_ >= codes.rank()) fail("axis {} of {} dimensions", axis_, codes.rank());
    Shape expected = codes.shape();
    int64_t& size = expected[static_cast<size_t>(axis_)];
    size = (size + block_ - 1) / block_;
    if (scales_.shape() != expected)
      fail("scales of shape {} for codes of shape {} in blocks of {}, expected {}",
           shape_text(scales_.shape()), shape_text(codes.shape()), block_, shape_text(expected));
    places_ = places_of_scales(codes.shape(), axis_, block_);
  }

  Tensor values() const {
    Tensor values = to_dtype(codes_, DType::kFloat32);
    const auto to = values.values<float>();
    for (size_t i = 0; i < to.size(); ++i)
      to[i] *= scales_.values<float>()[static_cast<size_t>(places_.values<int32_t>()[i])];
    return values;
  }

  std::vector<QuantSpec> candidates() const {
    std::vector<QuantSpec> result;
    for (const auto& spec : {nvfp4(), mx(), groups()}) {
      if (spec) result.push_back(*spec);
    }
    return result;
  }

  bool has_powers() const { return node_.narrow_type(1) != nullptr && node_.narrow_type(1)->name == kPowers; }

 private:
  std::optional<QuantSpec> nvfp4() const {
    const auto rounding = node_.rounding(1);
    const GivenScales given = rounding ? given_scales(rounding->format) : GivenScales();
    const bool is_such = type_ != nullptr && type_->name == "FLOAT4E2M1" && block_ == Nvfp4::kBlockSize &&
                         given.scales.size() == 1 && scaled_standard(rounding->format) == Fp8E4M3Fn::kName;
    if (!is_such) return std::nullopt;
    QuantSpec spec;
    Nvfp4 format;
    format.tensor_scale = given.scales.front();
    spec.format = format;
    spec.block_axis = axis_;
    return spec;
  }

  std::optional<QuantSpec> mx() const {
    const auto element = mx_element(type_, codes_.dtype());
    const bool are_powers =
        has_powers() || (type_ != nullptr && std::ranges::all_of(scales_.values<float>(), is_power_scale));
    if (!are_powers || !element) return std::nullopt;
    QuantSpec spec;
    Mx format;
    format.element = *element;
    format.block_size = {{block_}};
    spec.format = format;
    spec.block_axis = axis_;
    return spec;
  }

  /// The places of scales say what shares one, whatever the codes are.
  std::optional<QuantSpec> groups() const {
    if (type_ == nullptr || type_->format == nullptr) return std::nullopt;
    const Format format = with_scale(parse_format(type_->format));
    const auto scales = scales_.values<float>();
    const auto is_usable = [](float scale) {
      const auto value = static_cast<double>(scale);
      return value >= kAboveZero.low && value <= kAboveZero.high;
    };
    if (scaled_standard(format).empty() || !std::ranges::all_of(scales, is_usable)) return std::nullopt;
    QuantSpec spec;
    spec.format = with_scales(format, {{scales.begin(), scales.end()}});
    return rounding_at_places(spec, places_, block_);
  }

  const NodeImport& node_;
  const Tensor& codes_;
  const NarrowType* type_;
  int64_t axis_;
  int64_t block_;
  Tensor scales_;
  Tensor places_;
};

}  // namespace

bool became_blocks(NodeImport& node) {
  const Tensor* codes = node.constant(0);
  if (codes == nullptr || node.constant(1) == nullptr || codes->numel() == 0) return false;
  const auto zeros = node.has_input(2) ? known_numbers(node, node.input(2)) : std::vector<double>();
  if (!zeros || std::ranges::any_of(*zeros, [](double zero) { return zero != 0; })) return false;
  const bool is_float = node.narrow_type(0) != nullptr && node.narrow_type(0)->is_float();
  const Blocks blocks(node, *codes);
  if (!is_float && !blocks.has_powers()) return false;
  const Tensor values = blocks.values();
  for (const QuantSpec& spec : blocks.candidates()) {
    if (!fake_quantize(spec, values).equals(values)) continue;
    node.set_output(0, values, spec);
    return true;
  }
  if (is_float) node.set_output(0, values);
  return is_float;
}

}  // namespace detent
