#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/engine/engine_target_for_test.h"
#include "detent/engine/fast_executor.h"
#include "detent/engine/kernels/kernel_set.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"
#include "detent/inference/integer_executor.h"

// Networks on which the fast engine and the plain reference must agree.

namespace detent {

/// Draws networks and their numbers.
class Draw {
 public:
  explicit Draw(uint32_t seed) : generator_(seed) {}
  int64_t of(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(generator_);
  }
  int64_t among(std::initializer_list<int64_t> values) {
    return *(values.begin() + of(0, std::ssize(values) - 1));
  }
  bool coin() { return of(0, 1) == 1; }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator_);
  }
  Tensor tensor(const Shape& shape, float deviation = 1) {
    Tensor result(DType::kFloat32, shape);
    std::normal_distribution<float> normal(0, deviation);
    for (float& value : result.values<float>()) value = normal(generator_);
    return result;
  }

 private:
  std::mt19937 generator_;
};

/// Codes for values of about +-`range`.
inline std::string codes(Draw& draw, double range) {
  const int64_t width = draw.among({8, 8, 8, 7, 4, 2, 2, 2, 10, 16, 1});
  if (width == 1) return "binary";
  if (width == 2 && draw.coin())
    return fmt::format("affine:narrow_range=true,width=2,scale={}", range * draw.real(0.2, 0.7));
  const bool is_signed = draw.coin();
  const int64_t count = int64_t{1} << width;
  const int64_t low = is_signed ? -count / 2 : 0;
  const int64_t zero = low + (draw.coin() ? count / 2 : draw.of(0, count - 1));
  return fmt::format("affine:width={},signed={},scale={},zero_point={}", width, is_signed,
                     range * draw.real(0.7, 2) * 2 / static_cast<double>(count), zero);
}

inline void quantize_layer(Draw& draw, Node& node) {
  Tensor& weight = node.find_parameter("weight")->tensor;
  const Tensor drawn = draw.tensor(weight.shape());
  std::ranges::copy(drawn.values<float>(), weight.values<float>().begin());
  if (Parameter* bias = node.find_parameter("bias")) {
    const Tensor values = draw.tensor(bias->tensor.shape());
    std::ranges::copy(values.values<float>(), bias->tensor.values<float>().begin());
  }
  const int64_t width = draw.among({8, 8, 6, 4, 3, 2, 2, 1});
  if (width == 1) {
    node.quantization["weight"] = parse_quant_spec_text("binary");
    return;
  }
  const double scale = 6.0 / static_cast<double>(int64_t{1} << width);
  QuantSpec spec = parse_quant_spec_text(fmt::format(
      "affine:symmetric=true,narrow_range={},width={},scale={}", width == 2 && draw.coin(), width, scale));
  if (draw.coin()) {
    spec.granularity = Granularity::kChannel;
    auto& scales = std::get<Affine>(spec.format).scale;
    scales = std::vector<float>();
    for (int64_t c = 0; c < weight.dim(0); ++c)
      scales.push_back(static_cast<float>(scale * draw.real(0.5, 1.5)));
  }
  node.quantization["weight"] = spec;
}

inline double fan_in(const Node& node) {
  const Tensor& weight = node.find_parameter("weight")->tensor;
  return static_cast<double>(weight.numel()) / static_cast<double>(weight.dim(0));
}

/// The codes that every node takes and gives: those of the value, so that neighbours agree, but for some.
inline void quantize_graph(Draw& draw, Graph& graph) {
  std::map<std::string, std::string> types;
  const double input_range = 2;
  for (Node& node : graph.nodes()) {
    const OperatorRole role = role_of(node);
    if (role == OperatorRole::kOutput) break;
    if (role == OperatorRole::kInput) {
      types[node.name] = codes(draw, input_range);
      if (draw.coin()) node.quantization["data_out_0"] = parse_quant_spec_text(types[node.name]);
      continue;
    }
    const bool keeps = moves_codes(node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant() || (keeps && draw.coin())) continue;
      const std::string& type = types.at(node.inputs[i].node);
      const bool differs = draw.of(0, 9) == 0;
      node.quantization[fmt::format("data_in_{}", i)] =
          parse_quant_spec_text(differs && !keeps ? codes(draw, 4) : type);
    }
    if (keeps) {
      types[node.name] = types.at(node.inputs[0].node);
      continue;
    }
    double range = 4;
    if (is_weighted_sum(node)) {
      quantize_layer(draw, node);
      range = 3 * std::sqrt(fan_in(node));
    }
    types[node.name] = codes(draw, range);
    node.quantization["data_out_0"] = parse_quant_spec_text(types[node.name]);
  }
  graph.set_requantization(draw.of(0, 3) == 0 ? Requantization::kFixedPoint : Requantization::kFloat);
}

/// Compiles for each instruction set and runs with 1, 2 and 3 threads. Counts what the kernels of one set
/// computed, where the reference takes the network.
inline void expect_equal_to_reference(const Graph& graph, std::span<const Tensor> inputs,
                                      std::map<std::string, int>* kernels = nullptr) {
  std::vector<Tensor> wanted;
  try {
    wanted = IntegerProgram(graph).run(inputs);
  } catch (const Error&) {
    EXPECT_THROW(FastProgram(graph).run(inputs), Error);
    return;
  }
  for (const std::string& target : engine_targets()) {
    set_engine_target(target);
    const FastProgram program(graph);
    if (kernels != nullptr && target == engine_targets().front()) {
      for (const StepProfile& step : program.profile(inputs, 1)) {
        ++(*kernels)[step.kernel.substr(0, step.kernel.find(' '))];
        for (const char* bits : {", bits", ", signs", "2 bits", "3 bits", "4 bits"})
          (*kernels)[bits] += step.kernel.ends_with(bits) ? 1 : 0;
      }
    }
    for (const int threads : {1, 2, 3}) {
      set_thread_count(threads);
      const std::vector<Tensor> got = program.run(inputs);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_TRUE(got[i].equals(wanted[i])) << target << ", " << threads << " threads";
    }
  }
}
inline void expect_equal_to_reference(const Graph& graph, const Tensor& input,
                                      std::map<std::string, int>* kernels = nullptr) {
  expect_equal_to_reference(graph, std::span(&input, 1), kernels);
}

}  // namespace detent
