#include "detent/graph/loop.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

constexpr size_t kMostLoopInputs = 4096;

void expect_control(std::span<const Operand> inputs, size_t index, DType dtype) {
  const Operand& input = inputs[index];
  expect_one_element(inputs, index);
  if (input.is_tensor() && input.dtype != dtype)
    fail("input {} is {}, expected {}", index, dtype_name(input.dtype), dtype_name(dtype));
  const bool is_number = !input.is_tensor() && !input.is_absent;
  if (is_number && (dtype != DType::kInt64 || !input.value.is<int64_t>()))
    fail("input {} is {}, expected {}", index, value_text(input.value), dtype_name(dtype));
}

std::vector<Operand> infer_loop(const Node& node, std::span<const Operand> inputs) {
  expect_control(inputs, 0, DType::kInt64);
  expect_control(inputs, 1, DType::kBool);
  const ValueTypes types = loop_body_types(node, inputs);
  const std::vector<NodeInput>& outputs = node.body->nodes().back().inputs;
  const Operand& condition = types.at(value_name(outputs[0]));
  if (condition.dtype != DType::kBool || (!condition.is_open() && element_count(condition.shape) != 1))
    fail("its body gives a condition of {} {}, expected one bool", dtype_name(condition.dtype),
         shape_text(condition.shape));
  const std::vector<std::string> names = node.body->input_names();
  const bool always_holds = outputs[0].node == names[1] ||
                            (condition.elements && std::as_const(*condition.elements).values<bool>()[0]);
  if (inputs[0].is_absent && always_holds)
    fail("nothing ends the loop: it has no number of iterations, and its condition always holds");
  const size_t carried = carried_count(node);
  std::vector<Operand> results;
  for (size_t k = 0; k + 1 < outputs.size(); ++k) {
    const bool is_carried = k < carried;
    const Operand& each = types.at(is_carried ? names[kLoopControls + k] : value_name(outputs[1 + k]));
    Operand& result = results.emplace_back(Operand{each.shape, Value(), each.dtype});
    if (!is_carried) result.shape.insert(result.shape.begin(), kOpenSize);
  }
  return results;
}

}  // namespace

std::vector<OperatorSchema> control_flow_operators() {
  return {{.name = "loop",
           .help =
               "runs its body, a graph, up to input 0 times while input 1, and then what the body gives, "
               "holds; "
               "the following inputs are carried from one iteration to the next, the others the same in all",
           .min_inputs = kLoopControls,
           .max_inputs = kMostLoopInputs,
           .attributes = {{"carried", AttributeKind::kInteger, 0, "inputs that are carried"}},
           .infer_results = infer_loop,
           .result_count =
               [](const Node& node) {
                 const size_t outputs = node.body == nullptr || node.body->nodes().empty()
                                            ? 0
                                            : node.body->nodes().back().inputs.size();
                 return outputs == 0 ? 0 : outputs - 1;
               },
           .dtypes = DTypeRule::kOwn,
           .takes_open_sizes = true,
           .optional_operands = {"data_in_0", "data_in_1"},
           .has_body = true,
           .index_operands = {"data_in_0", "data_in_1"}}};
}

}  // namespace detent
