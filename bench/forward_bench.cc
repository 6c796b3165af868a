// Forward passes in float, one thread, against the same network in Python's torch: forward_bench.py makes
// both take turns and prints the ratios. Not a Google Benchmark: the rival is another process.
//
//     forward_bench                    runs that script
//     forward_bench NETWORK FOLDER     what it starts: writes the network to the folder as Python code, then
//                                      for each line "BATCH RUNS" that it reads runs batches, and prints the
//                                      CPU seconds and the first logit

#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <fmt/ranges.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/tensor_memory.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/file.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"
#include "detent/models/model.h"

namespace detent {
namespace {

/// SqueezeNet 1.1 (Iandola et al. 2016).
Graph squeezenet() {
  GraphBuilder builder("squeezenet");
  int count = 0;
  const auto conv = [&](NodeInput x, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
    Table attributes = {{"stride", stride}, {"padding", kernel == 3 && stride == 1 ? 1 : 0}};
    x = builder.convolution(fmt::format("conv{}", count++), x, in, out, {kernel, kernel}, attributes);
    return builder.call("relu", {x});
  };
  const auto pool = [&](const NodeInput& x) {
    return builder.call("max_pool2d", {x}, {{"kernel_size", 3}, {"stride", 2}, {"ceil_mode", true}});
  };
  NodeInput x = pool(conv(builder.input("x", {3, 224, 224}), 3, 64, 3, 2));
  int64_t channels = 64;
  const auto fire = [&](int64_t squeezed, int64_t expanded) {
    x = conv(x, channels, squeezed, 1, 1);
    x = builder.call("cat", {conv(x, squeezed, expanded, 1, 1), conv(x, squeezed, expanded, 3, 1)},
                     {{"dim", 1}});
    channels = 2 * expanded;
  };
  fire(16, 64);
  fire(16, 64);
  x = pool(x);
  fire(32, 128);
  fire(32, 128);
  x = pool(x);
  fire(48, 192);
  fire(48, 192);
  fire(64, 256);
  fire(64, 256);
  x = builder.call("adaptive_avg_pool2d", {conv(x, channels, 1000, 1, 1)}, {{"output_size", 1}});
  return builder.finish(builder.call("flatten", {x}));
}

/// Python call of each operator: {0}, {1} are the inputs, others attributes and parameters.
std::string python_call(const Node& node) {
  const auto ints = [&](const char* name) {
    return fmt::format("({})", fmt::join(integers_attribute(node, name, 2), ", "));
  };
  const auto parameter = [&](const char* name) {
    return node.find_parameter(name) == nullptr ? "None" : fmt::format("{}_{}", node.name, name);
  };
  std::vector<std::string> x;
  for (const NodeInput& input : node.inputs) x.push_back(input.node);
  if (node.op == "conv2d")
    return fmt::format("F.conv2d({}, {}, {}, {}, {}, {}, {})", x[0], parameter("weight"), parameter("bias"),
                       ints("stride"), ints("padding"), ints("dilation"), integer_attribute(node, "groups"));
  if (node.op == "batch_norm2d")
    return fmt::format("F.batch_norm({}, {}, {}, {}, {}, False, 0.0, {})", x[0], parameter("running_mean"),
                       parameter("running_var"), parameter("weight"), parameter("bias"),
                       number_attribute(node, "eps"));
  if (node.op == "max_pool2d")
    return fmt::format("F.max_pool2d({}, {}, ({}), {}, {}, {})", x[0], ints("kernel_size"),
                       fmt::join(pool_stride(node, 2), ", "), ints("padding"), ints("dilation"),
                       boolean_attribute(node, "ceil_mode") ? "True" : "False");
  if (node.op == "linear")
    return fmt::format("F.linear({}, {}, {})", x[0], parameter("weight"), parameter("bias"));
  if (node.op == "cat")
    return fmt::format("torch.cat(({}), {})", fmt::join(x, ", "), integer_attribute(node, "dim"));
  if (node.op == "adaptive_avg_pool2d")
    return fmt::format("F.adaptive_avg_pool2d({}, {})", x[0], ints("output_size"));
  if (node.op == "relu") return fmt::format("F.relu({})", x[0]);
  if (node.op == "relu6") return fmt::format("F.relu6({})", x[0]);
  if (node.op == "add") return fmt::format("{} + {}", x[0], x[1]);
  if (node.op == "flatten") return fmt::format("torch.flatten({}, 1)", x[0]);
  if (node.op == "dropout") return x[0];
  fail("node {}: no Python code for {}", node.name, node.op);
}

/// network.py with a function `forward(x)`, and the parameters that it reads.
void write_python(const Graph& graph, const std::filesystem::path& folder) {
  std::string code =
      "import numpy, os, torch\nimport torch.nn.functional as F\n\n"
      "def load(name, *shape):\n    folder = os.path.dirname(__file__)\n"
      "    values = numpy.fromfile(os.path.join(folder, name), dtype=numpy.float32)\n"
      "    return torch.from_numpy(values.reshape(shape))\n\n";
  std::string body;
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, parameter] : node.parameters) {
      const Tensor& tensor = parameter->tensor;
      if (tensor.dtype() != DType::kFloat32) continue;
      const std::string key = fmt::format("{}_{}", node.name, name);
      write_file(folder / key, {reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size()});
      code += fmt::format("{} = load('{}', {})\n", key, key, fmt::join(tensor.shape(), ", "));
    }
    if (role_of(node) == OperatorRole::kInput) continue;
    if (role_of(node) == OperatorRole::kOutput) {
      body += fmt::format("    return {}\n", node.inputs[0].node);
    } else {
      body += fmt::format("    {} = {}\n", node.name, python_call(node));
    }
  }
  code += fmt::format("\ndef forward({}):\n{}", graph.input_names().at(0), body);
  write_file(folder / "network.py", code);
}

/// Images of random numbers from one seed, the same for both rivals.
Tensor random_images(int64_t batch) {
  seed_everything(1);
  return from_torch(at::randn({batch, 3, 224, 224}));
}

void serve(const std::string& network, const std::filesystem::path& folder) {
  set_thread_count(1);
  at::set_num_threads(1);
  use_block_cache_for_tensors();
  seed_everything(0);
  Graph graph = network == "squeezenet" ? squeezenet() : build_model(network, {3, 224, 224}, 1000);
  initialize_parameters(graph);
  write_python(graph, folder);
  fmt::print("ready\n");
  std::fflush(stdout);
  const std::unique_ptr<const Program> program = FastExecutor().compile(graph);
  std::map<int, Tensor> images;
  int batch = 0;
  int runs = 0;
  while (std::scanf("%d %d", &batch, &runs) == 2) {
    if (!images.contains(batch)) images.emplace(batch, random_images(batch));
    const Tensor& input = images.at(batch);
    float logit = 0;
    const std::clock_t start = std::clock();
    for (int i = 0; i < runs; ++i) logit = program->run(std::span(&input, 1)).front().values<float>()[0];
    fmt::print("{} {}\n", static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, logit);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace detent

int main(int count, char** arguments) {
  using namespace detent;
  if (count == 3) {
    serve(arguments[1], arguments[2]);
    return 0;
  }
  const std::string script = fmt::format("{}/bench/forward_bench.py", DETENT_SOURCE_DIR);
  execl("/usr/bin/python3", "python3", script.c_str(), arguments[0], nullptr);
  fmt::print(stderr, "cannot start /usr/bin/python3\n");
  return 1;
}
