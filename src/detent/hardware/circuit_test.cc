#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/hardware/circuit_values.h"
#include "detent/hardware/design.h"
#include "detent/hardware/networks_for_test.h"
#include "detent/hardware/table_networks_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// The circuit gives the bits that integer execution gives.
void expect_equal_to_integers(const Graph& graph, const Circuit& circuit, const TestVectors& vectors) {
  for (size_t sample = 0; sample < vectors.inputs.size(); ++sample) {
    const std::vector<SignalCodes> signals = circuit_values(circuit, vectors.inputs[sample]);
    for (size_t port = 0; port < circuit.outputs.size(); ++port) {
      ASSERT_EQ(wire_codes(circuit.outputs[port].wires, signals), vectors.outputs[sample][port])
          << graph.name() << " sample " << sample;
    }
  }
}

/// So do its Verilog files, in every simulator that is installed.
void expect_simulates(const Graph& graph, std::optional<int64_t> latency = {}) {
  const Circuit circuit = make_circuit(graph, {.latency = latency});
  const TestVectors vectors = random_vectors(graph, circuit, 64, 7);
  expect_equal_to_integers(graph, circuit, vectors);
  const Design design = make_design(circuit, circuit_logic(circuit, DontCares::kUnreachable, {}), vectors);
  const TemporaryPath folder("design");
  for (const auto& [name, text] : design.files) write_file(folder.get() / name, text);
  for (const Simulator simulator : {Simulator::kVerilator, Simulator::kIcarus}) {
    if (const std::string why = why_no_simulator(simulator); !why.empty()) GTEST_SKIP() << why;
    const SimulationResult result = simulate(folder.get(), circuit.name, simulator);
    EXPECT_EQ(result.vectors, 64);
    EXPECT_EQ(result.differing_bits, 0) << graph.name();
  }
}

/// A hundred of them, each with an input and an output.
TEST(Circuit, ComputesTruthTablesSlow) { expect_simulates(TableNetworksForTest(5).draw(100)); }

TEST(Circuit, ComputesLinearLayersInFixedPointSlow) {
  Graph graph = linear_network_for_test();
  quantize_for_test(graph, "fixed:width=6,frac_width=3", "fixed:width=5,frac_width=3");
  expect_simulates(graph);
  expect_simulates(graph, 0);
  expect_simulates(graph, 1);
}

TEST(Circuit, ComputesConvolutionsSlow) {
  Graph graph = convolution_network_for_test();
  quantize_for_test(graph, "affine:width=6,scale=0.13,zero_point=3", "affine:width=5,scale=0.11");
  for (const char* name : {"conv1", "conv2"})
    graph.node(name).quantization["data_out_0"] =
        parse_quant_spec_text("affine:width=6,scale=0.13,zero_point=3");
  graph.set_requantization(Requantization::kFloat);
  expect_simulates(graph);
  graph.set_requantization(Requantization::kFixedPoint);
  expect_simulates(graph, 2);
}

TEST(Circuit, ComputesTernaryAndBinaryWeightsSlow) {
  for (const char* weights : {"ternary:scaling_factor=true", "binary", "binary:scaling=per_channel"}) {
    Graph graph = linear_network_for_test();
    quantize_for_test(graph, "fixed:width=4,frac_width=2", weights);
    expect_simulates(graph);
  }
}

/// Signs times signs, and two levels of signs whose gammas are multiples of one; with a border of zeros.
TEST(Circuit, ComputesProductsOfSignsSlow) {
  for (const char* inputs : {"binary", "binary:bipolar=false", "binary_residual:levels=2,gamma=1x0.5"}) {
    Graph graph = convolution_network_for_test();
    quantize_for_test(graph, inputs, "binary");
    expect_simulates(graph);
    Graph rows = linear_network_for_test();
    quantize_for_test(rows, inputs, "ternary:scaling_factor=true");
    expect_simulates(rows, 1);
  }
}

/// Against sums of products in floats.
TEST(Circuit, CountsEqualSigns) {
  GraphBuilder builder("signs");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {20}), 20, 3));
  fill_for_test(graph, 4);
  quantize_for_test(graph, "binary", "binary");
  const Circuit circuit = make_circuit(graph);
  EXPECT_THAT(circuit.notes, testing::ElementsAre(HasSubstr("node \"fc\": its bias is rounded")));
  const Node& fc = graph.node("fc");
  const Tensor& weight = fc.find_parameter("weight")->tensor;
  const Tensor& bias = fc.find_parameter("bias")->tensor;
  std::mt19937_64 random(1);
  for (int sample = 0; sample < 50; ++sample) {
    SignalCodes codes(20);
    for (int32_t& code : codes) code = static_cast<int32_t>(random() % 2);
    const SignalCodes results = wire_codes(circuit.outputs[0].wires, circuit_values(circuit, {codes}));
    for (size_t o = 0; o < 3; ++o) {
      auto sum = static_cast<int32_t>(std::nearbyint(bias.values<float>()[o]));
      for (size_t i = 0; i < 20; ++i)
        sum += (codes[i] == 1) == (weight.values<float>()[o * 20 + i] >= 0) ? 1 : -1;
      ASSERT_EQ(results[o], sum);
    }
  }
}

}  // namespace
}  // namespace detent
