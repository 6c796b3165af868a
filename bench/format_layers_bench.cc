// Layers whose weights and inputs have formats other than int8, on one thread, against the same layer in
// float32 and in int8, which take turns with them: linear ones of 8192 x 8192 for 1 and 64 rows, and the
// 3 x 3 convolutions of resnet18. Prints milliseconds (of the fastest turn), speed / speed of float32
// and of int8 (medians of the turns), and the share of what the machine can do. Wanted: 0.5 of float32; of
// integers in groups 1.7 of int8 for one row, which reads less, and 0.8 for 64.
//   format_layers_bench [ROUNDS [LAYER [FORMATS]]]: those whose names have these parts
// Not a Google Benchmark: what counts are pairs of turns. DETENT_SIMD_TARGET chooses the instruction set.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/engine/machine_limits.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

struct LayerShape {
  std::string name;
  int64_t batch;
  int64_t channels;
  int64_t positions = 0;  // of each side; 0: a linear layer
};

struct Formats {
  std::string name;
  std::string weight;  // "": float32
  std::string input;
};

/// Drawing each of 64 Mi values would take longer than all else.
void fill(Tensor& tensor, float deviation) {
  constexpr size_t kDrawn = 65'521;
  std::mt19937 generator(1);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> drawn(kDrawn);
  for (float& value : drawn) value = normal(generator);
  const auto values = tensor.values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = drawn[i % kDrawn];
}

Graph layer_of(const LayerShape& shape, const Formats& formats) {
  GraphBuilder builder("layer");
  const int64_t n = shape.channels;
  const NodeInput x = shape.positions == 0 ? builder.input("x", {n})
                                           : builder.input("x", {n, shape.positions, shape.positions});
  Graph graph = builder.finish(
      shape.positions == 0 ? builder.linear("layer", x, n, n)
                           : builder.convolution("layer", x, n, n, {3, 3}, {{"padding", int64_t{1}}}));
  Node& node = graph.node("layer");
  Tensor& weight = node.find_parameter("weight")->tensor;
  fill(weight, 0.02F);
  if (formats.weight.empty()) return graph;
  const QuantSpec rounding = parse_quant_spec_text(formats.weight);
  node.quantization["weight"] = with_given_parameters(rounding, weight);
  node.quantization["data_in_0"] = parse_quant_spec_text(formats.input);
  graph.set_requantization(Requantization::kFloat);
  return graph;
}

Tensor input_of(const LayerShape& shape) {
  Shape dims = {shape.batch, shape.channels};
  if (shape.positions != 0) dims.insert(dims.end(), 2, shape.positions);
  Tensor x(DType::kFloat32, dims);
  fill(x, 1);
  return x;
}

struct Turn {
  double seconds = 0;
  double share = 0;  // of the layer's step, of what the machine can do
};

Turn turn_of(const FastProgram& program, const Tensor& x, const MachineLimits& limits) {
  constexpr int kRuns = 3;
  Turn turn;
  for (const StepProfile& step : program.profile(std::span(&x, 1), kRuns)) {
    turn.seconds += step.seconds;
    if (step.products == 0) continue;
    const double most =
        step.multiplies_floats ? limits.float_products_per_second : limits.products_per_second;
    turn.share = std::max(step.products / step.seconds / most,
                          static_cast<double>(step.bytes) / step.seconds / limits.bytes_per_second);
  }
  return turn;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

const Formats kFloat32 = {"float32", "", ""};
const Formats kInt8 = {"int8 x uint8", "affine:symmetric=true,granularity=channel",
                       "affine:signed=false,scale=0.03,zero_point=128"};

void compare(const LayerShape& shape, const Formats& formats, const std::vector<const FastProgram*>& rivals,
             const MachineLimits& limits, int rounds) {
  const FastProgram program(layer_of(shape, formats));
  const Tensor x = input_of(shape);
  std::vector<std::vector<double>> ratios(rivals.size());
  double least = HUGE_VAL;
  double share = 0;
  for (int round = 0; round < rounds; ++round) {
    const Turn ours = turn_of(program, x, limits);
    least = std::min(least, ours.seconds);
    share = std::max(share, ours.share);
    for (size_t i = 0; i < rivals.size(); ++i)
      ratios[i].push_back(turn_of(*rivals[i], x, limits).seconds / ours.seconds);
  }
  fmt::print("| {} | {} | {:.3f} | {:.2f} | {:.2f} | {:.0f} % |\n", shape.name, formats.name, least * 1e3,
             median(ratios[0]), median(ratios[1]), 100 * share);
  static_cast<void>(std::fflush(stdout));
}

bool has(const std::string& name, const std::string& part) { return name.find(part) != std::string::npos; }

int run(int rounds, const std::string& layers, const std::string& formats_of) {
  set_thread_count(1);
  const std::vector<LayerShape> shapes = {
      {"linear, 1 row", 1, 8192},   {"linear, 64 rows", 64, 8192}, {"64 channels", 1, 64, 56},
      {"128 channels", 1, 128, 28}, {"256 channels", 1, 256, 14},  {"512 channels", 1, 512, 7},
  };
  const std::string codes = kInt8.input;
  const std::vector<Formats> all = {
      {"fp8_e4m3fn x fp8_e4m3fn", "scaled", "scaled:scale=0.01"},
      {"fp6_e3m2 x fp6_e3m2", "scaled:element=fp6_e3m2", "scaled:element=fp6_e3m2,scale=0.1"},
      {"fp4_e2m1 x fp8_e4m3fn", "scaled:element=fp4_e2m1", "scaled:scale=0.01"},
      {"mx_e4m3 x mx_e4m3", "mx:block_axis=1", "mx:block_axis=1"},
      {"mx_e2m1 x mx_e4m3", "mx:element=e2m1,block_axis=1", "mx:block_axis=1"},
      {"nvfp4 x mx_e4m3", "nvfp4:block_axis=1", "mx:block_axis=1"},
      {"log x fp8_e4m3fn", "log:width=4,exponent_bias=8", "scaled:scale=0.01"},
      {"codebook x fp8_e4m3fn", "codebook:values=-0.05x-0.02x-0.005x0x0.005x0.02x0.05", "scaled:scale=0.01"},
      {"mx_e2m1 x uint8", "mx:element=e2m1,block_axis=1", codes},
      {"int4_g128 x uint8", "int4_g128", codes},
      {"int4_g64 x uint8", "int4_g64", codes},
      {"int4_g32 x uint8", "int4_g32", codes},
  };
  const MachineLimits limits = measured_limits();
  fmt::print(
      "| layer | weights x inputs | ms | of float32 | of int8 | of the limit "
      "|\n|---|---|---:|---:|---:|---:|\n");
  for (const LayerShape& shape : shapes) {
    if (!has(shape.name, layers)) continue;
    const FastProgram in_float(layer_of(shape, kFloat32));
    const FastProgram in_int8(layer_of(shape, kInt8));
    for (const Formats& formats : all) {
      if (!has(formats.name, formats_of)) continue;
      if (shape.positions != 0 && formats.name.starts_with("int4")) continue;  // windows of one position
      compare(shape, formats, {&in_float, &in_int8}, limits, rounds);
    }
  }
  return 0;
}

}  // namespace
}  // namespace detent

int main(int argc, char** argv) {
  return detent::run(argc > 1 ? std::atoi(argv[1]) : 7, argc > 2 ? argv[2] : "", argc > 3 ? argv[3] : "");
}
