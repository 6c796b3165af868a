#include "graph_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/onnx/tensor_data.h"

namespace detent {
namespace {

constexpr double kGrid = 0.125;

template <class T>
T wild_number(Random& random) {
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, bool>) {
    return random.chance(0.5);
  } else if constexpr (std::is_same_v<T, double>) {
    // Numbers that float32, in which these networks are computed, does not hold are not among them.
    return random.of(
        {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), 0.0, -0.0, 0.5, 1.0, -1.0, 2.5, -8.0});
  } else if constexpr (std::is_floating_point_v<T>) {
    return random.of({Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), Limits::max(),
                      Limits::lowest(), T(1e-40), Limits::min(), T(0), -T(0), T(1e10), T(-3e9), T(0.5), T(1),
                      T(-1), T(2.5), T(-88.5)});
  } else {
    return random.of({Limits::max(), Limits::min(), T(Limits::max() - 1), T(Limits::min() + 1), T(0), T(1),
                      T(2), T(7), T(Limits::max() / 2), T(3)});
  }
}

template <class T>
T drawn(Random& random, Content content) {
  if (content == Content::kWild) return wild_number<T>(random);
  if constexpr (std::is_same_v<T, bool>) {
    return random.chance(0.5);
  } else {
    const bool is_signed = std::numeric_limits<T>::is_signed;
    const int64_t most = content == Content::kUnit ? (std::is_floating_point_v<T> ? 8 : 1)
                                                   : (std::is_floating_point_v<T> ? 32 : 8);
    const int64_t least = content == Content::kPositive ? 1 : is_signed ? -most : 0;
    const auto number = static_cast<double>(random.between(least, most));
    return static_cast<T>(std::is_floating_point_v<T> ? number * kGrid : number);
  }
}

bool fits(const GeneratedValue& value, const Wanted& wanted) {
  const bool has_type = std::ranges::find(wanted.dtypes, value.dtype) != wanted.dtypes.end();
  const bool has_rank = value.rank() >= wanted.least_rank && value.rank() <= wanted.most_rank;
  const bool is_full = std::ranges::find(value.shape, 0) == value.shape.end();
  const Numbers& numbers = value.numbers;
  if (value.dtype == DType::kFloat16 && numbers.magnitude > GraphWriter::kMostOfHalf) return false;
  return has_type && has_rank && value.has_known_shape && (!wanted.shape || value.shape == *wanted.shape) &&
         (wanted.may_be_empty || is_full) && (wanted.may_be_wild || !numbers.is_wild) &&
         (!wanted.must_be_exact || numbers.is_exact() || (!value.is_float() && !numbers.is_wild) ||
          (wanted.may_be_wild && numbers.is_wild && numbers.error == 0)) &&
         (numbers.is_wild || numbers.magnitude <= wanted.most_magnitude) &&
         (wanted.content != Content::kPositive || numbers.is_positive);
}

/// A constant's attribute without a tensor, where there is one for the type and rank.
std::optional<OnnxAttribute> as_numbers(const Tensor& tensor) {
  if (tensor.rank() > 1 || tensor.numel() == 0) return std::nullopt;
  if (tensor.dtype() == DType::kFloat32) {
    const auto values = tensor.values<float>();
    if (tensor.rank() == 0) return OnnxAttribute("value_float", values[0]);
    return OnnxAttribute("value_floats", std::vector<float>(values.begin(), values.end()));
  }
  if (tensor.dtype() != DType::kInt64) return std::nullopt;
  const auto values = tensor.values<int64_t>();
  if (tensor.rank() == 0) return OnnxAttribute("value_int", values[0]);
  return OnnxAttribute("value_ints", std::vector<int64_t>(values.begin(), values.end()));
}

Numbers numbers_of(DType dtype, Content content) {
  const bool is_float = is_floating_point(dtype);
  const double magnitude = content == Content::kUnit ? 1 : is_float ? 4 : 8;
  return {magnitude, is_float ? kGrid : 1, 0, content == Content::kPositive, content == Content::kWild};
}

}  // namespace

GraphWriter::GraphWriter(uint64_t seed, uint64_t index) : random(seed, index) {
  opset = random.chance(0.5) ? random.of<int64_t>({13, 17, 18}) : random.between(7, 23);
  has_open_sizes_ = random.chance(0.15);
  if (random.chance(0.25))
    reals_ = random.of<std::vector<DType>>({{DType::kFloat16},
                                            {DType::kFloat64},
                                            {DType::kFloat32, DType::kFloat16},
                                            {DType::kFloat32, DType::kFloat64},
                                            {DType::kFloat16, DType::kFloat64}});
  proto_.set_ir_version(opset >= 21 ? 10 : 8);
  auto& import = *proto_.add_opset_import();
  import.set_domain("");
  import.set_version(opset);
  proto_.mutable_graph()->set_name("generated");
}

