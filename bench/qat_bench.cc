// Cost of quantization-aware training: an epoch of mnist_cnn and of resnet20 with learned 8-bit weights and
// activations against the same epoch in float, in time and in peak memory, on random images. The two take
// turns, each in a process of its own, so that neither finds the other's memory; prints the medians of the
// ratios.
//   qat_bench [ROUNDS]
// Not a Google Benchmark: memory is that of a process.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/tensor_memory.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/groups/learned_scale.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/models/model.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

/// A network and its epoch.
struct Case {
  const char* network;
  Shape image;
  int64_t images;
};

class RandomImages : public Dataset {
 public:
  RandomImages(Shape image, int64_t count)
      : Dataset(std::move(image), 10, std::vector<int64_t>(static_cast<size_t>(count), 1), "random") {}

 private:
  void copy_sample(int64_t index, std::span<float> target) const override {
    std::minstd_rand generator(static_cast<uint32_t>(index));
    for (float& value : target) value = static_cast<float>(generator() % 256) / 128 - 1;
  }
};

/// Learned scales of all layers with weights, of weights a channel, as prepare_qat gives them: that of the
/// samples is fixed.
void quantize(Graph& graph) {
  for (Node& node : graph.nodes()) {
    if (!is_weighted_sum(node)) continue;
    const QuantSpec weights =
        parse_quant_spec_text("int8:narrow_range=true,granularity=channel,scale_rule=learned");
    Quantizer weight(weights);
    weight.parameters.emplace_back(
        "scale", Parameter{initial_scale(weights, node.find_parameter("weight")->tensor, node.name)});
    node.quantization["weight"] = std::move(weight);
    Quantizer inputs(parse_quant_spec_text("int8:scale_rule=learned"));
    const bool reads_samples = role_of(graph.node(node.inputs[0].node)) == OperatorRole::kInput;
    inputs.parameters.emplace_back("scale",
                                   Parameter{Tensor::from<float>({}, std::vector{0.02F}), !reads_samples});
    node.quantization["data_in_0"] = std::move(inputs);
  }
}

struct Cost {
  double seconds = 0;
  double megabytes = 0;
};

Cost train_epoch(const Case& of, bool quantized) {
  at::set_num_threads(thread_count());
  use_block_cache_for_tensors();
  seed_everything(1);
  Graph graph = build_model(of.network, of.image, 10);
  initialize_parameters(graph);
  if (quantized) quantize(graph);
  TrainingOptions options;
  options.training_optimizer = OptimizerKind::kSgd;
  options.learning_rate = 1e-4;
  options.batch_size = 64;
  options.max_epochs = 1;
  options.log_every_n_steps = 1 << 20;
  const RandomImages images(of.image, of.images);
  const RandomImages few(of.image, options.batch_size);
  const std::clock_t start = std::clock();
  train(graph, images, few, options);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC,
          .megabytes = static_cast<double>(usage.ru_maxrss) / 1024};
}

/// The same in a process of its own.
Cost train_apart(const Case& of, bool quantized) {
  int ends[2] = {};
  if (pipe(ends) != 0) fail("no pipe");
  const pid_t child = fork();
  if (child < 0) fail("no process");
  if (child == 0) {
    const Cost cost = train_epoch(of, quantized);
    const bool written = write(ends[1], &cost, sizeof(cost)) == sizeof(cost);
    _exit(written ? 0 : 1);
  }
  Cost cost;
  const bool was_read = read(ends[0], &cost, sizeof(cost)) == sizeof(cost);
  int status = 0;
  waitpid(child, &status, 0);
  close(ends[0]);
  close(ends[1]);
  if (!was_read || status != 0) fail("{}: the training ended with status {}", of.network, status);
  return cost;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare(const Case& of, int rounds) {
  std::vector<double> time;
  std::vector<double> memory;
  for (int round = 0; round < rounds; ++round) {
    const Cost plain = train_apart(of, false);
    const Cost quantized = train_apart(of, true);
    time.push_back(quantized.seconds / plain.seconds);
    memory.push_back(quantized.megabytes / plain.megabytes);
    fmt::print("{}: float {:.2f} s, {:.0f} MB; W8A8 {:.2f} s, {:.0f} MB\n", of.network, plain.seconds,
               plain.megabytes, quantized.seconds, quantized.megabytes);
    std::fflush(stdout);
  }
  fmt::print("{}: W8A8 / float: time {:.2f}, memory {:.2f} (medians of {} rounds)\n", of.network,
             median(time), median(memory), rounds);
}

}  // namespace
}  // namespace detent

int main(int count, char** arguments) {
  const int asked = count > 1 ? std::atoi(arguments[1]) : 0;
  const int rounds = asked > 0 ? asked : 3;
  detent::compare({"mnist_cnn", {1, 28, 28}, 3200}, rounds);
  detent::compare({"resnet20", {3, 32, 32}, 320}, rounds);
}
