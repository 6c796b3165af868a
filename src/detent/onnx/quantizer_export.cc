#include "detent/onnx/quantizer_export.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/verbs.h"
#include "detent/onnx/tensor_data.h"
#include "detent/onnx/weight_blocks.h"

namespace detent {

/// clamp(round(x / scale) + zero point, low, high), less the zero point, times the scale; one scale, or one a
/// position of the dimension `axis`.
struct IntegerForm {
  int width = 8;
  bool is_signed = true;
  int64_t low = 0;
  int64_t high = 0;
  std::vector<float> scale;
  std::vector<int64_t> zero_point;  // as many
  std::optional<int64_t> axis;
  bool floor = false;

  bool is_narrow() const { return low == (is_signed ? -(int64_t{1} << (width - 1)) : 0) + 1; }
};

namespace {

constexpr const char* kQonnxDomain = "qonnx.custom_op.general";
constexpr int64_t kWideIntegersSince = 21;
constexpr int64_t kFloat8Since = 19;
constexpr int64_t kFloat4Since = 23;

/// Nothing where the format does not round to integers; of what it derives from data there is no scale.
std::optional<IntegerForm> integer_form(const QuantSpec& spec) {
  IntegerForm form;
  if (spec.granularity == Granularity::kGroup) return std::nullopt;
  if (spec.granularity == Granularity::kChannel) form.axis = spec.axis;
  if (const std::optional<IntegerCodes> integers = integer_codes(spec.format)) {
    GivenScales given = given_scales(spec.format);
    form.width = integers->width;
    form.is_signed = integers->is_signed;
    form.low = integers->low();
    form.high = integers->high();
    form.scale = std::move(given.scales);
    form.zero_point.assign(given.zero_points.begin(), given.zero_points.end());
    form.zero_point.resize(form.scale.size(), 0);
    return form;
  }
  const std::optional<FixedPoint> fixed = fixed_point(spec.format);
  if (!fixed) return std::nullopt;
  form.width = fixed->width;
  form.is_signed = fixed->is_signed;
  form.low = static_cast<int64_t>(fixed->low);
  form.high = static_cast<int64_t>(fixed->high);
  form.scale = {fixed->scale};
  form.zero_point = {0};
  form.floor = fixed->floors;
  return form;
}

/// The integers of a file that hold the codes.
struct CodeElements {
  int64_t type;
  int64_t low;
  int64_t high;
  size_t bytes;
};

CodeElements code_elements(const IntegerForm& form) {
  constexpr int kByte = 8;
  if (form.width <= kByte) {
    return form.is_signed ? CodeElements{onnx::TensorProto::INT8, INT8_MIN, INT8_MAX, 1}
                          : CodeElements{onnx::TensorProto::UINT8, 0, UINT8_MAX, 1};
  }
  return form.is_signed ? CodeElements{onnx::TensorProto::INT16, INT16_MIN, INT16_MAX, 2}
                        : CodeElements{onnx::TensorProto::UINT16, 0, UINT16_MAX, 2};
}

constexpr int64_t kHalfOfByte = 128;

/// The same values with codes in uint8: codes and zero points are 128 larger.
void make_unsigned(IntegerForm& form, std::vector<int64_t>& codes) {
  for (int64_t& code : codes) code += kHalfOfByte;
  for (int64_t& zero : form.zero_point) zero += kHalfOfByte;
}

/// Little-endian.
std::string bytes_of(std::span<const int64_t> codes, size_t bytes) {
  std::string result;
  result.reserve(codes.size() * bytes);
  for (const int64_t code : codes) {
    for (size_t i = 0; i < bytes; ++i)
      result += static_cast<char>(static_cast<uint64_t>(code) >> (8 * i) & 0xff);
  }
  return result;
}

/// Where each element of a tensor lies along one dimension.
class AlongAxis {
 public:
  AlongAxis(const Shape& shape, std::optional<int64_t> axis) {
    if (!axis) return;
    const auto at = static_cast<size_t>(*axis < 0 ? *axis + std::ssize(shape) : *axis);
    count_ = shape[at];
    stride_ = element_count({shape.begin() + static_cast<int64_t>(at) + 1, shape.end()});
  }
  size_t operator()(size_t index) const {
    return static_cast<size_t>(static_cast<int64_t>(index) / stride_ % count_);
  }