GeneratedValue& GraphWriter::own(GeneratedValue value) { return values_.emplace_back(std::move(value)); }

/// Numbers after rounding to the type.
Numbers GraphWriter::stored(const Result& result) {
  constexpr double kUnitOfHalf = 0x1p-11;
  constexpr double kSmallestHalf = 0x1p-24;
  Numbers numbers = result.numbers;
  if (result.dtype != DType::kFloat16 || result.is_as_stored) return numbers;
  const bool is_exact =
      numbers.is_exact() && numbers.magnitude < numbers.step / kUnitOfHalf && numbers.step >= kSmallestHalf;
  if (is_exact) return numbers;
  numbers.error += kUnitOfHalf * numbers.magnitude + kSmallestHalf;
  numbers.step = 0;
  return numbers;
}

Shape GraphWriter::shape(int64_t least_rank, int64_t most_rank, bool may_be_empty) {
  Shape result(static_cast<size_t>(random.between(least_rank, most_rank)));
  const bool has_empty = may_be_empty && random.chance(0.04);
  for (int64_t& size : result) size = random.chance(0.2) ? 1 : random.between(has_empty ? 0 : 1, 5);
  return result;
}

Tensor GraphWriter::numbers(DType dtype, const Shape& shape, Content content) {
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16)
    return to_dtype(numbers(DType::kFloat64, shape, content), dtype);
  Tensor tensor(dtype, shape);
  visit_numbers(dtype, [&]<class T>(T) {
    for (T& number : tensor.values<T>()) number = drawn<T>(random, content);
  });
  return tensor;
}

GeneratedValue GraphWriter::input_of(const Tensor& tensor, const Numbers& numbers) {
  const std::string name = fmt::format("x{}", next_++);
  inputs_.emplace_back(name, tensor);
  onnx::ValueInfoProto& info = *proto_.mutable_graph()->add_input();
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<int>(onnx_element_type(tensor.dtype())));
  type.mutable_shape();
  // An open size without a name is the batch where it comes first, of which there is one size.
  for (size_t i = 0; i < tensor.shape().size(); ++i) {
    const int64_t size = tensor.shape()[i];
    auto& dim = *type.mutable_shape()->add_dim();
    const bool is_open = has_open_sizes_ && random.chance(0.5);
    if (!is_open) dim.set_dim_value(size);
    if (is_open && (i == 0 || random.chance(0.7))) dim.set_dim_param(fmt::format("open_{}", size));
  }
  return own({.name = name, .dtype = tensor.dtype(), .shape = tensor.shape(), .numbers = numbers});
}

GeneratedValue GraphWriter::input(DType dtype, const Shape& shape, Content content) {
  return input_of(numbers(dtype, shape, content), numbers_of(dtype, content));
}

GeneratedValue GraphWriter::constant(const Tensor& tensor, const Numbers& numbers) {
  const std::string name = fmt::format("c{}", next_++);
  if (random.chance(0.7)) {
    *proto_.mutable_graph()->add_initializer() = tensor_proto(name, tensor, random.chance(0.7));
  } else {
    OnnxAttribute value("value", tensor_proto("", tensor, random.chance(0.5)));
    if (const auto numbers_alone = as_numbers(tensor); numbers_alone && opset >= 12 && random.chance(0.3))
      value = *numbers_alone;
    *proto_.mutable_graph()->add_node() = onnx_node("Constant", {}, {name}, {value});
  }
  return own({.name = name,
              .dtype = tensor.dtype(),
              .shape = tensor.shape(),
              .numbers = numbers,
              .is_constant = true,
              .is_read = true});
}

