#include <memory>

#include "detent/engine/steps/place_rows.h"
#include "detent/kernels/row_reductions.h"

namespace detent {
namespace {

/// Windows of one row of results that follow each other, each one position on from the last.
struct WindowRun {
  int64_t first;
  int64_t count;
};

std::vector<WindowRun> runs_of(const std::vector<PoolingWindow>& windows) {
  std::vector<WindowRun> runs;
  for (int64_t x = 0; x < std::ssize(windows); ++x) {
    const PoolingWindow& window = windows[static_cast<size_t>(x)];
    if (!runs.empty()) {
      const PoolingWindow& first = windows[static_cast<size_t>(runs.back().first)];
      const int64_t on = runs.back().count;
      if (window.begin == first.begin + on && window.end == first.end + on && window.step == first.step &&
          window.counted == first.counted) {
        ++runs.back().count;
        continue;
      }
    }
    runs.push_back({x, 1});
  }
  return runs;
}

/// Whether each window is the position of its result.
bool are_positions(const std::vector<PoolingWindow>& windows) {
  for (int64_t i = 0; i < std::ssize(windows); ++i) {
    const PoolingWindow& window = windows[static_cast<size_t>(i)];
    if (window.begin != i || window.end != i + 1 || window.counted != 1) return false;
  }
  return true;
}

/// A reduction of the positions of windows, channel by channel.
template <class Element>
class PoolingStep : public EngineStep {
 public:
  PoolingStep(PoolingWindows windows, size_t from, size_t to)
      : windows_(std::move(windows)), runs_(runs_of(windows_.back())), from_(from), to_(to) {
    while (windows_.size() < 3) windows_.insert(windows_.begin(), {PoolingWindow{0, 1, 1, 1}});
    keeps_positions_ = are_positions(windows_[1]) && are_positions(windows_[2]);
  }

  void run(RunState& state) const override {
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    if (goes_through_planes(state.places[from_], out)) return run_planes(state);
    if (is_separable() && shares_rows(state.places[from_], out)) return run_rows_first(state);
    ThreadPool::shared().run(out.images() * out.height(), state.threads,
                             [&](int64_t row) { run_row(state, row / out.height(), row % out.height()); });
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }
  bool takes_table(size_t index) const override { return index == to_ && table_.empty(); }
  void add_table(std::span<const uint8_t> table) override { table_.assign(table.begin(), table.end()); }

 protected:
  /// Table for the bytes that windows are reduced to; empty: nothing.
  const std::vector<uint8_t>& table() const { return table_; }

  /// `count` elements, each of as many as there are rows.
  virtual void reduce(std::span<const Element* const> rows, int64_t counted, Element* result,
                      int64_t count) const = 0;
  /// Finishes reduced elements.
  virtual void finish(Element* /*result*/, int64_t /*count*/) const {}
  /// Whether windows may be reduced along rows first, and what that gives from row to row.
  virtual bool is_separable() const { return false; }

 private:
  /// Windows of one row and how they lie: of positions at these distances, which have as many channels.
  struct Line {
    int64_t positions;
    int64_t channels;
    int64_t from_pitch;
    int64_t to_pitch;
    int64_t counted = 0;
    bool is_last = true;  // of the reductions
  };

  /// Reduces windows that begin at `rows`, which move on with them.
  void reduce_line(std::vector<const Element*>& rows, Element* result, const Line& line) const {
    const bool is_dense = line.from_pitch == line.channels && line.to_pitch == line.channels;
    const int64_t calls = is_dense ? 1 : line.positions;
    const int64_t count = is_dense ? line.positions * line.channels : line.channels;
    for (int64_t x = 0; x < calls; ++x) {
      Element* const first = result + x * line.to_pitch;
      reduce(rows, line.counted, first, count);
      if (line.is_last) finish(first, count);
      for (const Element*& row : rows) row += line.from_pitch;
    }
  }

  static constexpr int64_t kChunk = 8192;  // elements

