// Training mnist_cnn as `detent train` does, against the same loop in Python's torch (training_bench.py),
// both on random images of MNIST's shape. The two take turns, so that a machine whose speed drifts drifts for
// both; prints the median of the ratios. Not a Google Benchmark: the rival is another process.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <random>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/tensor_memory.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/models/model.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

constexpr int kBatchSize = 64;
constexpr int kSteps = 300;
constexpr int kRounds = 5;

/// Grey levels that are normalised as they are asked for, as the MNIST data set does.
class RandomImages : public Dataset {
 public:
  explicit RandomImages(size_t count)
      : Dataset({1, 28, 28}, 10, random_labels(count), "random"), pixels_(count * 784) {
    std::mt19937 generator(1);
    std::ranges::generate(pixels_, [&] { return static_cast<uint8_t>(generator()); });
  }

 private:
  static std::vector<int64_t> random_labels(size_t count) {
    std::mt19937 generator(2);
    std::vector<int64_t> labels(count);
    std::ranges::generate(labels, [&] { return static_cast<int64_t>(generator() % 10); });
    return labels;
  }

  void copy_sample(int64_t index, std::span<float> target) const override {
    const uint8_t* pixels = pixels_.data() + index * 784;
    for (size_t i = 0; i < target.size(); ++i) {
      target[i] = (static_cast<float>(pixels[i]) / 255.0F - 0.1307F) / 0.3081F;
    }
  }

  std::vector<uint8_t> pixels_;
};

struct Seconds {
  double wall = 0;
  double cpu = 0;
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Seconds time_detent(const Dataset& images) {
  TrainingOptions options;
  options.training_optimizer = OptimizerKind::kSgd;
  options.learning_rate = 0.01;
  options.momentum = 0.5;
  options.batch_size = kBatchSize;
  options.max_epochs = 1;
  options.log_every_n_steps = 1 << 20;
  seed_everything(1);
  Graph graph = build_model("mnist_cnn", {1, 28, 28}, 10);
  initialize_parameters(graph);
  const RandomImages one_batch(kBatchSize);
  Seconds seconds;
  const double cpu_start = cpu_seconds();
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) {
    seconds.wall = static_cast<double>(report.training.count) / report.samples_per_second;
  };
  train(graph, images, one_batch, options, hooks);
  seconds.cpu = cpu_seconds() - cpu_start;
  return seconds;
}

Seconds time_python() {
  const std::string command = fmt::format("/usr/bin/python3 {}/bench/training_bench.py {} {} {}",
                                          DETENT_SOURCE_DIR, kSteps, kBatchSize, thread_count());
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  Seconds seconds;
  if (!pipe || std::fscanf(pipe.get(), "%lf %lf", &seconds.wall, &seconds.cpu) != 2)
    fail("no times from: {}", command);
  return seconds;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace
}  // namespace detent

int main() {
  using namespace detent;
  at::set_num_threads(thread_count());
  use_block_cache_for_tensors();
  const RandomImages images(kSteps * kBatchSize);
  std::vector<double> wall;
  std::vector<double> cpu;
  for (int round = 0; round < kRounds; ++round) {
    const Seconds ours = time_detent(images);
    const Seconds python = time_python();
    wall.push_back(python.wall / ours.wall);
    cpu.push_back(python.cpu / ours.cpu);
    fmt::print(
        "round {}, {} threads: detent {:.2f} s (CPU {:.2f} s), Python's torch {:.2f} s (CPU {:.2f} s)\n",
        round + 1, thread_count(), ours.wall, ours.cpu, python.wall, python.cpu);
  }
  fmt::print(
      "speed of detent / speed of Python's torch: {:.3f} by the clock, {:.3f} by CPU time\n"
      "(medians of {} rounds of {} steps)\n",
      median(wall), median(cpu), kRounds, kSteps);
}
