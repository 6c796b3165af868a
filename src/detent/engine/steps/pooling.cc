#include "detent/engine/step.h"

namespace detent {
namespace {

/// A reduction of the positions of windows, channel by channel.
class PoolingStep : public EngineStep {
 public:
  PoolingStep(PoolingWindows windows, size_t from, size_t to)
      : windows_(std::move(windows)), from_(from), to_(to) {
    while (windows_.size() < 3) windows_.insert(windows_.begin(), {PoolingWindow{0, 1, 1, 1}});
  }

  void run(RunState& state) const override {
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    ThreadPool::shared().run(out.images() * out.height(), state.threads,
                             [&](int64_t row) { run_row(state, row / out.height(), row % out.height()); });
  }

 protected:
  virtual void reduce(std::span<const uint8_t* const> rows, int64_t counted, uint8_t* result,
                      int64_t channels) const = 0;

 private:
  /// `plane` counts those of all samples.
  void run_row(RunState& state, int64_t plane, int64_t y) const {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    const uint8_t* from = state.bytes(from_);
    const int64_t element = in.element_bytes();
    const int64_t n = plane / out.depth();
    const PoolingWindow& inward = windows_[0][static_cast<size_t>(plane % out.depth())];
    const PoolingWindow& down = windows_[1][static_cast<size_t>(y)];
    std::vector<const uint8_t*> lines;
    for (int64_t k = inward.begin; k < inward.end; k += inward.step) {
      for (int64_t i = down.begin; i < down.end; i += down.step)
        lines.push_back(from + element * in.at(n, k, i, 0));
    }
    std::vector<const uint8_t*> rows;
    for (int64_t x = 0; x < out.width(); ++x) {
      const PoolingWindow& across = windows_[2][static_cast<size_t>(x)];
      rows.clear();
      for (const uint8_t* line : lines) {
        for (int64_t k = across.begin; k < across.end; k += across.step)
          rows.push_back(line + element * k * in.channels());
      }
      reduce(rows, inward.counted * down.counted * across.counted,
             state.bytes(to_) + element * out.at(plane, y, x), out.channels());
    }
  }

  PoolingWindows windows_;
  size_t from_;
  size_t to_;
};

class LargestStep final : public PoolingStep {
 public:
  LargestStep(const KernelSet& kernels, PoolingWindows windows, size_t from, size_t to)
      : PoolingStep(std::move(windows), from, to), kernels_(kernels) {}

 private:
  void reduce(std::span<const uint8_t* const> rows, int64_t /*counted*/, uint8_t* result,
              int64_t channels) const override {
    kernels_.largest(rows.data(), std::ssize(rows), result, channels);
  }

  const KernelSet& kernels_;
};

class MeanStep final : public PoolingStep {
 public:
  MeanStep(const KernelSet& kernels, const AverageForm& form, PoolingWindows windows, size_t from, size_t to)
      : PoolingStep(std::move(windows), from, to), kernels_(kernels), form_(form) {}

 private:
  void reduce(std::span<const uint8_t* const> rows, int64_t counted, uint8_t* result,
              int64_t channels) const override {
    const float multiplier = form_.input.scale / (form_.output.scale * static_cast<float>(counted));
    FixedMultiplier fixed;
    ByteMean mean{
        .zero_sum = static_cast<int32_t>(std::ssize(rows)) * (form_.input.zero_point - form_.input.low),
        .finish = finish_for(form_.output)};
    if (form_.fixed_point) {
      fixed = form_.multiplier(counted);
      mean.finish.fixed = &fixed;
    } else {
      mean.finish.multiplier = &multiplier;
    }
    kernels_.mean(mean, rows.data(), std::ssize(rows), result, channels);
  }

  const KernelSet& kernels_;
  AverageForm form_;
};

/// Rows of float32 values.
class ValuesPoolingStep : public PoolingStep {
 public:
  using PoolingStep::PoolingStep;

 protected:
  virtual void reduce_values(std::span<const float* const> rows, int64_t counted, float* result,
                             int64_t channels) const = 0;

 private:
  void reduce(std::span<const uint8_t* const> rows, int64_t counted, uint8_t* result,
              int64_t channels) const override {
    std::vector<const float*> values;
    for (const uint8_t* const row : rows) values.push_back(reinterpret_cast<const float*>(row));
    reduce_values(values, counted, reinterpret_cast<float*>(result), channels);
  }
};

class LargestValuesStep final : public ValuesPoolingStep {
  using ValuesPoolingStep::ValuesPoolingStep;

  void reduce_values(std::span<const float* const> rows, int64_t /*counted*/, float* result,
                     int64_t channels) const override {
    largest_of_rows(rows.data(), std::ssize(rows), channels, result);
  }
};

class MeanValuesStep final : public ValuesPoolingStep {
  using ValuesPoolingStep::ValuesPoolingStep;

  void reduce_values(std::span<const float* const> rows, int64_t counted, float* result,
                     int64_t channels) const override {
    constexpr int64_t kAtOnce = 32;
    for (int64_t first = 0; first < channels; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, channels - first);
      double sums[kAtOnce] = {};
      for (const float* const row : rows) {
        for (int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(row[first + i]);
      }
      for (int64_t i = 0; i < count; ++i)
        result[first + i] = static_cast<float>(sums[i] / static_cast<double>(counted));
    }
  }
};

class MeanWideStep final : public ValuesPoolingStep {
 public:
  MeanWideStep(const AverageForm& form, PoolingWindows windows, size_t from, size_t to)
      : ValuesPoolingStep(std::move(windows), from, to), form_(form) {}

 private:
  void reduce_values(std::span<const float* const> rows, int64_t counted, float* result,
                     int64_t channels) const override {
    constexpr int64_t kAtOnce = 32;
    constexpr float kWhole = 0x1.8p23F;
    for (int64_t first = 0; first < channels; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, channels - first);
      int32_t sums[kAtOnce] = {};
      for (const float* const row : rows) {
        for (int64_t i = 0; i < count; ++i)
          sums[i] += static_cast<int32_t>((row[first + i] / form_.input.scale + kWhole) - kWhole);
      }
      for (int64_t i = 0; i < count; ++i)
        result[first + i] = form_.output.value(form_.code(sums[i], counted));
    }
  }

  AverageForm form_;
};

}  // namespace

std::unique_ptr<EngineStep> mean_wide_step(const AverageForm& form, PoolingWindows windows, size_t from,
                                           size_t to) {
  return std::make_unique<MeanWideStep>(form, std::move(windows), from, to);
}

std::unique_ptr<EngineStep> largest_values_step(PoolingWindows windows, size_t from, size_t to) {
  return std::make_unique<LargestValuesStep>(std::move(windows), from, to);
}

std::unique_ptr<EngineStep> mean_values_step(PoolingWindows windows, size_t from, size_t to) {
  return std::make_unique<MeanValuesStep>(std::move(windows), from, to);
}

std::unique_ptr<EngineStep> largest_step(const KernelSet& kernels, PoolingWindows windows, size_t from,
                                         size_t to) {
  return std::make_unique<LargestStep>(kernels, std::move(windows), from, to);
}

std::unique_ptr<EngineStep> mean_step(const KernelSet& kernels, const AverageForm& form,
                                      PoolingWindows windows, size_t from, size_t to) {
  return std::make_unique<MeanStep>(kernels, form, std::move(windows), from, to);
}

}  // namespace detent