  /// Whether windows go through planes, whose positions are adjacent: as norms over adjacent channels do.
  bool goes_through_planes(const Place& in, const Place& out) const {
    const auto is_dense = [](const Place& place) {
      return place.image() == place.height() * place.width() * place.channels() &&
             place.pitch() == place.channels();
    };
    return keeps_positions_ && in.height() == out.height() && in.width() == out.width() && is_dense(in) &&
           is_dense(out);
  }
  void run_planes(RunState& state) const {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    const auto* const from = reinterpret_cast<const Element*>(state.bytes(from_));
    auto* const to = reinterpret_cast<Element*>(state.bytes(to_));
    const int64_t samples = out.images() / out.depth();
    for (const WindowRun& run : runs_of(windows_[0])) {
      const PoolingWindow& window = windows_[0][static_cast<size_t>(run.first)];
      const int64_t elements = run.count * out.image();
      const int64_t chunks = (elements + kChunk - 1) / kChunk;
      ThreadPool::shared().run(samples * chunks, state.threads, [&](int64_t task) {
        const int64_t n = task / chunks;
        const int64_t first = task % chunks * kChunk;
        std::vector<const Element*> planes;
        for (int64_t k = window.begin; k < window.end; k += window.step)
          planes.push_back(from + in.at(n, k, 0, 0) + first);
        const int64_t count = std::min(kChunk, elements - first);
        reduce_line(planes, to + out.at(n, run.first, 0, 0) + first,
                    {1, count, count, count, window.counted});
      });
    }
  }

  /// Whether several windows read what a row is reduced to.
  bool shares_rows(const Place& in, const Place& out) const {
    constexpr int64_t kFewPositions = 3;
    if (in.depth() != 1 || out.depth() != 1) return false;
    int64_t rows = 0;
    int64_t longest = 0;
    for (const PoolingWindow& w : windows_[1]) rows += (w.end - w.begin + w.step - 1) / w.step;
    for (const PoolingWindow& w : windows_[2])
      longest = std::max(longest, (w.end - w.begin + w.step - 1) / w.step);
    return longest >= kFewPositions && rows >= 2 * in.height();
  }

  /// The windows of each row of the input, then those of what they give: of k x k positions, 2 k are read.
  void run_rows_first(RunState& state) const {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    const int64_t row = out.width() * out.channels();
    const auto buffer = std::make_unique_for_overwrite<Element[]>(
        static_cast<size_t>(in.images() * in.height() * row + Place::kSlack));
    const auto* const from = reinterpret_cast<const Element*>(state.bytes(from_));
    ThreadPool::shared().run(in.images() * in.height(), state.threads, [&](int64_t line) {
      reduce_along(in, from + in.at(line / in.height(), line % in.height(), 0), buffer.get() + line * row);
    });
    auto* const to = reinterpret_cast<Element*>(state.bytes(to_));
    ThreadPool::shared().run(out.images() * out.height(), state.threads, [&](int64_t line) {
      const int64_t n = line / out.height();
      const int64_t y = line % out.height();
      const PoolingWindow& down = windows_[1][static_cast<size_t>(y)];
      std::vector<const Element*> rows;
      for (int64_t i = down.begin; i < down.end; i += down.step)
        rows.push_back(buffer.get() + (n * in.height() + i) * row);
      reduce_line(rows, to + out.at(n, y, 0), {out.width(), out.channels(), out.channels(), out.pitch()});
    });
  }

  void reduce_along(const Place& in, const Element* line, Element* result) const {
    const int64_t channels = in.channels();
    std::vector<const Element*> positions;
    for (const WindowRun& run : runs_) {
      const PoolingWindow& across = windows_[2][static_cast<size_t>(run.first)];
      positions.clear();
      for (int64_t k = across.begin; k < across.end; k += across.step)
        positions.push_back(line + k * in.pitch());
      reduce_line(positions, result + run.first * channels,
                  {run.count, channels, in.pitch(), channels, 0, false});
    }
  }

