#include "detent/onnx/node_import.h"

#include <onnx/onnx_pb.h>

#include <cmath>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/onnx/importer.h"
#include "detent/onnx/quantizer_export.h"
#include "detent/onnx/tensor_data.h"

namespace detent {
namespace {

std::string identifier_of(const onnx::NodeProto& node) {
  const std::string& name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return identifier(name.empty() ? node.op_type() : name);
}

/// Type of an attribute: IR version 1 has no field for it.
onnx::AttributeProto::AttributeType held_type(const onnx::AttributeProto& attribute) {
  if (attribute.type() != onnx::AttributeProto::UNDEFINED) return attribute.type();
  if (attribute.has_t()) return onnx::AttributeProto::TENSOR;
  if (attribute.has_f()) return onnx::AttributeProto::FLOAT;
  if (attribute.has_i()) return onnx::AttributeProto::INT;
  return attribute.floats_size() > 0 ? onnx::AttributeProto::FLOATS : onnx::AttributeProto::INTS;
}

}  // namespace

const std::string& NodeImport::op() const { return proto_.op_type(); }

std::string NodeImport::full_name() const { return importer_.scope_->prefix + proto_.output(0); }

size_t NodeImport::input_count() const {
  read_inputs_ = static_cast<size_t>(proto_.input_size());
  int count = proto_.input_size();
  while (count > 0 && importer_.is_absent(proto_.input(count - 1), *importer_.scope_)) --count;
  return static_cast<size_t>(count);
}

bool NodeImport::has_input(size_t index) const {
  read_inputs_ = std::max(read_inputs_, index + 1);
  if (index >= static_cast<size_t>(proto_.input_size())) return false;
  const std::string& name = proto_.input(static_cast<int>(index));
  return !name.empty() && !importer_.is_absent(name, *importer_.scope_);
}

const std::string& NodeImport::input_name(size_t index) const {
  if (!has_input(index)) fail("input {} is missing", index);
  return proto_.input(static_cast<int>(index));
}

ImportedValue& NodeImport::any_value(size_t index) const {
  return importer_.find(input_name(index), *importer_.scope_);
}

ImportedValue& NodeImport::value(size_t index) const {
  ImportedValue& value = any_value(index);
  if (value.sequence) fail("input {} is a sequence of tensors, expected a tensor", index);
  return value;
}

const ImportedValue& NodeImport::any_sequence(size_t index) const {
  const ImportedValue& value = any_value(index);
  if (!value.sequence) fail("input {} is a tensor, expected a sequence of tensors", index);
  return value;
}

const std::vector<ImportedValue*>& NodeImport::sequence(size_t index) const {
  const ImportedValue& value = any_sequence(index);
  if (value.rows || value.grows) fail("input {} is a sequence whose length only a run knows", index);
  return *value.sequence;
}

void NodeImport::set_sequence(size_t output, std::vector<ImportedValue*> sequence) {
  ImportedValue value;
  value.sequence = std::move(sequence);
  set_sequence(output, std::move(value));
}

void NodeImport::set_sequence(size_t output, ImportedValue sequence) {
  importer_.set_output(proto_.output(static_cast<int>(output)), std::move(sequence));
}

NodeInput NodeImport::operand(ImportedValue& value) {
  if (value.sequence) fail("a sequence of sequences");
  return importer_.operand(value, op());
}

ImportedValue& NodeImport::own(NodeInput result, const ImportedValue& like) {
  return importer_.own_result(std::move(result), like);
}

void NodeImport::pass_on(ImportedValue& value, size_t output) {
  importer_.scope_->values[proto_.output(static_cast<int>(output))] = &value;
}

NodeInput NodeImport::input(size_t index) {
  const std::string& name = input_name(index);
  return importer_.operand(value(index), name);
}

NodeInput NodeImport::list(size_t index) {
  const auto known = integers(index);
  return known && rank(index) == 1 ? list_of(*known) : input(index);
}

const Tensor* NodeImport::constant(size_t index) const {
  if (!has_input(index)) return nullptr;
  const ImportedValue& value = this->value(index);
  return value.constant ? &*value.constant : nullptr;
}

std::optional<double> NodeImport::number(size_t index) const {
  const Tensor* tensor = constant(index);
  if (tensor == nullptr || tensor->numel() != 1) return std::nullopt;
  return to_dtype(*tensor, DType::kFloat64).values<double>()[0];
}

std::optional<int64_t> NodeImport::integer(size_t index) const {
  const Tensor* tensor = constant(index);
  if (tensor == nullptr || tensor->numel() != 1) return std::nullopt;
  constexpr double kBeyond = 0x1p63;
  const bool fits = !is_floating_point(tensor->dtype()) || std::fabs(*number(index)) < kBeyond;
  return fits ? std::optional(to_dtype(*tensor, DType::kInt64).values<int64_t>()[0]) : std::nullopt;
}

NodeInput NodeImport::number_or_input(size_t index) {
  const std::optional<double> known = number(index);
  if (!known || constant(index)->dtype() == DType::kBool) return input(index);
  return is_floating_point(constant(index)->dtype()) ? number_of(*known)
                                                     : NodeInput::of_constant(Value(*integer(index)));
}

std::optional<std::vector<int64_t>> NodeImport::integers(size_t index) const {
  constexpr int64_t kMost = 1024;
  const Tensor* tensor = constant(index);
  if (tensor == nullptr || tensor->numel() > kMost) return std::nullopt;
  const Tensor list = to_dtype(*tensor, DType::kInt64);
  return std::vector<int64_t>(list.values<int64_t>().begin(), list.values<int64_t>().end());
}

Shape NodeImport::result_shape(const std::string& op, std::vector<NodeInput> inputs, Table attributes) const {
  const Node node{
      .name = "result", .op = op, .inputs = std::move(inputs), .attributes = std::move(attributes)};
  const TriedTypes types = importer_.inferred(node).at(0);
  Shape shape = types.first.shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (types.second.shape[d] != shape[d]) shape[d] = kOpenSize;
  }
  return shape;
}

