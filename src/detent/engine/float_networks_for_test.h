#pragma once

#include <cmath>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "detent/engine/random_networks_for_test.h"
#include "detent/formats/kernel_environment.h"

namespace detent {

/// Networks in float32 by the fast engine and by the plain reference, on every instruction set.
class FloatNetworkTest : public EngineTargetTest {
 protected:
  void TearDown() override {
    set_simd_target(simd_targets().front(), "test");
    EngineTargetTest::TearDown();
  }
};

using KernelCounts = std::map<std::string, int>;

/// Counts kernels of the best instruction set as profiles name them.
inline void expect_equal_on_every_target(const Graph& graph, std::span<const Tensor> inputs,
                                         KernelCounts& kernels) {
  const std::vector<Tensor> wanted = IntegerProgram(graph).run(inputs);
  for (const std::string& target : simd_targets()) {
    set_simd_target(target, "test");
    const FastProgram program(graph);
    if (target == simd_targets().front()) {
      for (const StepProfile& step : program.profile(inputs, 1)) ++kernels[step.kernel];
    }
    for (const int threads : {1, 3}) {
      set_thread_count(threads);
      const std::vector<Tensor> got = program.run(inputs);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_TRUE(got[i].equals(wanted[i])) << target << ", " << threads << " threads";
    }
  }
}

inline void expect_equal_on_every_target(const Graph& graph, const Tensor& input, KernelCounts& kernels) {
  expect_equal_on_every_target(graph, {&input, 1}, kernels);
}

/// Dimensions or sizes as an operand.
inline NodeInput listed(const std::vector<int64_t>& numbers) {
  List list;
  for (const int64_t number : numbers) list.push_back(Value(number));
  return NodeInput::of_constant(Value(std::move(list)));
}

/// Norms and their like with numbers of their own.
inline void draw_parameters(Draw& draw, Graph& graph) {
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) {
      parameter->tensor = draw.tensor(parameter->tensor.shape(), 0.3F);
      if (name != "running_var") continue;
      for (float& value : parameter->tensor.values<float>()) value = std::fabs(value) + 0.1F;
    }
  }
}

}  // namespace detent
