#include "detent/runtime/integer_executor.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/integer/pooling.h"
#include "detent/runtime/code_movement.h"
#include "detent/runtime/code_sums.h"

namespace detent {

namespace {

/// What flows between nodes: int32 codes of a type, float32 values, or the integer that `size` gives.
struct Flow {
  Tensor tensor;
  std::optional<CodeType> type = {};
  Value number = {};
  std::optional<Tensor> sums = {};  // what float values were computed of, for observers

  bool is_tensor() const { return number.is_na(); }
};

struct Step {
  const Node* node;
  OperatorRole role;
  std::optional<NodeForm> form;
  std::vector<std::optional<CodeType>> inputs;  // types that the node asks for
  std::optional<CodeType> output;
  std::vector<std::string> last_reads;  // results that nobody reads after this step
};

using Flows = std::map<std::string, Flow, std::less<>>;

constexpr int64_t kGrain = 4096;

std::optional<CodeType> expected_type(const Node& node, const std::string& operand) {
  std::optional<CodeType> type = operand_code_type(node, operand);
  const QuantSpec* spec = node.find_quantization(operand);
  if (spec != nullptr && !type) {
    fail(
        "node \"{}\" ({}): operand \"{}\" has the format {}, expected affine of at most 16 bits with one "
        "given "
        "scale",
        node.name, node.op, operand, quant_spec_text(*spec));
  }
  return type;
}

/// result[i] = map(input[i])
template <class From, class To, class Map>
Tensor mapped(const Tensor& input, Map map) {
  Tensor result(DTypeOf<To>::value, input.shape());
  const auto from = input.values<From>();
  const auto to = result.values<To>();
  parallel_for(input.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) to[i] = map(from[i]);
  });
  return result;
}

Tensor codes_of(const Node& node, const Tensor& values, const CodeType& type) {
  const auto nan = std::ranges::find_if(values.values<float>(), [](float x) { return std::isnan(x); });
  if (nan != values.values<float>().end()) {
    fail("node \"{}\" ({}): element {} of its input is NaN, which has no code", node.name, node.op,
         nan - values.values<float>().begin());
  }
  return mapped<float, int32_t>(values, [&](float x) { return type.code(x); });
}

Tensor values_of(const Tensor& codes, const CodeType& type) {
  return mapped<int32_t, float>(codes, [&](int32_t code) { return type.value(code); });
}

/// Each sum in its output channel.
template <class To, class Map>
Tensor mapped_sums(const Node& node, const Tensor& sums, Map map) {
  Tensor result(DTypeOf<To>::value, sums.shape());
  const auto axis = static_cast<int64_t>(channel_axis(node, sums.shape().size()));
  const int64_t channels = sums.dim(axis);
  const int64_t inner = element_count({sums.shape().begin() + axis + 1, sums.shape().end()});
  const auto from = sums.values<int32_t>();
  const auto to = result.values<To>();
  for (int64_t i = 0; i < sums.numel(); ++i) {
    const auto at = static_cast<size_t>(i);
    to[at] = map(from[at], static_cast<size_t>(i / inner % channels));
  }
  return result;
}

/// Elementwise with numpy's broadcasting.
Tensor paired(const PairForm& form, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  const Tensor left = gathered(a, StridedView::broadcast(a.shape(), shape));
  const Tensor right = gathered(b, StridedView::broadcast(b.shape(), shape));
  Tensor result(DType::kInt32, shape);
  const auto x = left.values<int32_t>();
  const auto y = right.values<int32_t>();
  const auto to = result.values<int32_t>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = form.code(x[i], y[i]);
  return result;
}

/// Along a dimension, in double.
Tensor softmax(const Softmax& kind, const Node& node, const Tensor& values) {
  Tensor result(DType::kFloat32, values.shape());
  int64_t dim = integer_attribute(node, "dim");
  if (dim < 0) dim += values.rank();
  const int64_t count = values.dim(dim);
  const int64_t inner = element_count({values.shape().begin() + dim + 1, values.shape().end()});
  const auto x = values.values<float>();
  const auto y = result.values<float>();
  for (int64_t line = 0; line < values.numel() / std::max<int64_t>(count, 1); ++line) {
    const auto at = [&](int64_t i) {
      return static_cast<size_t>(line / inner * count * inner + i * inner + line % inner);
    };
    double largest = -HUGE_VAL;
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, static_cast<double>(x[at(i)]));
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(static_cast<double>(x[at(i)]) - largest);
    for (int64_t i = 0; i < count; ++i) {
      const double shifted = static_cast<double>(x[at(i)]) - largest;
      y[at(i)] = static_cast<float>(kind.log ? shifted - std::log(sum) : std::exp(shifted) / sum);
    }
  }
  return result;
}

