#include "detent/cli/network/calibration.h"

#include <memory>
#include <optional>
#include <span>

#include "detent/cli/print.h"
#include "detent/core/log.h"
#include "detent/core/xxh64.h"

namespace detent {

namespace {

/// In the order of a shuffled loader.
class ShuffledInputs final : public CalibrationSet {
 public:
  ShuffledInputs(const Dataset& dataset, const RandomSource& random)
      : dataset_(dataset), order_(random.shuffled_order(dataset.size())) {}

  int64_t size() const override { return dataset_.size(); }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    const auto first = static_cast<size_t>(begin);
    return dataset_.batch(std::span(order_).subspan(first, static_cast<size_t>(end) - first)).inputs;
  }
  uint64_t fingerprint() const override {
    return xxh64(std::as_bytes(std::span(order_)), xxh64(dataset_.source()));
  }

 private:
  const Dataset& dataset_;
  const std::vector<int64_t> order_;
};

}  // namespace

PassContext make_pass_context(const Dataset& dataset, const RandomSource& random, int64_t batch_size,
                              std::filesystem::path output_dir, Executor& executor) {
  PassContext context;
  context.output_dir = std::move(output_dir);
  context.report = [](const std::string& text) { print(text); };
  context.warn = [](const std::string& text) { spdlog::warn("{}", text); };
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