/// A constant after nodes that import folds.
GeneratedValue GraphWriter::computed(const Tensor& tensor, const Numbers& numbers) {
  const GeneratedValue value = constant(tensor, numbers);
  const Result same{tensor.dtype(), tensor.shape(), numbers};
  GeneratedValue result;
  switch (random.between(0, 3)) {
    case 0:
      result = node("Identity", {value}, {}, same);
      break;
    case 1: {
      const bool has_zero = std::ranges::find(tensor.shape(), 0) != tensor.shape().end();
      if (has_zero && opset < 14) return value;
      const GeneratedValue sizes =
          constant(Tensor::from({tensor.rank()}, std::span<const int64_t>(tensor.shape())));
      std::vector<OnnxAttribute> attributes;
      if (has_zero) attributes.emplace_back("allowzero", 1);
      result = node("Reshape", {value, sizes}, attributes, same);
      break;
    }
    case 2:
      result = tensor.rank() > 0 ? node("Concat", {value}, {{"axis", 0}}, same) : value;
      break;
    default:
      result = node("Transpose", {value}, {},
                    Result{tensor.dtype(), Shape(tensor.shape().rbegin(), tensor.shape().rend()), numbers});
      result = node("Transpose", {result}, {}, same);
  }
  values_.back().is_constant = result.is_constant = true;
  return result;
}

GeneratedValue GraphWriter::source(DType dtype, const Shape& shape, Content content) {
  if (random.chance(0.6)) return input(dtype, shape, content);
  const Tensor tensor = numbers(dtype, shape, content);
  return random.chance(0.75) ? constant(tensor, numbers_of(dtype, content))
                             : computed(tensor, numbers_of(dtype, content));
}

GeneratedValue GraphWriter::operand(const Wanted& wanted) {
  if (!random.chance(wanted.is_new)) {
    std::vector<const GeneratedValue*> fitting;
    for (const GeneratedValue& value : values_) {
      if (!fits(value, wanted)) continue;
      // The last node's result is read more often, so that graphs become deep.
      const size_t times = value.is_read ? 1 : 4;
      fitting.insert(fitting.end(), times, &value);
    }
    if (!fitting.empty()) return *random.of(fitting);
  }
  const DType dtype = random.of(wanted.dtypes);
  const Shape sizes =
      wanted.shape ? *wanted.shape : shape(wanted.least_rank, wanted.most_rank, wanted.may_be_empty);
  const bool is_wild = wanted.may_be_wild && random.chance(0.25);
  return source(dtype, sizes, is_wild ? Content::kWild : wanted.content);
}

GeneratedValue GraphWriter::broadcasting(const Shape& with, Wanted wanted) {
  std::vector<const GeneratedValue*> fitting;
  for (const GeneratedValue& value : values_) {
    if (!fits(value, wanted)) continue;
    bool does = true;
    for (size_t i = 1; i <= std::min(with.size(), value.shape.size()); ++i) {
      const int64_t a = with[with.size() - i];
      const int64_t b = value.shape[value.shape.size() - i];
      does = does && (a == b || a == 1 || b == 1);
    }
    if (does) fitting.push_back(&value);
  }
  if (!fitting.empty() && !random.chance(wanted.is_new)) return *random.of(fitting);
  Shape sizes = with;
  if (random.chance(0.4)) sizes.erase(sizes.begin(), sizes.begin() + random.between(0, std::ssize(sizes)));
  for (int64_t& size : sizes) {
    if (random.chance(0.25)) size = 1;
  }
  if (random.chance(0.1) && sizes.size() < 4)
    sizes.insert(sizes.begin(), with.size() == sizes.size() ? 2 : 1);
  const bool is_wild = wanted.may_be_wild && random.chance(0.25);
  return source(random.of(wanted.dtypes), sizes, is_wild ? Content::kWild : wanted.content);
}

GeneratedValue GraphWriter::list(const std::vector<int64_t>& values, DType dtype) {
  const Tensor tensor = to_dtype(Tensor::from({std::ssize(values)}, values), dtype);
  Numbers numbers{0, 1, 0, false, false};
  for (const int64_t value : values)
    numbers.magnitude = std::max(numbers.magnitude, std::fabs(static_cast<double>(value)));
  numbers.is_wild = numbers.magnitude > 0x1p24;
  if (random.chance(0.1) && !values.empty()) return input_of(tensor, numbers);
  return random.chance(0.8) ? constant(tensor, numbers) : computed(tensor, numbers);
}

GeneratedValue GraphWriter::scalar(int64_t value, DType dtype) {
  const Numbers numbers{std::fabs(static_cast<double>(value)), 1, 0, value > 0,
                        std::fabs(static_cast<double>(value)) > 0x1p24};
  const Tensor tensor = to_dtype(Tensor::from(Shape(), std::vector<int64_t>{value}), dtype);
  return random.chance(0.8) ? constant(tensor, numbers) : computed(tensor, numbers);
}

void GraphWriter::mark_read(const std::string& name) {
  for (GeneratedValue& value : values_) value.is_read = value.is_read || value.name == name;
}