 private:
  int64_t count_ = 1;
  int64_t stride_ = 1;
};

std::vector<int64_t> codes_of(const IntegerForm& form, const Tensor& tensor) {
  const AlongAxis place(tensor.shape(), form.scale.size() == 1 ? std::nullopt : form.axis);
  const auto values = tensor.values<float>();
  std::vector<int64_t> codes(values.size());
  for (size_t i = 0; i < codes.size(); ++i) {
    const size_t at = place(i);
    const float steps = values[i] / form.scale[at];
    const double rounded = static_cast<double>(form.floor ? std::floor(steps) : std::nearbyint(steps));
    const auto low = static_cast<double>(form.low - form.zero_point[at]);
    const auto high = static_cast<double>(form.high - form.zero_point[at]);
    codes[i] = static_cast<int64_t>(std::clamp(rounded, low, high)) + form.zero_point[at];
  }
  return codes;
}

template <class Code>
std::vector<Code> transposed_codes(const std::vector<Code>& codes, int64_t rows, int64_t columns) {
  std::vector<Code> result(codes.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      result[static_cast<size_t>(c * rows + r)] = codes[static_cast<size_t>(r * columns + c)];
  }
  return result;
}

/// The element type that holds the codes of floats of 8 and 4 bits.
const NarrowType* float_type(const QuantSpec& spec) {
  const std::string_view standard = scaled_standard(spec.format);
  if (standard.empty() || spec.granularity == Granularity::kGroup) return nullptr;
  return narrow_type_of_format(standard);
}

int64_t first_opset_of(const NarrowType& type) { return type.bits < 8 ? kFloat4Since : kFloat8Since; }

/// So many codes of +0.
std::string zeros_of(const NarrowType& type, size_t count) {
  return std::string(packed_size(type, static_cast<int64_t>(count)), '\0');
}

/// [1, ..., channels, ..., 1], or [] of one number.
Tensor broadcastable(const std::vector<float>& numbers, std::optional<int64_t> axis, size_t rank) {
  Shape shape;
  if (axis && numbers.size() > 1) {
    shape.assign(rank, 1);
    shape[static_cast<size_t>(*axis < 0 ? *axis + static_cast<int64_t>(rank) : *axis)] = std::ssize(numbers);
  }
  return Tensor::from(shape, numbers);
}

/// The factor of each channel or of the tensor, from values of a binary format.
Tensor magnitudes(const QuantSpec& spec, const Tensor& rounded) {
  const BinaryScaling scaling = sign_codes(spec.format).value().scaling;
  const bool per_channel = scaling == BinaryScaling::kPerChannel ||
                           (scaling != BinaryScaling::kNone && spec.granularity == Granularity::kChannel);
  const auto axis =
      per_channel ? std::optional(spec.axis < 0 ? spec.axis + rounded.rank() : spec.axis) : std::nullopt;
  const AlongAxis place(rounded.shape(), axis);
  std::vector<float> scale(axis ? static_cast<size_t>(rounded.dim(*axis)) : 1, 1.0F);
  for (size_t i = 0; i < rounded.values<float>().size(); ++i)
    scale[place(i)] = std::fabs(rounded.values<float>()[i]);
  return broadcastable(scale, axis, static_cast<size_t>(rounded.rank()));
}

}  // namespace

Tensor transposed_matrix(const Tensor& matrix) {
  Tensor result(DType::kFloat32, {matrix.dim(1), matrix.dim(0)});
  const auto from = matrix.values<float>();
  const auto to = result.values<float>();
  const auto rows = static_cast<size_t>(matrix.dim(0));
  const auto columns = static_cast<size_t>(matrix.dim(1));
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c) to[c * rows + r] = from[r * columns + c];
  }
  return result;
}

std::optional<QuantSpec> rounding_of(const Node& node, std::string_view operand) {
  const Quantizer* quantizer = node.find_quantizer(operand);
  return quantizer == nullptr ? std::nullopt : quantizer->effective_spec();
}

int64_t QuantizerExport::least_opset(const QuantSpec& spec) {
  constexpr int kByte = 8;
  if (const NarrowType* type = float_type(spec)) return first_opset_of(*type);
  if (const auto opset = opset_of_blocks(spec)) return *opset;
  const std::optional<IntegerForm> form = integer_form(spec);
  return form && form->width > kByte ? kWideIntegersSince : 0;
}