/// Whether the node runs on codes and on values: it moves or compares elements or looks at shapes. The
/// softmax is computed of values.
bool takes_anything(const Node& node) {
  return role_of(node) != OperatorRole::kComputes || trait<Softmax>(node) != nullptr || moves_codes(node);
}

Tensor as_values(const Flow& flow) { return flow.type ? values_of(flow.tensor, *flow.type) : flow.tensor; }

/// The flow in another type.
Flow converted(const Node& node, Flow flow, const std::optional<CodeType>& type) {
  if (!flow.is_tensor() || !type || flow.type == type) return flow;
  return {codes_of(node, as_values(flow), *type), type};
}

Flow computed(const SumForm& form, const Node& node, const std::vector<Flow>& inputs) {
  const Tensor sums = code_sums(form, node, inputs[0].tensor);
  if (form.output) {
    return {mapped_sums<int32_t>(node, sums, [&](int32_t s, size_t c) { return form.requantized(s, c); }),
            form.output};
  }
  Flow flow{mapped_sums<float>(node, sums, [&](int32_t s, size_t c) { return form.result(s, c); })};
  flow.sums = sums;
  return flow;
}

Flow computed(const TableForm& form, const Node& /*node*/, const std::vector<Flow>& inputs) {
  const auto entry = [&](int32_t code) { return form.codes[static_cast<size_t>(code - form.input.low)]; };
  return {mapped<int32_t, int32_t>(inputs[0].tensor, entry), form.output};
}

Flow computed(const PairForm& form, const Node& /*node*/, const std::vector<Flow>& inputs) {
  return {paired(form, inputs[0].tensor, inputs[1].tensor), form.output};
}

Flow computed(const AverageForm& form, const Node& node, const std::vector<Flow>& inputs) {
  return {average_pool(form, node, inputs[0].tensor), form.output};
}

/// Of inputs of different types, the values are moved.
Flow moved(const Node& node, const std::vector<Flow>& inputs, const Shape& shape) {
  std::vector<Flow> tensors;
  std::ranges::copy_if(inputs, std::back_inserter(tensors), &Flow::is_tensor);
  const bool alike = std::ranges::all_of(tensors, [&](const Flow& f) { return f.type == tensors[0].type; });
  const std::optional<CodeType> type = alike ? tensors[0].type : std::nullopt;
  std::vector<Tensor> elements;
  for (const Flow& flow : tensors) elements.push_back(alike ? flow.tensor : as_values(flow));
  return {moved_elements(node, elements, shape, type ? type->zero_point : 0), type};
}

Flow rectified(const Flow& input) {
  if (!input.type) return {mapped<float, float>(input.tensor, [](float x) { return std::max(x, 0.0F); })};
  const int32_t zero = input.type->zero_point;
  return {mapped<int32_t, int32_t>(input.tensor, [&](int32_t code) { return std::max(code, zero); }),
          input.type};
}

Flow run_step(const Step& step, const std::vector<Flow>& inputs) {
  const Node& node = *step.node;
  if (step.role == OperatorRole::kConstant) return {node.find_parameter("value")->tensor};
  if (step.form)
    return std::visit([&](const auto& form) { return computed(form, node, inputs); }, *step.form);
  if (const auto* kind = trait<Softmax>(node)) return {softmax(*kind, node, as_values(inputs[0]))};
  if (is_rectifier(node)) return rectified(inputs[0]);
  if (is_pooling(node, Pooling::Of::kLargest)) {
    return {max_pool(node, inputs[0].tensor), inputs[0].type};
  }
  std::vector<Operand> operands;
  for (const Flow& input : inputs) operands.push_back({input.tensor.shape(), input.number});
  const Operand result = infer_results(node, operands).front();
  if (!result.is_tensor()) return {{}, {}, result.value};
  return moved(node, inputs, result.shape);
}

void show_integers(const Step& step, const Flow& result, const IntegerObserver& observe) {
  if (result.type) observe(*step.node, {result.tensor, result.type});
  if (result.sums) observe(*step.node, {*result.sums, {}, &std::get<SumForm>(*step.form)});
}

std::vector<Flow> inputs_of(const Step& step, const Flows& flows, const OperandObserver& observe) {
  const Node& node = *step.node;
  std::vector<Flow> inputs;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const NodeInput& input = node.inputs[i];
    if (input.is_constant()) {
      inputs.push_back({{}, {}, input.constant});
      continue;
    }
    inputs.push_back(converted(node, flows.at(input.node), step.inputs[i]));
    const Flow& flow = inputs.back();
    if (observe && flow.is_tensor()) observe(node, fmt::format("data_in_{}", i), as_values(flow));
  }
  return inputs;
}

