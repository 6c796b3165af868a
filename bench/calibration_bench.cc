// Cost of collecting statistics beside the network itself: profile_statistics against the forward passes
// alone, in processes of their own that take turns. Prints the ratio of the CPU times for 1,000 images of
// MNIST's shape through mnist_cnn and 640 of CIFAR's shape through resnet20, every input profiled, and the
// peak memory of 10,000 images through resnet20; with the argument `times` or `memory` only the one or the
// other. Not a Google Benchmark: peak memory needs processes.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/core.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/tensor_memory.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/models/model.h"
#include "detent/passes/pass.h"
#include "detent/statistics/collector.h"

namespace detent {
namespace {

constexpr int kRounds = 5;
constexpr int64_t kMicroBatch = 64;  // as profile_statistics runs them

/// Bytes that become floats as they are asked for. Copies share them.
class RandomImages final : public CalibrationSet {
 public:
  RandomImages(int64_t count, Shape sample)
      : count_(count),
        sample_(std::move(sample)),
        pixels_(std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(count * element_count(sample_)))) {
    std::mt19937 generator(1);
    std::ranges::generate(*pixels_, [&] { return static_cast<uint8_t>(generator()); });
  }
  int64_t size() const override { return count_; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    Shape shape = sample_;
    shape.insert(shape.begin(), end - begin);
    Tensor batch(DType::kFloat32, shape);
    const uint8_t* pixel = pixels_->data() + begin * element_count(sample_);
    for (float& value : batch.values<float>()) value = static_cast<float>(*pixel++) / 64.0F - 2.0F;
    return {batch};
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  int64_t count_;
  Shape sample_;
  std::shared_ptr<std::vector<uint8_t>> pixels_;
};

/// Every statistic but `record`, which keeps the data.
Table all_statistics_table() {
  Table statistics;
  for (const StatisticInfo& info : all_statistics()) {
    if (info.name != "record") statistics.table(info.name);
  }
  return statistics;
}

Table usual_statistics_table() {
  Table statistics;
  for (const char* name :
       {"range_min_max", "range_quantile", "mean", "variance_precise", "absmax", "histogram"}) {
    statistics.table(name);
  }
  return statistics;
}

struct Task {
  std::string model;
  Shape sample;
  int64_t images;
  std::string what;  // "forward", "usual" or "all"
};

/// CPU time of this process, whose one thread may have to wait for its turn on a busy machine.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// CPU seconds of the passes over the images.
double run_task(const Task& task) {
  set_thread_count(1);
  at::set_num_threads(1);
  seed_everything(0);
  Graph graph = build_model(task.model, task.sample, 10);
  initialize_parameters(graph);
  FastExecutor executor;
  RandomImages images(task.images, task.sample);
  PassContext context;
  context.report = [](const std::string&) {};
  context.warn = [](const std::string& text) { fail("{}", text); };
  context.executor = [&]() -> Executor& { return executor; };
  context.open_calibration = [&] { return std::make_unique<RandomImages>(images); };
  const std::vector<Tensor> first = images.inputs(0, kMicroBatch);
  const std::unique_ptr<const Program> program = executor.compile(graph);
  program->run(first);

  const double start = cpu_seconds();
  if (task.what == "forward") {
    for (int64_t begin = 0; begin < task.images; begin += kMicroBatch) {
      const std::vector<Tensor> inputs = images.inputs(begin, std::min(begin + kMicroBatch, task.images));
      program->run(inputs);
    }
  } else {
    Table options = {
        {"by", "regex_name"}, {"target_activation_nodes", List{".*"}}, {"num_samples", task.images}};
    options["activation_statistics"] = task.what == "all" ? all_statistics_table() : usual_statistics_table();
    find_pass("profile_statistics").run(graph, options, context);
  }
  return cpu_seconds() - start;
}

struct Cost {
  double seconds;
  double peak_megabytes;
};

/// In a process of its own.
Cost measure(const Task& task) {
  int ends[2];
  DETENT_CHECK(pipe(ends) == 0, "pipe");
  const pid_t child = fork();
  DETENT_CHECK(child >= 0, "fork");
  if (child == 0) {
    const double seconds = run_task(task);
    const bool written = write(ends[1], &seconds, sizeof(seconds)) == sizeof(seconds);
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  Cost cost{};
  const bool read_all = read(ends[0], &cost.seconds, sizeof(cost.seconds)) == sizeof(cost.seconds);
  close(ends[0]);
  rusage usage{};
  int status = 0;
  wait4(child, &status, 0, &usage);
  DETENT_CHECK(read_all && status == 0, "the measured process ended with status {}", status);
  cost.peak_megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
  return cost;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void compare_times(Task task, const char* label) {
  const std::string what = std::exchange(task.what, "forward");
  std::vector<double> ratios;
  std::vector<double> forwards;
  for (int round = 0; round < kRounds; ++round) {
    task.what = "forward";
    const double forward = measure(task).seconds;
    task.what = what;
    ratios.push_back(measure(task).seconds / forward);
    forwards.push_back(forward);
  }
  std::ranges::sort(ratios);
  fmt::print(
      "{}, {} images, {}: {:.2f} times the forward passes of {:.0f} ms (of {} rounds: {:.2f} to {:.2f})\n",
      task.model, task.images, label, median(ratios), 1000 * median(forwards), kRounds, ratios.front(),
      ratios.back());
}

void compare_all_times() {
  for (const auto& [what, label] :
       {std::pair("usual", "six usual statistics"), std::pair("all", "all statistics but record")}) {
    compare_times({"mnist_cnn", {1, 28, 28}, 1000, what}, label);
    compare_times({"resnet20", {3, 32, 32}, 640, what}, label);
  }
}

void compare_memory() {
  const Cost forward = measure({"resnet20", {3, 32, 32}, 10000, "forward"});
  for (const char* what : {"usual", "all"}) {
    const Cost profiled = measure({"resnet20", {3, 32, 32}, 10000, what});
    fmt::print(
        "resnet20, 10000 images, {} statistics: peak {:.0f} MB, {:.0f} MB above the forward passes; {:.2f} "
        "times their CPU time\n",
        what, profiled.peak_megabytes, profiled.peak_megabytes - forward.peak_megabytes,
        profiled.seconds / forward.seconds);
  }
}

}  // namespace
}  // namespace detent

int main(int count, char** arguments) {
  const std::string only = count > 1 ? arguments[1] : "";
  detent::use_block_cache_for_tensors();
  try {
    if (only != "memory") detent::compare_all_times();
    if (only != "times") detent::compare_memory();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