const Operand& NodeImport::type(size_t index) const {
  const ImportedValue& value = this->value(index);
  return value.constant ? value.types.first : importer_.types(*value.source).first;
}

std::optional<int64_t> NodeImport::size(size_t index, int64_t dim) const {
  const ImportedValue& value = this->value(index);
  const TriedTypes& types = value.constant ? value.types : importer_.types(*value.source);
  const auto at = static_cast<size_t>(dim < 0 ? dim + std::ssize(types.first.shape) : dim);
  if (at >= types.first.shape.size()) fail("input {} has no dimension {}", index, dim);
  const int64_t found = types.first.shape[at];
  return found == types.second.shape[at] && found != kOpenSize ? std::optional(found) : std::nullopt;
}

bool NodeImport::has_freed_batch(size_t index) const {
  return importer_.trial_.frees_batch && rank(index) > 0 && !size(index, 0) &&
         type(index).shape[0] == importer_.first_sizes_.at(kBatchName);
}

bool NodeImport::begins_with_batch(size_t index) const {
  return rank(index) > 0 && !size(index, 0) && type(index).shape[0] == importer_.trial_.sizes.first_batch();
}

Shape NodeImport::shape(size_t index) const {
  Shape result;
  for (size_t d = 0; d < rank(index); ++d) {
    const auto known = size(index, static_cast<int64_t>(d));
    if (!known) refuse(fmt::format("the size of dimension {} of input {} is open", d, index));
    result.push_back(*known);
  }
  return result;
}

size_t NodeImport::reader_count(size_t index) const {
  if (importer_.scope_ != &importer_.outermost_) return 2;  // not counted
  const auto found = importer_.readers_.find(input_name(index));
  return found == importer_.readers_.end() ? 0 : found->second;
}

const onnx::AttributeProto* NodeImport::find(const char* name) const {
  read_attributes_.insert(name);
  for (const onnx::AttributeProto& attribute : proto_.attribute()) {
    if (attribute.name() != name) continue;
    const std::string& reference = attribute.ref_attr_name();
    return reference.empty() ? &attribute : importer_.attribute_of_call(reference, *importer_.scope_);
  }
  return nullptr;
}