namespace {

/// Not all of many scales.
std::string short_text(const QuantSpec& spec) {
  constexpr size_t kMost = 90;
  const std::string text = quant_spec_text(spec);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

/// Why there can be no scales of groups or blocks, which weights may have.
std::string block_obstacle(const QuantSpec& spec, int64_t opset, bool is_weight) {
  const std::string text = short_text(spec);
  const auto since = opset_of_blocks(spec);
  if (!since) {
    return spec.granularity == Granularity::kGroup
               ? fmt::format("{}: ONNX has no element type for such codes", text)
               : fmt::format("{}: not integers or floats of ONNX times scales", text);
  }
  if (!is_weight) return fmt::format("{}: scales of blocks that follow from the data at every run", text);
  return opset < *since ? fmt::format("{}: its codes and scales need opset {}", text, *since) : "";
}

bool has_blocks(const QuantSpec& spec) {
  const bool is_block_format = std::visit(
      [](const auto& format) {
        return requires { format.blocks(); };
      },
      spec.format);
  return spec.granularity == Granularity::kGroup || is_block_format;
}

}  // namespace

std::string style_obstacle(OnnxStyle style, const QuantSpec& spec, int64_t opset, bool is_weight) {
  constexpr int kWidest = 16;
  const std::string text = short_text(spec);
  if (style == OnnxStyle::kFloat) return fmt::format("{}: a float model has no formats", text);
  const std::optional<SignCodes> signs = sign_codes(spec.format);
  if (style == OnnxStyle::kQonnx && signs)
    return signs->is_bipolar && !signs->is_stochastic
               ? ""
               : fmt::format("{}: BipolarQuant has -1 and 1, and does not draw at random", text);
  if (const NarrowType* type = style == OnnxStyle::kQonnx ? nullptr : float_type(spec)) {
    const int64_t since = first_opset_of(*type);
    return opset < since ? fmt::format("{}: floats of {} bits need opset {}", text, type->bits, since) : "";
  }
  if (has_blocks(spec) && style != OnnxStyle::kQonnx) return block_obstacle(spec, opset, is_weight);
  if (has_blocks(spec)) return fmt::format("{}: scales of groups or blocks", text);
  const std::optional<IntegerForm> form = integer_form(spec);
  if (!form) return fmt::format("{}: not integers times a scale", text);
  if (!is_weight && spec.granularity == Granularity::kChannel && form->scale.empty())
    return fmt::format("{}: scales of channels that follow from the data at every run", text);
  if (style == OnnxStyle::kQonnx) return "";
  if (form->floor) return fmt::format("{}: QuantizeLinear rounds to nearest", text);
  if (form->width > kWidest)
    return fmt::format("{}: QuantizeLinear gives integers of at most {} bits", text, kWidest);
  if (opset < QuantizerExport::least_opset(spec))
    return fmt::format("{}: integers of 16 bits need opset {}", text, kWideIntegersSince);
  return "";
}

std::string QuantizerExport::rounded(const std::string& value, const QuantSpec& spec, size_t rank) {
  if (const auto found = rounded_.find(value); found != rounded_.end() && found->second == spec) return value;
  auto& done = done_[value];
  for (const auto& [known, result] : done) {
    if (known == spec) return result;
  }
  std::string result;
  if (const std::optional<SignCodes> signs = sign_codes(spec.format)) {
    if (signs->scaling != BinaryScaling::kNone)
      fail("{}: a scale that follows from the data at every run", quant_spec_text(spec));
    result = bipolar(value, Tensor::from({}, std::vector<float>{1}));
  } else if (float_type(spec) != nullptr) {
    result = cast_to_floats(value, spec, rank);
  } else {
    if (integer_form(spec)->scale.empty())
      fail("{}: a scale that follows from the data at every run", quant_spec_text(spec));
    result = has_integers(style_) ? quantize_dequantize(value, spec, rank) : quant(value, spec, rank);
  }
  rounded_[result] = spec;
  done_[value].emplace_back(spec, result);
  return result;
}

std::string QuantizerExport::add(const std::string& op, OnnxValues inputs, Table attributes,
                                 const std::string& name, const std::string& output,
                                 const std::string& domain) {
  const std::string result = writer_.new_value(output);
  writer_.add_node({.op = op,
                    .inputs = std::move(inputs),
                    .outputs = {result},
                    .attributes = std::move(attributes),
                    .name = writer_.new_node_name(name + "_" + op),
                    .domain = domain});
  return result;
}

std::string QuantizerExport::quantize_dequantize(const std::string& value, const QuantSpec& spec,
                                                 size_t rank) {
  const IntegerForm form = *integer_form(spec);
  const CodeElements elements = code_elements(form);
  const bool several = form.scale.size() > 1;
  const Shape shape = several ? Shape{std::ssize(form.scale)} : Shape{};
  Table attributes;
  if (several) attributes["axis"] = *form.axis < 0 ? *form.axis + static_cast<int64_t>(rank) : *form.axis;
  const std::string scale = writer_.add_initializer(value + "_scale", Tensor::from(shape, form.scale));
  const std::string zero = writer_.add_initializer(value + "_zero_point", elements.type, shape,
                                                   bytes_of(form.zero_point, elements.bytes));
  const bool is_cut = form.low != elements.low || form.high != elements.high;
  const bool is_wide = elements.bytes > 1;
  const std::string within = is_cut && is_wide ? clipped(value, form, rank) : value;
  std::string codes = add("QuantizeLinear", {within, scale, zero}, attributes, value, value + "_quantized");
  if (is_cut && !is_wide) {
    const auto bound = [&](const char* name, int64_t code) {
      return writer_.add_initializer(value + name, elements.type, {},
                                     bytes_of(std::vector{code}, elements.bytes));
    };
    codes = add("Clip", {codes, bound("_lowest", form.low), bound("_highest", form.high)}, {}, value,
                value + "_clipped");
  }
  return add("DequantizeLinear", {codes, scale, zero}, attributes, value, value + "_dequantized");
}

/// Programs have no Clip of 16-bit integers: the values of the outermost codes bound the value instead.
std::string QuantizerExport::clipped(const std::string& value, const IntegerForm& form, size_t rank) {
  const auto bound = [&](const char* name, int64_t code) {
    std::vector<float> values;
    for (size_t i = 0; i < form.scale.size(); ++i)
      values.push_back(static_cast<float>(code - form.zero_point[i]) * form.scale[i]);
    return writer_.add_initializer(value + name, broadcastable(values, form.axis, rank));
  };
  const std::string low = bound("_lowest", form.low);
  const std::string high = bound("_highest", form.high);
  if (form.scale.size() == 1) return add("Clip", {value, low, high}, {}, value, value + "_clipped");
  const std::string raised = add("Max", {value, low}, {}, value, value + "_raised");
  return add("Min", {raised, high}, {}, value, value + "_clipped");
}

/// QuantizeLinear divides by the scale and rounds to the nearest float of 8 or 4 bits, saturating.
std::string QuantizerExport::cast_to_floats(const std::string& value, const QuantSpec& spec, size_t rank) {
  const std::vector<float> scales = given_scales(spec.format).scales;
  if (scales.empty()) fail("{}: a scale that follows from the data at every run", quant_spec_text(spec));
  const bool several = scales.size() > 1;
  const Shape shape = several ? Shape{std::ssize(scales)} : Shape{};
  Table attributes;
  if (several) attributes["axis"] = spec.axis < 0 ? spec.axis + static_cast<int64_t>(rank) : spec.axis;
  const std::string scale = writer_.add_initializer(value + "_scale", Tensor::from(shape, scales));
  const NarrowType& type = *float_type(spec);
  const std::string zero =
      writer_.add_initializer(value + "_zero_point", type.onnx, shape, zeros_of(type, scales.size()));
  const std::string codes =
      add("QuantizeLinear", {value, scale, zero}, attributes, value, value + "_quantized");
  return add("DequantizeLinear", {codes, scale, zero}, attributes, value, value + "_dequantized");
}

/// `spec` gives its scales.
std::string QuantizerExport::float_weight(const std::string& name, const Tensor& tensor,
                                          const QuantSpec& spec, bool transposed) {
  const std::vector<float> scales = given_scales(spec.format).scales;
  const NarrowType& type = *float_type(spec);
  std::vector<uint32_t> codes = unpacked_bits(encode(spec, tensor).codes(), type.bits, tensor.numel());
  Shape shape = tensor.shape();
  const bool several = scales.size() > 1;
  int64_t axis = spec.axis < 0 ? spec.axis + tensor.rank() : spec.axis;
  if (transposed) {
    codes = transposed_codes(codes, shape[0], shape[1]);
    std::swap(shape[0], shape[1]);
    axis = 1 - axis;
  }
  Table attributes;
  if (several) attributes["axis"] = axis;
  const Shape groups = several ? Shape{std::ssize(scales)} : Shape{};
  const std::string value =
      writer_.add_initializer(name + "_quantized", type.onnx, shape, packed_bits(codes, type.bits));
  const std::string scale = writer_.add_initializer(name + "_scale", Tensor::from(groups, scales));
  const std::string zero =
      writer_.add_initializer(name + "_zero_point", type.onnx, groups, zeros_of(type, scales.size()));
  return add("DequantizeLinear", {value, scale, zero}, attributes, name, name);
}

std::string QuantizerExport::quant(const std::string& value, const QuantSpec& spec, size_t rank) {
  const IntegerForm form = *integer_form(spec);
  std::vector<float> zeros(form.zero_point.begin(), form.zero_point.end());
  if (!form.is_signed && form.is_narrow()) {  // here the lowest code is left out, there the highest one
    for (float& zero : zeros) --zero;
  }
  const std::string scale =
      writer_.add_initializer(value + "_scale", broadcastable(form.scale, form.axis, rank));
  const std::string zero =
      writer_.add_initializer(value + "_zero_point", broadcastable(zeros, form.axis, rank));
  const std::string bits = writer_.add_initializer(
      value + "_bitwidth", Tensor::from({}, std::vector{static_cast<float>(form.width)}));
  return add("Quant", {value, scale, zero, bits},
             {{"signed", form.is_signed},
              {"narrow", form.is_narrow()},
              {"rounding_mode", form.floor ? "FLOOR" : "ROUND"}},
             value, value + "_quantized", kQonnxDomain);
}

std::string QuantizerExport::bipolar(const std::string& value, const Tensor& scale) {
  return add("BipolarQuant", {value, writer_.add_initializer(value + "_scale", scale)}, {}, value,
             value + "_quantized", kQonnxDomain);
}

std::string QuantizerExport::rounded(const std::string& name, const Tensor& tensor, const QuantSpec& derived,
                                     bool transposed) {
  const QuantSpec spec = with_given_parameters(derived, tensor);
  if (style_ == OnnxStyle::kQonnx) {
    const Tensor values = fake_quantize(spec, tensor);
    QuantSpec turned = spec;
    if (transposed) turned.axis = 1 - (spec.axis < 0 ? spec.axis + 2 : spec.axis);
    const Tensor written = transposed ? transposed_matrix(values) : values;
    const std::string value = writer_.add_initializer(name, written);
    if (sign_codes(spec.format)) return bipolar(value, magnitudes(turned, written));
    return quant(value, turned, static_cast<size_t>(tensor.rank()));
  }
  if (float_type(spec) != nullptr) return float_weight(name, tensor, spec, transposed);
  if (has_blocks(spec)) return block_weight(name, tensor, spec, transposed);
  IntegerForm form = *integer_form(spec);
  CodeElements elements = code_elements(form);
  std::vector<int64_t> codes = codes_of(form, tensor);
  if (unsigned_weights_ && elements.type == onnx::TensorProto::INT8) {
    make_unsigned(form, codes);
    elements.type = onnx::TensorProto::UINT8;
  }
  Shape shape = tensor.shape();
  const bool several = form.scale.size() > 1;
  Table attributes;
  if (several) attributes["axis"] = *form.axis < 0 ? *form.axis + tensor.rank() : *form.axis;
  if (transposed) {
    codes = transposed_codes(codes, shape[0], shape[1]);
    std::swap(shape[0], shape[1]);
    if (several) attributes["axis"] = 1 - *attributes["axis"].get_if<int64_t>();
  }
  const Shape groups = several ? Shape{std::ssize(form.scale)} : Shape{};
  const std::string value =
      writer_.add_initializer(name + "_quantized", elements.type, shape, bytes_of(codes, elements.bytes));
  const std::string scale = writer_.add_initializer(name + "_scale", Tensor::from(groups, form.scale));
  const std::string zero = writer_.add_initializer(name + "_zero_point", elements.type, groups,
                                                   bytes_of(form.zero_point, elements.bytes));
  return add("DequantizeLinear", {value, scale, zero}, attributes, name, name);
}

/// Groups of a tensor of other than two dimensions lie in a matrix, a row a channel.
std::string QuantizerExport::block_weight(const std::string& name, const Tensor& tensor,
                                          const QuantSpec& spec, bool is_transposed) {
  const WeightBlocks blocks = weight_blocks(spec, tensor);
  const bool is_group = spec.granularity == Granularity::kGroup;
  const int64_t channel = spec.axis < 0 ? spec.axis + tensor.rank() : spec.axis;
  if (tensor.rank() == 2) {
    const bool is_turned = is_group && channel == 1;
    return dequantized(name, is_turned != is_transposed ? transposed(blocks) : blocks);
  }
  if (!is_group) return dequantized(name, blocks);
  Shape shape = tensor.shape();
  std::rotate(shape.begin(), shape.begin() + channel, shape.begin() + channel + 1);
  std::vector<int64_t> order(shape.size());  // [1, ..., channel, 0, channel + 1, ...]
  std::iota(order.begin(), order.end(), int64_t{0});
  std::rotate(order.begin(), order.begin() + 1, order.begin() + channel + 1);
  const std::string sizes = writer_.add_initializer(
      name + "_shape", Tensor::from({std::ssize(shape)}, std::vector<int64_t>(shape)));
  const std::string matrix = dequantized(name + "_matrix", blocks);
  const std::string reshaped =
      add("Reshape", {matrix, sizes}, {}, name, channel == 0 ? name : name + "_reshaped");
  return channel == 0 ? reshaped : add("Transpose", {reshaped}, {{"perm", Value(order)}}, name, name);
}

std::string QuantizerExport::dequantized(const std::string& name, const WeightBlocks& blocks) {
  const Shape groups = blocks.scale_shape();
  OnnxValues inputs = {
      writer_.add_initializer(name + "_quantized", blocks.type, blocks.shape, blocks.packed_codes())};
  const bool has_powers = !blocks.scale_codes.empty() && !blocks.has_tensor_scale;
  if (blocks.scale_codes.empty() || (has_powers && opset_ < kScalesOfPowersSince)) {
    inputs.push_back(writer_.add_initializer(name + "_scale", Tensor::from(groups, blocks.scales)));
  } else {
    const std::string codes = writer_.add_initializer(name + "_scale_quantized", blocks.scale_type, groups,
                                                      packed_bits(blocks.scale_codes, 8));
    inputs.push_back(
        blocks.has_tensor_scale
            ? add("DequantizeLinear",
                  {codes, writer_.add_initializer(name + "_tensor_scale",
                                                  Tensor::from({}, std::vector{blocks.tensor_scale}))},
                  {}, name + "_scale", name + "_scale")
            : codes);
  }
  if (!blocks.zero_points.empty())
    inputs.push_back(
        writer_.add_initializer(name + "_zero_point", blocks.type, groups, blocks.packed_zero_points()));
  Table attributes = {{"axis", blocks.axis}, {"block_size", blocks.block}};
  if (has_powers && opset_ >= kScalesOfPowersSince)  // else the result is of their type
    attributes["output_dtype"] = onnx_element_type(DType::kFloat32);
  return add("DequantizeLinear", std::move(inputs), std::move(attributes), name, name);
}

std::optional<IntegerRows> QuantizerExport::integer_rows(const std::string& name, const Tensor& matrix,
                                                         const QuantSpec& spec) {
  const std::optional<IntegerForm> form = integer_form(with_given_parameters(spec, matrix));
  if (style_ == OnnxStyle::kQonnx || !form || form->scale.empty()) return std::nullopt;
  const bool by_row = form->scale.size() == 1 || *form->axis == 0 || *form->axis == -matrix.rank();
  const bool has_zero_point = std::ranges::any_of(form->zero_point, [](int64_t zero) { return zero != 0; });
  if (!by_row || has_zero_point) return std::nullopt;
  std::vector<float> scale = form->scale;
  if (scale.size() == 1) scale.resize(static_cast<size_t>(matrix.dim(0)), scale.front());
  const CodeElements elements = code_elements(*form);
  return IntegerRows{writer_.add_initializer(name + "_quantized", elements.type, matrix.shape(),
                                             bytes_of(codes_of(*form, matrix), elements.bytes)),
                     writer_.add_initializer(name + "_scale", Tensor::from({matrix.dim(0), 1}, scale))};
}

}  // namespace detent