void GraphWriter::add_domain(const std::string& domain) {
  for (const auto& import : proto_.opset_import()) {
    if (import.domain() == domain) return;
  }
  auto& import = *proto_.add_opset_import();
  import.set_domain(domain);
  import.set_version(1);
}

std::vector<GeneratedValue> GraphWriter::node(const std::string& op, std::vector<GeneratedValue> inputs,
                                              const std::vector<OnnxAttribute>& attributes,
                                              const std::vector<Result>& results, const std::string& domain) {
  while (!inputs.empty() && inputs.back().name.empty()) inputs.pop_back();
  std::vector<std::string> names;
  for (const GeneratedValue& input : inputs) {
    names.push_back(input.name);
    mark_read(input.name);
  }
  std::vector<std::string> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs.push_back(fmt::format("v{}", next_++));
  onnx::NodeProto& proto = *proto_.mutable_graph()->add_node() = onnx_node(op, names, outputs, attributes);
  proto.set_domain(domain);
  if (!domain.empty()) add_domain(domain);
  const bool is_constant = !inputs.empty() && std::ranges::all_of(inputs, [](const auto& input) {
    return input.is_constant || input.name.empty();
  });
  std::vector<GeneratedValue> values;
  for (size_t i = 0; i < results.size(); ++i) {
    values.push_back({.name = outputs[i],
                      .dtype = results[i].dtype,
                      .shape = results[i].shape,
                      .numbers = stored(results[i]),
                      .is_constant = is_constant,
                      .has_known_shape = results[i].has_known_shape});
    own(values.back());
  }
  return values;
}

void GraphWriter::finish() {
  for (const GeneratedValue& value : values_) {
    const bool is_given = value.name.starts_with("x") || value.name.starts_with("c");
    if (is_given || value.dtype == DType::kBFloat16 ||  // which node has no arrays for
        (value.is_read && !random.chance(0.1)))
      continue;
    outputs_.push_back(value);
    *proto_.mutable_graph()->add_output() = output_info(value);
  }
}

void insert_reads(const onnx::NodeProto& node, std::set<std::string>& names) {
  for (const std::string& input : node.input()) {
    if (!input.empty()) names.insert(input);
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    std::set<std::string> inner;
    for (const onnx::NodeProto& step : attribute.g().node()) insert_reads(step, inner);
    for (const onnx::NodeProto& step : attribute.g().node()) {
      for (const std::string& output : step.output()) inner.erase(output);
    }
    for (const onnx::ValueInfoProto& input : attribute.g().input()) inner.erase(input.name());
    names.insert(inner.begin(), inner.end());
  }
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (size_t i = 1; i <= result.size(); ++i) {
    const int64_t first = i <= a.size() ? a[a.size() - i] : 1;
    const int64_t second = i <= b.size() ? b[b.size() - i] : 1;
    result[result.size() - i] = first == 1 ? second : first;
  }
  return result;
}

int64_t normal_axis(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

onnx::ValueInfoProto output_info(const GeneratedValue& value) {
  onnx::ValueInfoProto info;
  info.set_name(value.name);
  info.mutable_type()->mutable_tensor_type()->set_elem_type(static_cast<int>(onnx_element_type(value.dtype)));
  return info;
}

onnx::TensorProto tensor_proto(const std::string& name, const Tensor& tensor, bool raw) {
  onnx::TensorProto proto;
  proto.set_name(name);
  for (const int64_t size : tensor.shape()) proto.add_dims(size);
  proto.set_data_type(static_cast<int>(onnx_element_type(tensor.dtype())));
  if (!raw && tensor.dtype() == DType::kFloat32) {
    for (const float value : tensor.values<float>()) proto.add_float_data(value);
  } else if (!raw && tensor.dtype() == DType::kInt64) {
    for (const int64_t value : tensor.values<int64_t>()) proto.add_int64_data(value);
  } else if (!raw && tensor.dtype() == DType::kFloat64) {
    for (const double value : tensor.values<double>()) proto.add_double_data(value);
  } else if (!raw && tensor.dtype() == DType::kFloat16) {
    for (size_t i = 0; i < tensor.byte_size(); i += sizeof(uint16_t)) {
      uint16_t bits = 0;
      std::memcpy(&bits, tensor.bytes().data() + i, sizeof(bits));
      proto.add_int32_data(bits);
    }
  } else {
    const auto bytes = tensor.bytes();
    proto.set_raw_data(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return proto;
}

}  // namespace detent
