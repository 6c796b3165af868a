#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>

#include "detent/graph/operators.h"

#include "operator_cases_test.h"

// Loops, whose bodies are graphs.

namespace detent {
namespace {

/// v becomes tanh(v + w), of which -v + w is collected.
std::shared_ptr<const Graph> repeated_sum() {
  const auto tensor = [](const char* rows) {
    return TensorType{DType::kFloat32, {Dimension(rows, kOpenSize), 4}};
  };
  Graph body("body");
  body.add_input("iteration", TensorType{DType::kInt64, {}});
  body.add_input("condition", TensorType{DType::kBool, {}});
  body.add_input("v", tensor("v_0"));
  body.add_input("w", tensor("w_0"));
  const NodeInput w = NodeInput::of("w");
  body.add({.name = "sum", .op = "add", .inputs = {NodeInput::of("v"), w}});
  body.add({.name = "next", .op = "tanh", .inputs = {NodeInput::of("sum")}});
  body.add({.name = "rest", .op = "sub", .inputs = {w, NodeInput::of("v")}});
  body.add({.name = "output",
            .op = "output",
            .mase_type = MaseType::kOutput,
            .inputs = {NodeInput::of("condition"), NodeInput::of("next"), NodeInput::of("rest")}});
  return std::make_shared<const Graph>(std::move(body));
}

OperatorCase loop_case(size_t result) {
  constexpr int64_t kTimes = 3;
  return {.op = "loop",
          .inputs = {{4}, {4}},
          .attributes = {{"carried", 1}},
          .reference =
              [result](const std::vector<at::Tensor>& x, const OperatorCase::Lookup&) {
                at::Tensor v = x[0];
                std::vector<at::Tensor> rest;
                for (int64_t i = 0; i < kTimes; ++i) {
                  rest.push_back(x[1] - v);
                  v = at::tanh(v + x[1]);
                }
                return result == 0 ? v : at::stack(rest);
              },
          .constants = {NodeInput::of_constant(Value(kTimes)), NodeInput::absent()},
          .result = result,
          .body = repeated_sum()};
}

}  // namespace

std::vector<OperatorCase> loop_cases() { return {loop_case(0), loop_case(1)}; }

}  // namespace detent
