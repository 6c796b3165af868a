// Statistics of 64 MB on one thread, beside what they are measured by: a loop that only reads the memory, and
// torch.histc with torch.quantile. Rivals take turns and the medians of the ratios are printed, so that what
// else the machine does hits both. Wanted: min and max at 0.8 of reading or better; the sweep at 1.2 GB/s or
// better, and 10 times torch.

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <random>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/histc.h>
#include <ATen/ops/quantile.h>
#include <fmt/core.h>

#include "detent/core/parallel.h"
#include "detent/statistics/collector.h"

namespace detent {
namespace {

constexpr int64_t kValues = 16'000'000;  // torch.quantile takes no more than 2^24
constexpr int kRounds = 15;

/// CPU time of this thread, which does all the work and may have to wait on a busy machine.
double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_of(auto&& action) {
  const double start = cpu_seconds();
  action();
  return cpu_seconds() - start;
}

double median_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

Tensor values_of(bool relu) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  Tensor values(DType::kFloat32, {kValues});
  for (float& value : values.values<float>())
    value = relu ? std::max(0.0F, normal(generator)) : normal(generator);
  return values;
}

/// As fast as memory can be read: four independent sums of its words.
uint64_t read_all(const Tensor& values) {
  const std::span<const std::byte> bytes = values.bytes();
  const auto* words = reinterpret_cast<const uint64_t*>(bytes.data());
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size() / sizeof(uint64_t); ++i) sum += words[i];
  return sum;
}

/// Statistics of a calibration: extremes, sums, sums of squares, counts by key.
Table sweep_statistics(const Value& dims) {
  return {{"range_min_max", Table{{"dims", dims}}},
          {"variance_online", Table{{"dims", dims}}},
          {"histogram", Table{{"dims", dims}, {"exact_values", 0}}}};
}

Table min_max() { return {{"range_min_max", Table{}}}; }

struct Case {
  const char* name;
  Table statistics;
  Shape shape;
  bool relu = false;
};

double collect(const Case& each, const Tensor& values) {
  return seconds_of([&] {
    Collector collector(each.statistics, "bench");
    collector.update(values.reshaped(each.shape));
  });
}

void beside_reading(const Case& each, const Tensor& values) {
  std::vector<double> rates;
  std::vector<double> ratios;
  for (int round = 0; round < kRounds; ++round) {
    volatile uint64_t sink = 0;
    const double reading = seconds_of([&] { sink = read_all(values); });
    const double seconds = collect(each, values);
    rates.push_back(static_cast<double>(values.byte_size()) / seconds / 1e9);
    ratios.push_back(reading / seconds);
  }
  fmt::print("{:<34} {:6.2f} GB/s  {:5.2f} of reading (best {:.2f} GB/s)\n", each.name, median_of(rates),
             median_of(ratios), *std::ranges::max_element(rates));
  std::fflush(stdout);
}

void beside_torch(const Case& each, const Tensor& values) {
  const at::Tensor tensor =
      at::from_blob(const_cast<std::byte*>(values.bytes().data()), {kValues}, at::TensorOptions(at::kFloat));
  std::vector<double> ratios;
  for (int round = 0; round < 3; ++round) {
    const double torch = seconds_of([&] {
      at::histc(tensor, 2048);
      at::quantile(tensor, 0.999);
    });
    ratios.push_back(torch / collect(each, values));
  }
  fmt::print("{:<34} {:6.1f} times torch.histc + torch.quantile\n", each.name, median_of(ratios));
}

/// Only the cases whose name holds `filter`.
void run(std::string_view filter) {
  set_thread_count(1);
  at::set_num_threads(1);
  const Tensor plain = values_of(false);
  const Tensor relu = values_of(true);
  const Table all_of = sweep_statistics("all");
  Table everything = sweep_statistics("all");
  everything["kurtosis"] = Table{};
  everything["average_range"] = Table{};
  const Case cases[] = {
      {"min, max", min_max(), {kValues}},
      {"min, max of ReLU outputs", min_max(), {kValues}, true},
      {"sweep", all_of, {kValues}},
      {"sweep of ReLU outputs", all_of, {kValues}, true},
      {"sweep, channels of NCHW 28x28", sweep_statistics(List{0, 2, 3}), {kValues / (64 * 784), 64, 28, 28}},
      {"sweep, channels of NCHW 100x100", sweep_statistics(List{0, 2, 3}), {25, 64, 100, 100}},
      {"sweep, channels last, 640", sweep_statistics(List{0}), {kValues / 640, 640}},
      {"sweep, kurtosis, ranges by sample", everything, {1000, kValues / 1000}},
  };
  for (const Case& each : cases) {
    if (std::string_view(each.name).find(filter) == std::string_view::npos) continue;
    const Tensor& values = each.relu ? relu : plain;
    beside_reading(each, values.rows(0, element_count(each.shape)));
  }
  if (filter.empty()) beside_torch(cases[2], plain);
}

}  // namespace
}  // namespace detent

// The first argument, unless an option, selects cases by a part of their name.
int main(int argc, char** argv) { detent::run(argc > 1 && argv[1][0] != '-' ? argv[1] : ""); }