Step make_step(const Node& node, Requantization requantization) {
  Step step{&node, role_of(node), node_form(node, requantization), {}, {}, {}};
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    step.inputs.push_back(expected_type(node, fmt::format("data_in_{}", i)));
  }
  if (step.role != OperatorRole::kOutput) step.output = expected_type(node, "data_out_0");
  return step;
}

void note_last_reads(std::vector<Step>& steps) {
  std::set<std::string, std::less<>> read;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    for (const NodeInput& input : step->node->inputs) {
      if (!input.is_constant() && read.insert(input.node).second) step->last_reads.push_back(input.node);
    }
  }
}

/// Names of the nodes that have no integer form, with their operators.
std::vector<std::string> nodes_in_float(const std::vector<Step>& steps) {
  std::vector<std::string> names;
  for (const Step& step : steps) {
    const bool runs = step.form || takes_anything(*step.node);
    if (!runs) names.push_back(fmt::format("{} ({})", step.node->name, step.node->op));
  }
  return names;
}

/// float32, and of the placeholders' shapes, with as many samples each.
void check_inputs(const Graph& graph, std::span<const Tensor> inputs) {
  const std::vector<std::string> names = graph.input_names();
  if (inputs.size() != names.size()) fail("got {} inputs, expected {}", inputs.size(), names.size());
  NamedSizes sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorType& type = graph.input_types().find(names[i])->second;
    if (inputs[i].dtype() == type.dtype && type.matches(inputs[i].shape(), sizes)) continue;
    fail("input \"{}\": got {} of shape {}, expected {}", names[i], dtype_name(inputs[i].dtype()),
         shape_text(inputs[i].shape()), tensor_type_text(type));
  }
}

void check_values_are_float(const Graph& graph) {
  for (const auto& [name, type] : infer_shapes(graph)) {
    if (!type.is_tensor() || type.dtype == DType::kFloat32) continue;
    fail("graph \"{}\": \"{}\" is {}, expected float32: integer execution makes codes of float32 values",
         graph.name(), name, dtype_name(type.dtype));
  }
}

}  // namespace

struct IntegerProgram::Plan {
  Graph graph;
  std::vector<Step> steps;
};

IntegerProgram::IntegerProgram(const Graph& graph) {
  if (!graph.requantization()) {
    fail("graph \"{}\" is not quantized for integer execution: the pass static_quantize does that",
         graph.name());
  }
  verify(graph);
  check_values_are_float(graph);
  auto plan = std::make_unique<Plan>(Plan{graph, {}});
  for (const Node& node : plan->graph.nodes())
    plan->steps.push_back(make_step(node, *graph.requantization()));
  note_last_reads(plan->steps);
  const std::vector<std::string> in_float = nodes_in_float(plan->steps);
  if (!in_float.empty()) {
    fail(
        "graph \"{}\": these nodes stay in float, for want of an integer form or of affine operands with "
        "given scales: {}",
        graph.name(), fmt::join(in_float, ", "));
  }
  plan_ = std::move(plan);
}

IntegerProgram::~IntegerProgram() = default;

int64_t IntegerProgram::sum_bound(std::string_view node) const {
  for (const Step& step : plan_->steps) {
    const auto* sums = step.form ? std::get_if<SumForm>(&*step.form) : nullptr;
    if (sums != nullptr && step.node->name == node) return sums->bound;
  }
  return 0;
}

std::vector<Tensor> IntegerProgram::run(std::span<const Tensor> inputs, const OperandObserver& observe,
                                        ObservedValues values) const {
  DETENT_CHECK(!observe || values == ObservedValues::kAfterQuantization,
               "codes have no values before quantization");
  return run_observed(inputs, observe, {});
}

std::vector<Tensor> IntegerProgram::run_observed(std::span<const Tensor> inputs,
                                                 const OperandObserver& observe,
                                                 const IntegerObserver& observe_integers) const {
  check_inputs(plan_->graph, inputs);
  Flows flows;
  size_t next_input = 0;
  for (const Step& step : plan_->steps) {
    const Node& node = *step.node;
    if (step.role == OperatorRole::kOutput) break;
    Flow result = step.role == OperatorRole::kInput ? Flow{inputs[next_input++]}
                                                    : run_step(step, inputs_of(step, flows, observe));
    result = converted(node, std::move(result), step.output);
    if (observe && result.is_tensor()) observe(node, "data_out_0", as_values(result));
    if (observe_integers) show_integers(step, result, observe_integers);
    flows[node.name] = std::move(result);
    for (const std::string& name : step.last_reads) flows.erase(name);
  }
  std::vector<Tensor> outputs;
  for (const Flow& output : inputs_of(plan_->steps.back(), flows, observe))
    outputs.push_back(as_values(output));
  return outputs;
}

}  // namespace detent