  /// `plane` counts those of all samples.
  void run_row(RunState& state, int64_t plane, int64_t y) const {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    const auto* const from = reinterpret_cast<const Element*>(state.bytes(from_));
    auto* const to = reinterpret_cast<Element*>(state.bytes(to_));
    const int64_t n = plane / out.depth();
    const PoolingWindow& inward = windows_[0][static_cast<size_t>(plane % out.depth())];
    const PoolingWindow& down = windows_[1][static_cast<size_t>(y)];
    std::vector<const Element*> lines;
    for (int64_t k = inward.begin; k < inward.end; k += inward.step) {
      for (int64_t i = down.begin; i < down.end; i += down.step) lines.push_back(from + in.at(n, k, i, 0));
    }
    std::vector<const Element*> rows;
    for (const WindowRun& run : runs_) {
      const PoolingWindow& across = windows_[2][static_cast<size_t>(run.first)];
      rows.clear();
      for (const Element* line : lines) {
        for (int64_t k = across.begin; k < across.end; k += across.step)
          rows.push_back(line + k * in.pitch());
      }
      const int64_t counted = inward.counted * down.counted * across.counted;
      reduce_line(rows, to + out.at(plane, y, run.first),
                  {run.count, out.channels(), in.pitch(), out.pitch(), counted});
    }
  }

  PoolingWindows windows_;
  std::vector<WindowRun> runs_;
  bool keeps_positions_;  // within a plane
  std::vector<uint8_t> table_;
  size_t from_;
  size_t to_;
};

class LargestStep final : public PoolingStep<uint8_t> {
 public:
  LargestStep(const KernelSet& kernels, PoolingWindows windows, size_t from, size_t to)
      : PoolingStep(std::move(windows), from, to), kernels_(kernels) {}

 private:
  void reduce(std::span<const uint8_t* const> rows, int64_t /*counted*/, uint8_t* result,
              int64_t count) const override {
    kernels_.largest(rows.data(), std::ssize(rows), result, count);
  }
  void finish(uint8_t* result, int64_t count) const override {
    if (!table().empty()) kernels_.look_up(table().data(), result, result, count);
  }
  bool is_separable() const override { return true; }

  const KernelSet& kernels_;
};

class MeanStep final : public PoolingStep<uint8_t> {
 public:
  MeanStep(const KernelSet& kernels, const AverageForm& form, PoolingWindows windows, size_t from, size_t to)
      : PoolingStep(std::move(windows), from, to), kernels_(kernels), form_(form) {}

 private:
  void reduce(std::span<const uint8_t* const> rows, int64_t counted, uint8_t* result,
              int64_t count) const override {
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
    kernels_.mean(mean, rows.data(), std::ssize(rows), result, count);
  }
  void finish(uint8_t* result, int64_t count) const override {
    if (!table().empty()) kernels_.look_up(table().data(), result, result, count);
  }

  const KernelSet& kernels_;
  AverageForm form_;
};

class LargestValuesStep final : public PoolingStep<float> {
  using PoolingStep::PoolingStep;

  void reduce(std::span<const float* const> rows, int64_t /*counted*/, float* result,
              int64_t count) const override {
    largest_of_rows(rows.data(), std::ssize(rows), count, result);
  }
  // The first of equal values (0 and -0) and the last NaN count, in a row and from row to row.
  bool is_separable() const override { return true; }
};

class MeanValuesStep final : public PoolingStep<float> {
  using PoolingStep::PoolingStep;

  void reduce(std::span<const float* const> rows, int64_t counted, float* result,
              int64_t count) const override {
    mean_of_rows(rows.data(), std::ssize(rows), count, static_cast<double>(counted), result);
  }
};

class MeanWideStep final : public PoolingStep<float> {
 public:
  MeanWideStep(const AverageForm& form, PoolingWindows windows, size_t from, size_t to)
      : PoolingStep(std::move(windows), from, to), form_(form) {}

 private:
  void reduce(std::span<const float* const> rows, int64_t counted, float* result,
              int64_t count) const override {
    constexpr int64_t kAtOnce = 32;
    constexpr float kWhole = 0x1.8p23F;
    for (int64_t first = 0; first < count; first += kAtOnce) {
      const int64_t part = std::min(kAtOnce, count - first);
      int32_t sums[kAtOnce] = {};
      for (const float* const row : rows) {
        for (int64_t i = 0; i < part; ++i)
          sums[i] += static_cast<int32_t>((row[first + i] / form_.input.scale + kWhole) - kWhole);
      }
      for (int64_t i = 0; i < part; ++i) result[first + i] = form_.output.value(form_.code(sums[i], counted));
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
