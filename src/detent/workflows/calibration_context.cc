#include "detent/workflows/network_data.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "detent/core/log.h"
#include "detent/core/xxh64.h"

namespace detent {

namespace {

/// Samples of several sizes as they come, but up to 16 of one size in a row, which can run together.
std::vector<int64_t> in_runs_of_one_size(const Dataset& dataset, const std::vector<int64_t>& order) {
  constexpr size_t kLongestRun = 16;
  if (dataset.size_count() == 1) return order;
  std::vector<std::vector<int64_t>> waiting(dataset.size_count());
  std::vector<int64_t> runs;
  const auto take = [&runs](std::vector<int64_t>& samples) {
    runs.insert(runs.end(), samples.begin(), samples.end());
    samples.clear();
  };
  for (const int64_t sample : order) {
    std::vector<int64_t>& samples = waiting[dataset.size_of_sample(sample)];
    samples.push_back(sample);
    if (samples.size() == kLongestRun) take(samples);
  }
  std::ranges::for_each(waiting, take);
  return runs;
}

/// In the order of a shuffled loader.
class ShuffledInputs final : public CalibrationSet {
 public:
  ShuffledInputs(const Dataset& dataset, const RandomSource& random)
      : dataset_(dataset), order_(in_runs_of_one_size(dataset, random.shuffled_order(dataset.size()))) {}

  int64_t size() const override { return dataset_.size(); }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    const auto first = static_cast<size_t>(begin);
    return dataset_.batch(std::span(order_).subspan(first, static_cast<size_t>(end) - first)).inputs;
  }
  int64_t same_size_end(int64_t begin, int64_t end) const override {
    return dataset_.same_size_end(order_, begin, end);
  }
  uint64_t fingerprint() const override {
    return xxh64(std::as_bytes(std::span(order_)), xxh64(dataset_.source()));
  }

 private:
  const Dataset& dataset_;
  const std::vector<int64_t> order_;
};

}  // namespace

PassContext calibration_context(const Dataset& dataset, const RandomSource& random, int64_t batch_size,
                                std::filesystem::path output_dir, Executor& executor) {
  PassContext context;
  context.output_dir = std::move(output_dir);
  context.report = [](const std::string&) {};
  context.warn = [](const std::string& text) { log_warning("{}", text); };
  // One order for all passes, drawn when the first of them asks for it.
  context.open_calibration = [&dataset, random, order = std::make_shared<std::optional<ShuffledInputs>>()] {
    if (!*order) order->emplace(dataset, random);
    return std::make_unique<ShuffledInputs>(**order);
  };
  context.batch_size = batch_size;
  context.executor = [&executor]() -> Executor& { return executor; };
  return context;
}

}  // namespace detent
