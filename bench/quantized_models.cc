// Writes built-in networks with random weights, quantized for integer execution, as FOLDER/MODEL.mz and, with
// QuantizeLinear and DequantizeLinear, as FOLDER/MODEL.onnx: what engine_ratios.sh times.
//
//   quantized_models [--float] [--weights FORMAT] [--activations TYPE] FOLDER [MODEL...]
//
// With --float they stay in float, their batch norms folded. FORMAT is one in blocks, for layers whose
// channels are not convolved each by itself (mx:element=e2m1), TYPE that of codes (uint8); then there is no
// model.onnx.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "detent/autograd/initialize.h"
#include "detent/core/error.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/toml.h"
#include "detent/graph_files/graph_file.h"
#include "detent/models/model.h"
#include "detent/onnx/export_onnx.h"
#include "detent/passes/pass.h"

namespace detent {
namespace {

constexpr int64_t kSamples = 4;

class NormalSamples final : public CalibrationSet {
 public:
  explicit NormalSamples(Shape sample) : sample_(std::move(sample)) {}
  int64_t size() const override { return kSamples; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    Shape shape = sample_;
    shape[0] = end - begin;
    Tensor batch(DType::kFloat32, shape);
    std::mt19937 generator(static_cast<uint32_t>(begin));
    std::normal_distribution<float> normal;
    for (float& value : batch.values<float>()) value = normal(generator);
    return {batch};
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  Shape sample_;
};

/// So that values neither vanish nor grow over many layers with rectifiers: from uniform in +-1 /
/// sqrt(fan_in) to the deviation sqrt(2 / fan_in) of He et al. 2015, arXiv:1502.01852.
void widen_weights(Graph& graph) {
  for (Node& node : graph.nodes()) {
    Parameter* weight = node.find_parameter("weight");
    if (weight == nullptr || weight->tensor.rank() < 2) continue;
    for (float& value : weight->tensor.values<float>()) value *= 2.4494897F;
  }
}

struct Options {
  bool in_float = false;
  std::string weights;
  std::string activations;
};

void write_model(const std::filesystem::path& folder, const std::string& name, const Options& options) {
  const ModelInfo& model = find_model(name);
  Graph graph = model.build(model.sample_shape, model.class_count);
  seed_everything(0);
  initialize_parameters(graph);
  widen_weights(graph);
  FastExecutor executor;
  PassContext context;
  const Shape sample = graph.input_shapes().begin()->second;
  context.open_calibration = [&] { return std::make_unique<NormalSamples>(sample); };
  context.executor = [&]() -> Executor& { return executor; };
  context.report = [](const std::string&) {};
  context.warn = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  context.output_dir = folder;
  std::string passes = "[passes.fold_constants]\n[passes.fuse_batch_norm]\n";
  if (!options.in_float) passes += fmt::format("[passes.static_quantize]\nnum_samples = {}\n", kSamples);
  if (!options.weights.empty()) passes += fmt::format("weight_format = \"{}\"\n", options.weights);
  if (!options.activations.empty())
    passes += fmt::format("activations = \"{0}\"\nelementwise = \"{0}\"\n", options.activations);
  run_pipeline(graph, *parse_toml(passes, "passes").find("passes")->get_if<Table>(), "passes", context);
  const std::filesystem::path file = folder / (model.name + ".mz");
  if (options.in_float) {
    write_graph(file, graph);
  } else {
    write_packed_graph(file, graph);  // as detent quantize does
  }
  if (options.weights.empty() && options.activations.empty())
    export_onnx(graph, folder / (model.name + ".onnx"),
                {.style = options.in_float ? OnnxStyle::kFloat : OnnxStyle::kQdq});
  fmt::print("{}\n", file.string());
}

}  // namespace
}  // namespace detent

int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  const auto take = [&](const std::string& flag) -> std::string {
    const auto found = std::ranges::find(names, flag);
    if (found == names.end() || found + 1 == names.end()) return "";
    std::string value = found[1];
    names.erase(found, found + 2);
    return value;
  };
  const detent::Options options{.in_float = std::erase(names, "--float") > 0,
                                .weights = take("--weights"),
                                .activations = take("--activations")};
  if (names.empty() || names.front().starts_with("--")) {
    fmt::print(
        stderr,
        "usage: quantized_models [--float] [--weights FORMAT] [--activations TYPE] FOLDER [MODEL...]\n");
    return 2;
  }
  const std::string folder = names.front();
  names.erase(names.begin());
  if (names.empty()) names = {"resnet18", "resnet50", "mobilenet_v2", "mnist_cnn", "digits_cnn", "resnet20"};
  try {
    std::filesystem::create_directories(folder);
    for (const std::string& name : names) detent::write_model(folder, name, options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "quantized_models: {}\n", error.what());
    return 1;
  }
  return 0;
}
