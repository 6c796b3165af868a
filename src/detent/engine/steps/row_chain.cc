#include <algorithm>
#include <atomic>
#include <vector>

#include "detent/engine/step.h"

namespace detent {
namespace {

/// C = f(A B) D for matrices of which C needs a few rows of f(A B) at a time: these stay in a core's cache,
/// where all of them, as scores of attention are, would travel to memory and back with each step.
class RowChainStep final : public EngineStep {
 public:
  RowChainStep(std::vector<std::unique_ptr<EngineStep>> steps, std::vector<size_t> between)
      : steps_(std::move(steps)), between_(std::move(between)) {}

  void prepare(std::span<const Place> places) override {
    for (const auto& step : steps_) step->prepare(places);
    const Shape& shape = places[between_.front()].shape;
    rows_ = shape[shape.size() - 2];
    matrices_ = element_count(shape) / std::max<int64_t>(rows_ * shape.back(), 1);
    int64_t most = 1;
    for (const size_t place : between_) {
      row_bytes_.push_back(shape.back() * places[place].element_bytes());
      most = std::max(most, row_bytes_.back());
    }
    at_once_ = std::clamp<int64_t>(kNear / most / kLeastRows * kLeastRows, kLeastRows, kMostRows);
    buffer_bytes_ = static_cast<size_t>(at_once_ * most + Place::kSlack);
  }

  void run(RunState& state) const override {
    for (const auto& step : steps_) step->begin_rows(state);
    std::atomic<size_t> found_nan = steps_.size();
    const int64_t tiles = (rows_ + at_once_ - 1) / at_once_;
    ThreadPool::shared().run(matrices_ * tiles, state.threads, [&](int64_t task) {
      const int64_t first = task % tiles * at_once_;
      const size_t step = compute(state, task / tiles, first, std::min(at_once_, rows_ - first));
      for (size_t known = found_nan; step < known && !found_nan.compare_exchange_weak(known, step);) {
      }
    });
    if (found_nan < steps_.size()) report(state, found_nan);
  }

 private:
  static constexpr int64_t kNear = 192 << 10;  // bytes of rows that stay in the second-level cache
  static constexpr int64_t kLeastRows = 8;
  static constexpr int64_t kMostRows = 48;

  /// The step that finds NaN where it needs codes; their number where none does.
  size_t compute(RunState& state, int64_t matrix, int64_t first, int64_t count) const {
    thread_local std::vector<std::byte> buffers[2];
    for (std::vector<std::byte>& buffer : buffers) buffer.resize(std::max(buffer.size(), buffer_bytes_));
    size_t found_nan = steps_.size();
    MatrixRows rows{matrix, first, count, 0, nullptr, nullptr};
    for (size_t i = 0; i < steps_.size(); ++i) {
      rows.to = i < between_.size() ? buffers[i % 2].data() : nullptr;
      if (steps_[i]->compute_rows(state, rows)) found_nan = std::min(found_nan, i);
      if (i == between_.size()) break;
      rows.place = between_[i];
      rows.from = rows.to;
    }
    return found_nan;
  }

  /// Computes all that the step reads, for the error that names the element.
  void report(RunState& state, size_t step) const {
    const Shape& shape = state.places[between_.front()].shape;
    Tensor values(DType::kFloat32, shape);
    std::vector<std::byte> buffers[2];
    for (std::vector<std::byte>& buffer : buffers) buffer.resize(buffer_bytes_);
    for (int64_t row = 0; row < matrices_ * rows_; ++row) {
      MatrixRows rows{row / rows_, row % rows_, 1, 0, nullptr, nullptr};
      for (size_t i = 0; i < step; ++i) {
        rows.to = buffers[i % 2].data();
        static_cast<void>(steps_[i]->compute_rows(state, rows));
        rows.place = between_[i];
        rows.from = rows.to;
      }
      std::copy_n(reinterpret_cast<const float*>(rows.from), shape.back(),
                  values.values<float>().begin() + row * shape.back());
    }
    steps_[step]->report_nan(values);
  }

  std::vector<std::unique_ptr<EngineStep>> steps_;
  std::vector<size_t> between_;
  std::vector<int64_t> row_bytes_;
  int64_t matrices_ = 0, rows_ = 0, at_once_ = 1;
  size_t buffer_bytes_ = 0;
};

}  // namespace

std::unique_ptr<EngineStep> row_chain_step(std::vector<std::unique_ptr<EngineStep>> steps,
                                           std::vector<size_t> between) {
  return std::make_unique<RowChainStep>(std::move(steps), std::move(between));
}

}  // namespace detent
