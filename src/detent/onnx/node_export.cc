#include "detent/onnx/node_export.h"

#include <algorithm>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/graph/known_elements.h"
#include "detent/onnx/exporter.h"
#include "detent/onnx/tensor_data.h"

namespace detent {
namespace {

/// Integers of a constant operand.
std::optional<std::vector<int64_t>> integers_of(const Value& constant) {
  if (const auto* integer = constant.get_if<int64_t>()) return std::vector{*integer};
  return listed_integers(constant);
}

}  // namespace

int64_t NodeExport::opset() const { return exporter_.opset_; }

OnnxStyle NodeExport::style() const { return exporter_.options_.style; }

bool NodeExport::has_input(size_t index) const {
  return index < node_.inputs.size() && !node_.inputs[index].is_absent();
}

const Operand& NodeExport::type(size_t index) const {
  const NodeInput& input = node_.inputs.at(index);
  DETENT_CHECK(!input.is_constant(), "input {} of {} is a number", index, node_.name);
  return exporter_.first_.types.find(value_name(input))->second;
}

const Operand& NodeExport::result_type(size_t result) const {
  return exporter_.first_.types.find(value_name(node_.name, result))->second;
}

std::optional<int64_t> NodeExport::size(size_t index, size_t dim) const {
  const std::string name = value_name(node_.inputs.at(index));
  const int64_t first = exporter_.first_.types.find(name)->second.shape.at(dim);
  const int64_t second = exporter_.second_.types.find(name)->second.shape.at(dim);
  return first == second && first != kOpenSize ? std::optional(first) : std::nullopt;
}

int64_t NodeExport::dimension(int64_t dim) const {
  return dim < 0 ? dim + static_cast<int64_t>(rank(0)) : dim;
}

std::string NodeExport::input(size_t index) {
  const NodeInput& input = node_.inputs.at(index);
  if (input.is_absent()) return "";
  const bool is_number = input.is_constant() || !type(index).is_tensor();
  if (!is_number) return exporter_.value_of(node_, index);
  DType dtype = result_type().dtype;
  for (size_t i = 0; i < node_.inputs.size(); ++i) {
    const NodeInput& other = node_.inputs[i];
    if (i == index || other.is_constant() || !type(i).is_tensor() || type(i).dtype == DType::kBool) continue;
    dtype = type(i).dtype;
  }
  if (!input.is_constant()) {
    const std::string value = exporter_.value_of(node_, index);
    if (dtype == DType::kInt64) return value;
    return add("Cast", {value}, {{"to", onnx_element_type(dtype)}});
  }
  if (input.constant.is<int64_t>() || input.constant.is<double>()) return number_of(input.constant, dtype);
  const auto list = integers_of(input.constant);
  if (!list) refuse(fmt::format("input {} is {}", index, value_text(input.constant)));
  return list_of(*list);
}

OnnxValues NodeExport::inputs() {
  OnnxValues values;
  for (size_t i = 0; i < input_count(); ++i) values.push_back(input(i));
  return values;
}

std::string NodeExport::input_as(size_t index, DType dtype) {
  if (!has_input(index)) return "";
  const NodeInput& input = node_.inputs[index];
  if (input.constant.is<int64_t>() || input.constant.is<double>()) return number_of(input.constant, dtype);
  const std::string value = this->input(index);
  if (type(index).is_tensor() && type(index).dtype == dtype) return value;
  return add("Cast", {value}, {{"to", onnx_element_type(dtype)}});
}

std::optional<std::vector<int64_t>> NodeExport::integers(size_t index) const {
  const NodeInput& input = node_.inputs.at(index);
  if (input.is_constant()) return integers_of(input.constant);
  const std::string name = value_name(input);
  const Operand& first = exporter_.first_.types.find(name)->second;
  const Operand& second = exporter_.second_.types.find(name)->second;
  if (!have_same_elements(first, second)) return std::nullopt;
  const Tensor list = to_dtype(*first.elements, DType::kInt64);
  return std::vector<int64_t>(list.values<int64_t>().begin(), list.values<int64_t>().end());
}

std::string NodeExport::list(size_t index) {
  if (!has_input(index)) return "";
  const NodeInput& input = node_.inputs[index];
  if (input.is_constant()) {
    const auto known = integers_of(input.constant);
    if (!known) refuse(fmt::format("input {} is {}", index, value_text(input.constant)));
    return list_of(*known);
  }
  std::string value = exporter_.value_of(node_, index);
  const Operand& operand = type(index);
  if (operand.is_tensor() && operand.dtype != DType::kInt64)
    value = add("Cast", {value}, {{"to", onnx_element_type(DType::kInt64)}});
  const bool is_list = operand.is_tensor() && operand.shape.size() == 1;
  return is_list ? value : add("Reshape", {value, list_of({-1})});
}

std::string NodeExport::scalar(size_t index) {
  const NodeInput& input = node_.inputs.at(index);
  if (input.is_constant()) {
    const auto known = integers_of(input.constant);
    if (!known || known->size() != 1)
      refuse(fmt::format("input {} is {}", index, value_text(input.constant)));
    return number_of(known->front(), DType::kInt64);
  }
  const std::string value = exporter_.value_of(node_, index);
  const bool is_scalar = !type(index).is_tensor() || type(index).shape.empty();
  if (is_scalar) return value;
  const std::string empty = constant(Tensor(DType::kInt64, {0}), "no_dimensions");
  return add("Reshape", {value, empty});
}

const Tensor* NodeExport::find_parameter(const char* name) const {
  const Parameter* parameter = node_.find_parameter(name);
  return parameter == nullptr ? nullptr : &parameter->tensor;
}

std::string NodeExport::parameter(const char* name) {
  return find_parameter(name) == nullptr ? "" : exporter_.parameter(node_, name, false);
}

std::optional<IntegerRows> NodeExport::integer_rows(const char* name) {
  const auto spec = rounding_of(node_, name);
  if (!spec) return std::nullopt;
  return exporter_.quantizers_.integer_rows(node_.parameter_key(name), *find_parameter(name), *spec);
}

std::string NodeExport::transposed_parameter(const char* name) {
  return exporter_.parameter(node_, name, true);
}

std::string NodeExport::parameter_or(const char* name, float value, const Shape& shape) {
  if (find_parameter(name) != nullptr) return parameter(name);
  Tensor tensor(DType::kFloat32, shape);
  std::ranges::fill(tensor.values<float>(), value);
  return constant(tensor, name);
}

bool NodeExport::is_rounded(const std::string& value) const {
  return exporter_.quantizers_.is_rounded(value);
}

std::string NodeExport::rounded(const std::string& matrix, const QuantSpec& spec) {
  return exporter_.quantizers_.rounded(matrix, spec, 2);
}

std::string NodeExport::list_of(const std::vector<int64_t>& values) {
  return constant(Tensor::from({std::ssize(values)}, values), "list");
}

std::string NodeExport::number_of(const Value& value, DType dtype) {
  const std::optional<Tensor> number = tensor_of_number(value, dtype);
  if (!number) refuse(fmt::format("{}, which {} does not hold", value_text(value), dtype_name(dtype)));
  return constant(*number, "number");
}

std::string NodeExport::constant(const Tensor& tensor, const std::string& hint) {
  return exporter_.writer_.add_initializer(node_.name + "_" + hint, tensor);
}

std::string NodeExport::elements(const std::string& hint, int64_t type, const Shape& shape,
                                 const std::string& bytes) {
  return exporter_.writer_.add_initializer(node_.name + "_" + hint, type, shape, bytes);
}

std::string NodeExport::add(const std::string& op, OnnxValues inputs, Table attributes) {
  const std::string name = node_.name + "_" + op;
  const std::string value = exporter_.writer_.new_value(name);
  exporter_.writer_.add_node({.op = op,
                              .inputs = std::move(inputs),
                              .outputs = {value},
                              .attributes = std::move(attributes),
                              .name = exporter_.writer_.new_node_name(name)});
  return value;
}

void NodeExport::add_results() {
  for (size_t i = 0; i < result_count(node_); ++i) {
    const bool is_named = i < node_.source_names.size() && !node_.source_names[i].empty();
    results_.push_back(
        exporter_.writer_.new_value(is_named ? node_.source_names[i] : value_name(node_.name, i)));
  }
}

void NodeExport::emit_loop(OnnxValues inputs, std::span<const std::string> captured) {
  auto body = exporter_.body_of(node_, captured);
  add_results();
  exporter_.writer_.add_node({.op = "Loop",
                              .inputs = std::move(inputs),
                              .outputs = results_,
                              .name = exporter_.writer_.new_node_name(node_.name),
                              .body = std::move(body)});
}

void NodeExport::emit(const std::string& op, OnnxValues inputs, Table attributes, std::optional<Tensor> value,
                      const std::string& domain) {
  add_results();
  exporter_.writer_.add_node({.op = op,
                              .inputs = std::move(inputs),
                              .outputs = results_,
                              .attributes = std::move(attributes),
                              .name = exporter_.writer_.new_node_name(node_.name),
                              .domain = domain,
                              .value = std::move(value)});
}

void NodeExport::refuse(const std::string& reason) const { throw Error(reason); }

void NodeExport::need_opset(int64_t version, const char* what) const {
  exporter_.needed_opset_ = std::max(exporter_.needed_opset_, version);
  if (opset() < version) refuse(fmt::format("{} needs opset {}", what, version));
}

}  // namespace detent
