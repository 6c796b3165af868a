#include <ATen/ops/allclose.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/parallel.h"
#include "detent/execution/initialize.h"
#include "detent/execution/interpreter.h"
#include "detent/execution/torch_tensor.h"
#include "detent/float32/float_node.h"
#include "detent/float32/portable_float_nodes.h"
#include "detent/formats/simd_target.h"
#include "detent/graph/operators.h"

#include "operator_cases_test.h"

// The operators of the layer float32 against those of libtorch.

namespace detent {
namespace {

struct Bench {
  Graph graph;
  std::vector<at::Tensor> inputs;
};

/// Examples of all operators that both have.
template <class Test>
void for_each_case(Test test) {
  size_t count = 0;
  for (const OperatorCase& c : operator_cases()) {
    const FloatOperator* const by = find_float_operator(c.op);
    if (by == nullptr || !std::ranges::all_of(c.inputs, &CaseInput::has_gradient)) continue;
    SCOPED_TRACE(c.op);
    seed_everything(3);
    Bench bench{one_operator_graph(c), {}};
    bench.inputs = random_inputs(c, 3);
    test(*by, bench);
    ++count;
  }
  EXPECT_GT(count, 50U);
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
  return portable_float_nodes()->results(node, flows).at(0).tensor;
}

TEST(Float32Operators, GiveWhatLibtorchGives) {
  for_each_case([](const FloatOperator& by, const Bench& bench) {
    const at::Tensor expected = Interpreter(bench.graph).run(bench.inputs);
    const at::Tensor result = to_torch(portable_result(bench));
    ASSERT_EQ(result.sizes(), expected.sizes());
    if (by.is_exact) {
      EXPECT_TRUE(result.equal(expected));
    } else {
      EXPECT_TRUE(at::allclose(result, expected, 1e-5, 1e-5));
    }
  });
}

TEST(Float32Operators, AreTheSimulationsWhereThatIsReproducible) {
  for_each_case([](const FloatOperator&, const Bench& bench) {
    Interpreter simulation(bench.graph, Interpreter::Mode::kInference, /*in_order=*/true);
    EXPECT_TRUE(from_torch(simulation.run(bench.inputs)).equals(portable_result(bench)));
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

TEST(Float32Operators, NamesWhatIsMissing) {
  const OperatorSchema& einsum = find_operator("einsum");
  Node node{.name = "mix", .op = einsum.name};
  try {
    portable_float_nodes()->results(node, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "node \"mix\": the operator einsum is not computed in float without libtorch");
  }
}

}  // namespace
}  // namespace detent