bool NodeImport::has_attribute(const char* name) const { return find(name) != nullptr; }

int64_t NodeImport::integer(const char* name, int64_t otherwise) const {
  const auto* attribute = find(name);
  return attribute == nullptr ? otherwise : attribute->i();
}

double NodeImport::number(const char* name, double otherwise) const {
  const auto* attribute = find(name);
  return attribute == nullptr ? otherwise : static_cast<double>(attribute->f());
}

std::string NodeImport::text(const char* name, const std::string& otherwise) const {
  const auto* attribute = find(name);
  return attribute == nullptr ? otherwise : attribute->s();
}

std::vector<int64_t> NodeImport::integers(const char* name, std::vector<int64_t> otherwise) const {
  const auto* attribute = find(name);
  if (attribute == nullptr) return otherwise;
  return {attribute->ints().begin(), attribute->ints().end()};
}

std::vector<double> NodeImport::numbers(const char* name) const {
  const auto* attribute = find(name);
  if (attribute == nullptr) return {};
  return {attribute->floats().begin(), attribute->floats().end()};
}

std::vector<std::string> NodeImport::texts(const char* name) const {
  const auto* attribute = find(name);
  if (attribute == nullptr) return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

Tensor NodeImport::tensor(const char* name) const {
  const auto* attribute = find(name);
  if (attribute == nullptr) fail("attribute \"{}\" is missing", name);
  const auto [known, is_new] = importer_.attribute_tensors_.try_emplace(attribute);
  if (is_new) importer_.let_move(known->second = read_tensor(*attribute));
  return known->second;
}

std::optional<DType> NodeImport::tensor_type(const char* name) const {
  const auto* attribute = find(name);
  if (attribute == nullptr || held_type(*attribute) != onnx::AttributeProto::TENSOR) return std::nullopt;
  return dtype_of_onnx(attribute->t().data_type());
}

const NarrowType* NodeImport::attribute_narrow_type(const char* name) const {
  const auto* attribute = find(name);
  if (attribute == nullptr) return nullptr;
  const bool is_text = held_type(*attribute) == onnx::AttributeProto::STRING ||
                       held_type(*attribute) == onnx::AttributeProto::STRINGS;
  return find_narrow_type(is_text ? kOnnxText : int64_t{attribute->t().data_type()});
}

Tensor NodeImport::read_tensor(const onnx::AttributeProto& attribute) const {
  switch (held_type(attribute)) {
    case onnx::AttributeProto::FLOAT:
      return Tensor::from({}, std::vector<float>{attribute.f()});
    case onnx::AttributeProto::INT:
      return Tensor::from({}, std::vector<int64_t>{attribute.i()});
    case onnx::AttributeProto::FLOATS:
      return Tensor::from({attribute.floats_size()},
                          std::vector<float>(attribute.floats().begin(), attribute.floats().end()));
    case onnx::AttributeProto::INTS:
      return Tensor::from({attribute.ints_size()},
                          std::vector<int64_t>(attribute.ints().begin(), attribute.ints().end()));
    case onnx::AttributeProto::SPARSE_TENSOR:
      return importer_.file_.in_float32(importer_.file_.sparse_tensor(attribute.sparse_tensor()),
                                        proto_.output_size() > 0 ? proto_.output(0) : proto_.name());
    case onnx::AttributeProto::STRING:
      return Tensor::from({}, std::vector<int64_t>{importer_.file_.number_of_text(attribute.s())});
    case onnx::AttributeProto::STRINGS: {
      Tensor numbers(DType::kInt64, {attribute.strings_size()});
      std::ranges::transform(attribute.strings(), numbers.values<int64_t>().begin(),
                             [&](const std::string& text) { return importer_.file_.number_of_text(text); });
      return numbers;
    }
    default:
      return importer_.file_.in_float32(importer_.file_.tensor(attribute.t()),
                                        proto_.output_size() > 0 ? proto_.output(0) : proto_.name());
  }
}

NodeInput NodeImport::add(const std::string& op, std::vector<NodeInput> inputs, Table attributes,
                          Parameters parameters) {  // NOLINT(performance-unnecessary-value-param): moved from
  const std::string base = importer_.scope_->prefix + identifier_of(proto_);
  Node node{.name = importer_.unique_name(base), .op = op, .inputs = std::move(inputs)};
  node.attributes = std::move(attributes);
  for (auto& [name, parameter] : parameters) add_parameter(node, name, std::move(parameter));
  if (!node.parameters.empty()) {
    constexpr std::string_view kWeight = ".weight";
    const std::string weight = has_input(1) ? input_name(1) : "";
    node.target = weight.ends_with(kWeight) ? weight.substr(0, weight.size() - kWeight.size()) : base;
  }
  return importer_.add(std::move(node));
}

NodeInput NodeImport::add_loop(std::vector<NodeInput> inputs, int64_t carried, Graph body) {
  const std::string base = importer_.scope_->prefix + identifier_of(proto_);
  Node node{.name = importer_.unique_name(base), .op = "loop", .inputs = std::move(inputs)};
  node.attributes = {{"carried", carried}};
  node.body = std::make_shared<const Graph>(std::move(body));
  return importer_.add(std::move(node));
}

void NodeImport::add_parameter(Node& node, const std::string& name, ParameterRef parameter) const {
  const auto rounded = importer_.rounded_parameters_.find(&*parameter);
  if (rounded != importer_.rounded_parameters_.end())
    node.quantization[name] = QuantizerRef(rounded->second.second);
  node.parameters.emplace_back(name, std::move(parameter));
}

ParameterRef NodeImport::parameter(size_t index, bool trainable) {
  ImportedValue& value = this->value(index);
  if (!value.constant) refuse(fmt::format("input {} is not constant", index));
  if (!value.parameter) value.parameter = ParameterRef(Parameter{*value.constant, trainable});
  if (value.rounding)
    importer_.rounded_parameters_.try_emplace(&**value.parameter, *value.parameter, *value.rounding);
  return *value.parameter;
}

ParameterRef NodeImport::parameter(Tensor tensor, const QuantSpec& rounding) {
  ParameterRef result(Parameter{std::move(tensor), true});
  importer_.rounded_parameters_.try_emplace(&*result, result, rounding);
  return result;
}

bool NodeImport::may_know(int64_t bytes) { return importer_.may_know(bytes); }

bool NodeImport::has_rounding(size_t index) const { return value(index).rounding.has_value(); }

std::optional<QuantSpec> NodeImport::rounding(size_t index) const { return value(index).rounding; }

ParameterRef NodeImport::reshaped_parameter(size_t index, Shape shape) {
  const ImportedValue& value = this->value(index);
  const Tensor& given = *value.constant;
  if (given.shape() == shape) return parameter(index);
  const auto rounding =
      value.rounding ? reshaped_rounding(*value.rounding, given.shape(), shape) : std::nullopt;
  Tensor reshaped = given.reshaped(std::move(shape));
  return rounding ? parameter(std::move(reshaped), *rounding) : parameter(std::move(reshaped));
}

ParameterRef NodeImport::transposed_parameter(size_t index) {
  const ImportedValue& value = this->value(index);
  Tensor transposed = transposed_matrix(*value.constant);
  if (!value.rounding) return parameter(std::move(transposed));
  QuantSpec spec = *value.rounding;
  if (spec.axis < 0) spec.axis += 2;
  if (spec.granularity != Granularity::kTensor) spec.axis = 1 - spec.axis;
  if (spec.block_axis) spec.block_axis = 1 - (*spec.block_axis < 0 ? *spec.block_axis + 2 : *spec.block_axis);
  return parameter(std::move(transposed), spec);
}

NodeInput NodeImport::add_rounding(NodeInput value, const QuantSpec& spec) {
  return importer_.add_rounding(std::move(value), importer_.scope_->prefix + identifier_of(proto_), spec);
}

NodeInput NodeImport::constant_of(Tensor tensor) {
  Node node{.name = importer_.unique_name(importer_.scope_->prefix + identifier_of(proto_) + "_constant"),
            .op = "get_attr"};
  node.target = node.name;
  node.parameters = {{"value", parameter(std::move(tensor), false)}};
  return importer_.add(std::move(node));
}

NodeInput NodeImport::integers_below(NodeInput count) {
  // As a number without dimensions, the only one that Range takes.
  if (count.is_constant()) {
    const Operand known = constant_operand(count.constant);
    if (known.elements && known.elements->numel() == 1)
      count = integer_of(to_dtype(*known.elements, DType::kInt64).values<int64_t>()[0]);
  } else if (type_of(count).shape.size() == 1) {
    count = add("squeeze", {std::move(count), list_of({0})});
  }
  return add("range", {integer_of(0), std::move(count), integer_of(1)});
}

NodeInput NodeImport::size_of(NodeInput value, int64_t dim) {
  return add("shape_of", {std::move(value)}, {{"start", dim}, {"end", dim + 1}});
}

const Operand& NodeImport::type_of(const NodeInput& input) const { return importer_.types(input).first; }

Node* NodeImport::producer(size_t index) {
  const ImportedValue& value = this->value(index);
  return value.constant ? nullptr : &importer_.graph_.node(value.source->node);
}

const Node* NodeImport::producer(size_t index) const {
  return const_cast<NodeImport*>(this)->producer(index);
}

const Node& NodeImport::node(const NodeInput& value) const { return importer_.graph_.node(value.node); }

const Graph& NodeImport::graph() const { return importer_.graph_; }

size_t NodeImport::output_count() const { return static_cast<size_t>(proto_.output_size()); }

bool NodeImport::wants(size_t index) const {
  if (index >= output_count()) return false;
  const std::string& name = proto_.output(static_cast<int>(index));
  if (name.empty()) return false;
  return importer_.scope_ != &importer_.outermost_ || importer_.readers_.contains(name);
}

void NodeImport::set_output(size_t index, NodeInput value) {
  if (index >= output_count()) return;
  importer_.set_output(proto_.output(static_cast<int>(index)),
                       {.source = std::move(value), .constant = std::nullopt});
}

void NodeImport::set_output(size_t index, Tensor constant) {
  if (index >= output_count()) return;
  importer_.set_output(proto_.output(static_cast<int>(index)),
                       {.source = std::nullopt, .constant = std::move(constant)});
}

void NodeImport::set_output(size_t index, Tensor constant, const QuantSpec& rounding) {
  if (index >= output_count()) return;
  ImportedValue value;
  value.constant = std::move(constant);
  value.rounding = rounding;
  importer_.set_output(proto_.output(static_cast<int>(index)), std::move(value));
}

DType NodeImport::float_type(size_t index) const {
  const ImportedValue& value = this->value(index);
  const DType dtype = type(index).dtype;
  return is_floating_point(dtype) ? value.float_type.value_or(dtype) : dtype;
}

void NodeImport::set_float_type(size_t output, DType dtype) {
  const std::string& name = proto_.output(static_cast<int>(output));
  if (!name.empty()) importer_.scope_->values.at(name)->float_type = dtype;
}

void NodeImport::pass_on(size_t input, size_t output) { pass_on(any_value(input), output); }

void NodeImport::warn(const std::string& message) const {
  importer_.file_.warn(fmt::format("{}: {}", op(), message));
}

void NodeImport::refuse(const std::string& reason) const { fail("{}, which is not supported", reason); }

void NodeImport::refuse_what_was_not_read() const {
  for (const onnx::AttributeProto& attribute : proto_.attribute()) {
    if (!read_attributes_.contains(attribute.name()))
      refuse(fmt::format("attribute \"{}\" of opset {}", attribute.name(), opset_));
  }
  const auto count = static_cast<size_t>(proto_.input_size());
  for (size_t i = read_inputs_; i < count; ++i) {
    if (!proto_.input(static_cast<int>(i)).empty()) refuse(fmt::format("input {} of opset {}", i, opset_));
  }
}

const Tensor& NodeImport::expect_constant(size_t index, const char* what) const {
  const Tensor* found = constant(index);
  if (found == nullptr) refuse(fmt::format("input {}, {}, is not constant", index, what));
  return *found;
}

}  // namespace detent
