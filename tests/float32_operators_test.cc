#include <ATen/ops/allclose.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/inference/float_nodes.h"

#include "operator_cases_test.h"

// The operators of the layer float32 against those of libtorch.

namespace detent {
namespace {

struct Bench {
  Graph graph;
  std::vector<at::Tensor> inputs;
  size_t result;
};

/// Examples of all operators that are computed in float.
template <class Test>
void for_each_case(Test test) {
  for (const OperatorCase& c : operator_cases()) {
    const FloatOperator* const by = find_float_operator(c.op);
    if (by == nullptr) continue;
    SCOPED_TRACE(c.op);
    seed_everything(3);
    Bench bench{one_operator_graph(c), {}, c.result};
    bench.inputs = random_inputs(c, 3);
    test(*by, bench);
  }
}

TEST(Float32Operators, EveryOneThatComputesIsThere) {
  for (const OperatorSchema& schema : all_operators()) {
    const bool has_own_step = schema.role != OperatorRole::kComputes ||
                              std::holds_alternative<TableLayer>(schema.trait) || schema.has_body;
    EXPECT_TRUE(has_own_step || find_float_operator(schema.name) != nullptr) << schema.name;
  }
}

Tensor portable_result(const Bench& bench) {
  const Node& node = bench.graph.node("layer");
  std::vector<FloatFlow> flows;
  size_t next = 0;
  for (const NodeInput& input : node.inputs) {
    if (input.is_constant()) {
      flows.push_back({{}, input.constant, input.is_absent()});
    } else {
      flows.push_back({from_torch(bench.inputs.at(next++))});
    }
  }
  return FloatNodes().results(node, flows).at(bench.result).tensor;
}

TEST(Float32Operators, GiveWhatLibtorchGives) {
  for_each_case([](const FloatOperator& by, const Bench& bench) {
    const at::Tensor expected = torch_output(bench.graph, bench.inputs);
    const at::Tensor result = to_torch(portable_result(bench));
    ASSERT_EQ(result.sizes(), expected.sizes());
    ASSERT_EQ(result.scalar_type(), expected.scalar_type());
    if (by.is_exact || !result.is_floating_point()) {
      EXPECT_TRUE(result.equal(expected));
    } else {
      EXPECT_TRUE(at::allclose(result, expected, 1e-5, 1e-5));
    }
  });
}

TEST(Float32Operators, GiveTheSameBitsWithEveryTargetAndNumberOfThreads) {
  const int threads = thread_count();
  for_each_case([&](const FloatOperator&, const Bench& bench) {
    set_thread_count(1);
    const Tensor expected = portable_result(bench);
    set_thread_count(3);
    for (const std::string& target : simd_targets()) {
      set_simd_target(target, "test");
      EXPECT_TRUE(portable_result(bench).equals(expected)) << target;
    }
    set_simd_target(simd_targets().front(), "test");
  });
  set_thread_count(threads);
}

}  // namespace
}  // namespace detent
