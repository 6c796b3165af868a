#include "detent/cli/torch/calibration.h"

#include <algorithm>
#include <memory>

#include <fmt/core.h>

#include "detent/core/log.h"
#include "detent/training/loader.h"

namespace detent {

InputStream shuffled_inputs(const Dataset& dataset, int64_t batch_size) {
  const auto order = std::make_shared<const std::vector<int64_t>>(shuffled_order(dataset.size()));
  return [&dataset, order, batch_size, position = size_t{0}]() mutable -> std::optional<Tensor> {
    if (position >= order->size()) return std::nullopt;
    const size_t count = std::min(static_cast<size_t>(batch_size), order->size() - position);
    const auto indices = std::span(*order).subspan(position, count);
    position += count;
    return dataset.batch(indices).inputs;
  };
}

PassContext make_pass_context(const Dataset& dataset, int64_t batch_size, std::filesystem::path output_dir,
                              Executor& executor) {
  PassContext context;
  context.output_dir = std::move(output_dir);
  context.report = [](const std::string& text) { fmt::print("{}", text); };
  context.warn = [](const std::string& text) { spdlog::warn("{}", text); };
  context.open_calibration = [&dataset, batch_size] { return shuffled_inputs(dataset, batch_size); };
  context.executor = [&executor]() -> Executor& { return executor; };
  return context;
}

}  // namespace detent
