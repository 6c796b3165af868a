#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "detent/engine/pair_table.h"
#include "detent/engine/step.h"
#include "detent/engine/steps/window_walk.h"

namespace detent {
namespace {

/// Applies what follows to `count` adjacent bytes, in place.
void follow(const KernelSet& kernels, std::span<const FollowUp> follow_ups, RunState& state, uint8_t* bytes,
            std::span<const uint8_t* const> others, int64_t count) {
  size_t next_other = 0;
  for (const FollowUp& step : follow_ups) {
    if (step.table.empty()) {
      kernels.add(step.addition, bytes, others[next_other++], bytes, count);
    } else {
      kernels.look_up(step.table.data(), bytes, bytes, count);
    }
  }
  static_cast<void>(state);
}

class SumsStep final : public EngineStep {
 public:
  explicit SumsStep(SumsLayer layer) : layer_(std::move(layer)) {
    for (FollowUp& step : layer_.follow_ups) {
      if (step.table.empty()) step.addition.quick = quick_addition(step.addition);
    }
  }

  void prepare(std::span<const Place> places) override {
    const PackedSums& packed = *layer_.packed;
    const Place& in = places[layer_.input];
    const int64_t words = (in.channels() + kWordInputs - 1) / kWordInputs;
    position_bytes_ = counts_bits(packed.packing) ? words * kWordBytes : in.pitch();
    const int64_t row_bytes = in.row() / in.pitch() * position_bytes_;
    const int64_t image_bytes = in.image() / in.pitch() * position_bytes_;
    for (const RunStart& run : packed.runs)
      offsets_.push_back(run.z * image_bytes + run.y * row_bytes + run.x * position_bytes_ + run.channel);
    if (packed.depthwise) note_rows();
    const Place& out = places[layer_.output];
    walk_ = WindowWalk(window(), layer_.grid, out);
    shares_columns_ =
        !packed.depthwise && packed.groups.size() == 1 && column_bytes(in, packed.groups[0]) > 0;
  }

  std::span<const int8_t> weights() const override {
    return {layer_.packed->weights.data(), layer_.packed->weights.byte_size()};
  }
  void set_next_weights(std::span<const int8_t> weights) override { next_ = weights; }

  void run(RunState& state) const override {
    const Place& out = state.places[layer_.output];
    if (layer_.fills_halo) fill_halo(out, state.bytes(layer_.output));
    CodeNumbers numbers;
    if (layer_.codes) {
      numbers = code_numbers(*layer_.codes, state);
      Place bordered = state.places[layer_.input];
      bordered.type.zero_point = numbers.zero;
      fill_halo(bordered, state.bytes(layer_.input));
    }
    Inputs inputs{.bytes = state.bytes(layer_.input), .numbers = &numbers};
    if (counts_bits(layer_.packed->packing)) take_bits(state, inputs);
    if (layer_.packed->wide_input) take_bytes(state, inputs);
    layer_.packed->depthwise ? run_depthwise(state, inputs) : run_windows(state, inputs);
  }

  /// Positions by themselves, whose channels fill up what is multiplied at once, are read as they lie.
  bool takes_slice(size_t index, const Place& place) const override {
    const PackedSums& packed = *layer_.packed;
    const bool reads_as_it_lies = packed.packing == WeightPacking::kBytes && !packed.wide_input &&
                                  packed.run_count == packed.window.positions() &&
                                  place.channels() % (packed.run_steps * kStepInputs) == 0;
    return !packed.depthwise && (index != layer_.input || reads_as_it_lies);
  }
  bool takes_table(size_t index) const override { return index == layer_.output; }
  void add_table(std::span<const uint8_t> table) override {
    if (layer_.follow_ups.empty() || layer_.follow_ups.back().table.empty()) {
      layer_.follow_ups.push_back({.table = {table.begin(), table.end()}});
      return;
    }
    for (uint8_t& byte : layer_.follow_ups.back().table) byte = table[byte];
  }

 private:
  static constexpr int64_t kMostWindows = 384;  // of a task
  static constexpr int64_t kUsualWindows = 96;
  static constexpr int64_t kUsualResults = kUsualWindows * 64;  // which stay near for what follows
  static constexpr size_t kMostFollowUps = 2;
  static constexpr int64_t kWeightBytes = 384 << 10;  // that stay in the second-level cache

  static int64_t divided(int64_t count, int64_t by) { return (count + by - 1) / by; }

  /// Tasks: parts of the groups times parts of the windows, of about the same size.
  struct Cut {
    int64_t group_parts;
    int64_t window_parts;
    int64_t unit;  // windows that stay together

    int64_t tasks() const { return group_parts * window_parts; }
  };

  Cut cut(int threads) const {
    const PackedSums& packed = *layer_.packed;
    constexpr int64_t kFewWindows = 24;
    const int64_t all = walk_.count();
    const auto groups = std::ssize(packed.groups);
    const auto weight_bytes = static_cast<int64_t>(packed.weights.byte_size());
    const int64_t usual =
        std::clamp(kUsualResults / std::max<int64_t>(packed.outputs, 1), kUsualWindows, kMostWindows);
    const int64_t wanted = threads > 1 ? 4 * int64_t{threads} : 1;
    Cut cut{std::clamp<int64_t>(divided(weight_bytes, kWeightBytes), 1, std::max<int64_t>(groups, 1)),
            divided(all, usual), 1};
    while (cut.tasks() < wanted && cut.group_parts < groups)
      cut.group_parts = std::min(2 * cut.group_parts, groups);
    while (cut.tasks() < wanted && all / cut.window_parts > kFewWindows) ++cut.window_parts;
    if (cut.group_parts % threads != 0 && all > cut.window_parts)
      cut.window_parts = std::min(divided(cut.window_parts, threads) * threads, all);
    const int64_t columns = walk_.columns();
    if (shares_columns_ && columns <= kMostWindows) {
      const int64_t rows = divided(all, columns);
      cut.unit = columns;
      cut.window_parts = std::clamp(cut.window_parts, divided(rows, kMostWindows / columns), rows);
    }
    return cut;
  }

  /// Inputs of kernels: the codes' bytes, of two the lower ones, or their bit planes.
  struct Inputs {
    const uint8_t* bytes = nullptr;
    const CodeNumbers* numbers = nullptr;
    std::unique_ptr<uint8_t[]> both_bytes = nullptr;  // the lower ones of all positions, then the upper ones
    std::unique_ptr<uint64_t[]> planes = nullptr;
    std::unique_ptr<int32_t[]> others_than_zero = nullptr;  // in the window that begins at each position
  };

  void run_windows(RunState& state, const Inputs& inputs) const {
    const Cut parts = cut(state.threads);
    const int64_t units = divided(walk_.count(), parts.unit);
    ThreadPool::shared().run(parts.tasks(), state.threads, [&](int64_t task) {
      const auto window = [&](int64_t part) {
        return std::min(units * part / parts.window_parts * parts.unit, walk_.count());
      };
      const auto group = [&](int64_t part) {
        return std::ssize(layer_.packed->groups) * part / parts.group_parts;
      };
      const int64_t of_windows = task % parts.window_parts;
      const int64_t of_groups = task / parts.window_parts;
      run_task(state, inputs, window(of_windows), window(of_windows + 1), group(of_groups),
               group(of_groups + 1));
    });
  }

  /// Takes the bits of all positions, the border among them.
  void take_bits(RunState& state, Inputs& inputs) const {
    constexpr int64_t kAtOnce = 512;
    const Place& in = state.places[layer_.input];
    const int64_t positions = in.elements() / in.channels();
    const int64_t position_words = position_bytes_ / 8;
    inputs.planes =
        std::make_unique_for_overwrite<uint64_t[]>(static_cast<size_t>(positions * position_words));
    inputs.others_than_zero = std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(positions));
    ThreadPool::shared().run((positions + kAtOnce - 1) / kAtOnce, state.threads, [&](int64_t task) {
      const int64_t first = task * kAtOnce;
      layer_.packed->kernels->bit_planes(
          inputs.bytes + first * in.channels(), in.zero_byte(), std::min(kAtOnce, positions - first),
          in.channels(), inputs.planes.get() + first * position_words, inputs.others_than_zero.get() + first);
    });
    inputs.bytes = reinterpret_cast<const uint8_t*>(inputs.planes.get());
    const WindowShape& w = window();
    const std::span<int32_t> counts(inputs.others_than_zero.get(), static_cast<size_t>(positions));
    add_following(counts, w.width, w.dilation_x);
    add_following(counts, w.height, w.dilation_y * in.row() / in.channels());
  }

  /// Both bytes of the codes of all positions, the border among them.
  void take_bytes(RunState& state, Inputs& inputs) const {
    constexpr int64_t kAtOnce = 16 << 10;
    const Place& in = state.places[layer_.input];
    const CodeType& type = *layer_.packed->wide_input;
    inputs.both_bytes = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(2 * plane_bytes(in)));
    uint8_t* const low = inputs.both_bytes.get();
    ThreadPool::shared().run((in.elements() + kAtOnce - 1) / kAtOnce, state.threads, [&](int64_t task) {
      const int64_t first = task * kAtOnce;
      layer_.packed->kernels->split({type.scale, type.zero_point - type.low},
                                    state.values(layer_.input) + first, low + first,
                                    low + plane_bytes(in) + first, std::min(kAtOnce, in.elements() - first));
    });
    inputs.bytes = low;
  }
  static int64_t plane_bytes(const Place& in) { return in.elements() + Place::kSlack; }

  /// Adds to each number those that follow it at `step`, `count` in all. The last have no windows.
  static void add_following(std::span<int32_t> numbers, int64_t count, int64_t step) {
    const int64_t end = std::ssize(numbers) - (count - 1) * step;
    int32_t* const at = numbers.data();
    if (count == 3) {
      for (int64_t i = 0; i < end; ++i) at[i] += at[i + step] + at[i + 2 * step];
      return;
    }
    for (int64_t i = 0; i < end; ++i) {
      for (int64_t k = 1; k < count; ++k) at[i] += at[i + k * step];
    }
  }

  /// Windows of a task: where they begin, and where their results go.
  struct Windows {
    const uint8_t* inputs[kMostWindows];
    std::byte* results[kMostWindows];
    int32_t others_than_zero[kMostWindows];
  };

  void note_windows(RunState& state, const Inputs& taken, int64_t first_window, int64_t count,
                    Windows& to) const {
    const Place& in = state.places[layer_.input];
    const Place& out = state.places[layer_.output];
    const int64_t element = out.element_bytes();
    auto* first_result = reinterpret_cast<std::byte*>(state.bytes(layer_.output));
    const int64_t input_step = walk_.position_step() * position_bytes_;
    const int64_t result_step = walk_.result_step() * out.pitch() * element;
    walk_.for_each_row(in, out, first_window, count,
                       [&](int64_t begin, int64_t end, int64_t position, int64_t at) {
                         if (taken.others_than_zero != nullptr) {
                           const int32_t* const counts = taken.others_than_zero.get() + position;
                           for (int64_t i = begin; i < end; ++i)
                             to.others_than_zero[i] = counts[(i - begin) * walk_.position_step()];
                         }
                         const uint8_t* input = taken.bytes + position * position_bytes_;
                         std::byte* result = first_result + at * element;
                         for (int64_t i = begin; i < end; ++i, input += input_step, result += result_step) {
                           to.inputs[i] = input;
                           to.results[i] = result;
                         }
                       });
  }

  void run_task(RunState& state, const Inputs& taken, int64_t first_window, int64_t last_window,
                int64_t first_group, int64_t last_group) const {
    if (last_group <= first_group) return;
    const PackedSums& packed = *layer_.packed;
    const Place& in = state.places[layer_.input];
    const int64_t element = state.places[layer_.output].element_bytes();
    const int64_t count = last_window - first_window;
    Windows of_task;
    note_windows(state, taken, first_window, count, of_task);
    const int64_t first_output = packed.groups[static_cast<size_t>(first_group)].first_output;
    const PackedGroup& last = packed.groups[static_cast<size_t>(last_group - 1)];
    const Part part{first_window, count, first_output, last.first_output + last.outputs - first_output};
    Collected collected(state.places[layer_.output].is_slice() && !layer_.follow_ups.empty(), part);
    for (int64_t g = first_group; g < last_group; ++g) {
      const PackedGroup& group = packed.groups[static_cast<size_t>(g)];
      const Finish of = finish_at(*taken.numbers, group.sums);
      const std::span<const int8_t> next = weights_after(g);
      const WindowSums sums{.windows = of_task.inputs,
                            .results = collected.results(of_task),
                            .result_offset = group.first_output * element,
                            .count = count,
                            .runs = offsets_.data() + group.runs,
                            .run_count = packed.run_count,
                            .run_steps = packed.run_steps,
                            .weights = packed.weights.data() + group.weights,
                            .blocks = group.blocks,
                            .outputs = group.outputs,
                            .start = of.start,
                            .finish = of.finish,
                            .packing = packed.packing,
                            .others_than_zero = of_task.others_than_zero,
                            .column_bytes = column_bytes(in, group),
                            .next = next.data(),
                            .next_bytes = std::ssize(next)};
      if (packed.wide_input) {
        add_wide_group(sums, static_cast<size_t>(g), plane_bytes(in));
      } else {
        add_parts(sums, static_cast<size_t>(g));
      }
    }
    if (!layer_.follow_ups.empty()) follow_windows(state, part, collected.bytes());
    collected.put_back(of_task);
  }

  /// Some windows, and the channels of their results.
  struct Part {
    int64_t first;
    int64_t count;
    int64_t channel;
    int64_t channels;
  };

  /// Results of a slice side by side, so that what follows computes many of them at once.
  class Collected {
   public:
    Collected(bool collects, const Part& part) : part_(part) {
      thread_local std::vector<uint8_t> buffer;
      if (!collects) return;
      buffer.resize(static_cast<size_t>(part.count * part.channels));
      bytes_ = buffer.data();
      for (int64_t i = 0; i < part.count; ++i)
        results_[i] = reinterpret_cast<std::byte*>(bytes_) + i * part.channels - part.channel;
    }
    uint8_t* bytes() const { return bytes_; }
    std::byte* const* results(const Windows& windows) const {
      return bytes_ == nullptr ? windows.results : results_;
    }
    void put_back(const Windows& windows) const {
      for (int64_t i = 0; bytes_ != nullptr && i < part_.count; ++i)
        std::memcpy(windows.results[i] + part_.channel, bytes_ + i * part_.channels,
                    static_cast<size_t>(part_.channels));
    }

   private:
    Part part_;
    uint8_t* bytes_ = nullptr;  // of all windows; none: nothing is collected
    std::byte* results_[kMostWindows];
  };

  /// Between neighbouring windows, where a kernel makes use of their sharing positions.
  int64_t column_bytes(const Place& in, const PackedGroup& group) const {
    const PackedSums& packed = *layer_.packed;
    const WindowShape& w = window();
    const bool shares = group.blocks == 1 && packed.packing == WeightPacking::kBytes && !packed.wide_input &&
                        packed.run_count == w.depth * w.height && w.width == 3 && w.stride_x == 1 &&
                        packed.run_steps * kStepInputs == w.width * in.channels();
    return shares ? in.channels() : 0;
  }

  /// Some runs at a time, where the weights of all would not stay near while the windows take their turns.
  void add_group(WindowSums sums) const {
    const PackedSums& packed = *layer_.packed;
    constexpr int64_t kNear = 128 << 10;
    const int64_t run_bytes = packed.run_steps * sums.blocks * kBlockBytes;
    const int64_t most = std::max<int64_t>(kNear / run_bytes, 1);
    const bool repeats = sums.count > packed.kernels->most_windows[sums.blocks];
    if (counts_bits(packed.packing)) return packed.kernels->add_bit_planes(sums);
    const bool is_part = sums.sums_after != nullptr;
    if (packed.packing != WeightPacking::kBytes || packed.run_count <= most || !repeats || is_part) {
      packed.kernels->add_windows(sums);
      return;
    }
    std::vector<int32_t> partial(static_cast<size_t>(sums.count * sums.blocks * kBlockOutputs));
    for (int64_t left = packed.run_count; left > 0;) {
      sums.run_count = std::min(most, left);
      left -= sums.run_count;
      sums.sums_after = left > 0 ? partial.data() : nullptr;
      packed.kernels->add_windows(sums);
      sums.sums_before = partial.data();
      sums.runs += sums.run_count;
      sums.weights += sums.run_count * run_bytes;
      const int64_t fetched = std::min(sums.next_bytes, sums.run_count * run_bytes);
      sums.next += fetched;
      sums.next_bytes -= fetched;
    }
  }

  /// The weights of a group, and what they have beyond a byte.
  void add_parts(WindowSums sums, size_t group) const {
    const PackedSums& packed = *layer_.packed;
    std::vector<const int8_t*> rest;
    for (const PackedSums& part : packed.rest)
      if (!part.groups[group].is_empty) rest.push_back(part.weights.data() + part.groups[group].weights);
    if (rest.empty()) return add_group(sums);
    std::vector<int32_t> partial(static_cast<size_t>(sums.count * sums.blocks * kBlockOutputs));
    int32_t* const after = std::exchange(sums.sums_after, partial.data());
    packed.kernels->add_windows(sums);
    sums.sums_before = partial.data();
    for (const int8_t* const weights : rest) {
      sums.weights = weights;
      if (weights == rest.back()) sums.sums_after = after;
      packed.kernels->add_windows(sums);
    }
  }

  /// sum = start + sum_i low_i w_i + 256 sum_i high_i w_i, modulo 2^32. The upper bytes lie `plane` after
  /// the lower ones.
  void add_wide_group(const WindowSums& sums, size_t group, int64_t plane) const {
    const int64_t outputs = sums.blocks * kBlockOutputs;
    thread_local std::vector<int32_t> upper_sums;
    upper_sums.resize(static_cast<size_t>(sums.count * outputs));
    const uint8_t* upper[kMostWindows];
    std::transform(sums.windows, sums.windows + sums.count, upper,
                   [&](const uint8_t* window) { return window + plane; });
    WindowSums part = sums;
    part.windows = upper;
    part.sums_after = upper_sums.data();
    add_parts(part, group);
    // 256 (sum - start) + start
    int32_t* sum = upper_sums.data();
    for (int64_t window = 0; window < sums.count; ++window, sum += outputs) {
      for (int64_t o = 0; o < outputs; ++o)
        sum[o] = static_cast<int32_t>(256U * static_cast<uint32_t>(sum[o]) -
                                      255U * static_cast<uint32_t>(sums.start[o]));
    }
    part = sums;
    part.sums_before = upper_sums.data();
    add_parts(part, group);
  }

  /// Windows that follow each other in memory at once, where all of their channels are computed. `collected`
  /// has their results, if it is not nullptr.
  void follow_windows(RunState& state, const Part& part, uint8_t* collected) const {
    const Place& out = state.places[layer_.output];
    const auto adds = [](const FollowUp& step) { return step.table.empty(); };
    if (collected != nullptr && std::ranges::none_of(layer_.follow_ups, adds)) {
      follow(*layer_.packed->kernels, layer_.follow_ups, state, collected, {}, part.count * part.channels);
      return;
    }
    const int64_t plane = out.height() * out.width();
    bool is_whole = part.channels == out.channels();
    for (const FollowUp& step : layer_.follow_ups)
      is_whole = is_whole && !(adds(step) && state.places[step.other].is_slice());
    for (int64_t i = 0; i < part.count;) {
      const int64_t n = (part.first + i) / plane;
      const int64_t y = (part.first + i) % plane / out.width();
      const int64_t x = (part.first + i) % out.width();
      const int64_t adjacent = is_whole ? std::min(part.count - i, out.width() - x) : 1;
      uint8_t* const results = collected != nullptr
                                   ? collected + i * part.channels
                                   : state.bytes(layer_.output) + out.at(n, y, x) + part.channel;
      follow_row(state, n, y, x, part.channel, adjacent * part.channels, results);
      i += adjacent;
    }
  }

  void follow_row(RunState& state, int64_t n, int64_t y, int64_t x, int64_t channel, int64_t count,
                  uint8_t* results) const {
    const uint8_t* others[kMostFollowUps];
    size_t other_count = 0;
    for (const FollowUp& step : layer_.follow_ups) {
      if (!step.table.empty()) continue;
      const Place& other = state.places[step.other];
      others[other_count++] = state.bytes(step.other) + other.at(n, y, x) + channel;
    }
    follow(*layer_.packed->kernels, layer_.follow_ups, state, results, {others, other_count}, count);
  }

  void run_depthwise(RunState& state, const Inputs& inputs) const {
    const Place& out = state.places[layer_.output];
    constexpr int64_t kTaskBytes = 16 << 10;
    const int64_t most = layer_.packed->kernels->most_rows;
    const int64_t parts = divided(walk_.rows(), most);  // of a plane
    const int64_t row_bytes = walk_.columns() * out.channels();
    const int64_t at_once = std::max<int64_t>(kTaskBytes / std::max<int64_t>(row_bytes * most, 1), 1);
    const int64_t all = out.images() / out.depth() * walk_.planes() * parts;
    ThreadPool::shared().run((all + at_once - 1) / at_once, state.threads, [&](int64_t task) {
      const int64_t end = std::min(all, (task + 1) * at_once);
      for (int64_t part = task * at_once; part < end; ++part) {
        const int64_t y = part % parts * most;
        depthwise_rows(state, inputs, part / parts, y, std::min(most, walk_.rows() - y));
      }
    });
  }

  const WindowShape& window() const { return layer_.window ? *layer_.window : layer_.packed->window; }

  /// Which rows of a window a row of inputs is, counted from the first of some rows of results.
  void note_rows() {
    const WindowShape& w = window();
    for (int64_t rows = 1; rows <= kMostDepthwiseRows; ++rows)
      input_rows_.push_back((rows - 1) * w.stride_y + (w.height - 1) * w.dilation_y + 1);
    const int64_t quads = std::ssize(offsets_) / 4;
    for (int64_t row = 0; row < input_rows_.back(); ++row) {
      for (int64_t result = 0; result < kMostDepthwiseRows; ++result) {
        const int64_t down = row - result * w.stride_y;
        const bool is_taken = down >= 0 && down % w.dilation_y == 0 && down / w.dilation_y < w.height;
        row_quads_.push_back(is_taken ? down / w.dilation_y * quads : -1);
      }
    }
  }

  /// Begin and end of sums.
  struct Finish {
    const int32_t* start;
    SumFinish finish;
  };
  Finish finish_at(const CodeNumbers& numbers, size_t sum) const {
    if (layer_.codes) {
      SumFinish finish = layer_.packed->finish;
      finish.multiplier = numbers.multiplier.data() + sum;
      return {numbers.start.data() + sum, finish};
    }
    SumFinish finish = layer_.packed->finish_at(sum);
    finish.least = layer_.finish.least;
    finish.most = layer_.finish.most;
    return {layer_.packed->start.data() + sum, finish};
  }

  /// Rows `y` to `y + rows` of the results of `plane`, counted over all samples.
  void depthwise_rows(RunState& state, const Inputs& inputs, int64_t plane, int64_t y, int64_t rows) const {
    const PackedSums& packed = *layer_.packed;
    const Place& in = state.places[layer_.input];
    const Place& out = state.places[layer_.output];
    const WindowShape& w = window();
    const ResultGrid& grid = layer_.grid;
    const Finish of = finish_at(*inputs.numbers, 0);
    DepthwiseSums sums{.input = nullptr,
                       .input_row = in.row(),
                       .taps = offsets_.data(),
                       .quads = std::ssize(offsets_) / 4,
                       .height = w.height,
                       .planes = w.depth,
                       .plane_bytes = w.dilation_z * in.image(),
                       .upper = packed.wide_input ? plane_bytes(in) : 0,
                       .row_quads = row_quads_.data(),
                       .input_rows = input_rows_.data(),
                       .stride = w.stride_y,
                       .dilation = w.dilation_y,
                       .weights = packed.weights.data(),
                       .start = of.start,
                       .chunks = packed.chunks,
                       .finish = of.finish,
                       .result = nullptr,
                       .result_row = grid.step_y * out.row(),
                       .result_bytes = out.element_bytes(),
                       .rows = rows,
                       .bytes = packed.whole_rows ? out.width() * out.channels() : out.channels(),
                       .windows = packed.whole_rows ? 1 : walk_.columns(),
                       .window_step = w.stride_x * in.channels(),
                       .result_step = grid.step_x * out.channels()};
    const int64_t n = plane / walk_.planes();
    const int64_t z = plane % walk_.planes();
    sums.input =
        inputs.bytes + in.at(n, z * w.stride_z - w.padding_z, y * w.stride_y - w.padding_y, -w.padding_x);
    sums.result = state.bytes(layer_.output) + out.element_bytes() * out.at(n, grid.first_z + z * grid.step_z,
                                                                            grid.first_y + y * grid.step_y,
                                                                            grid.first_x);
    packed.kernels->add_depthwise(sums);
    if (layer_.follow_ups.empty()) return;
    for (int64_t row = y; row < y + rows; ++row)
      follow_row(state, plane, row, 0, 0, out.width() * out.channels(),
                 state.bytes(layer_.output) + out.at(plane, row, 0));
  }

  /// Groups of this layer after `group`, or what comes after the layer.
  std::span<const int8_t> weights_after(int64_t group) const {
    if (group + 1 >= std::ssize(layer_.packed->groups)) return next_;
    return weights().subspan(layer_.packed->groups[static_cast<size_t>(group + 1)].weights);
  }

  SumsLayer layer_;
  std::vector<int64_t> offsets_;  // of the runs or taps
  std::vector<int64_t> row_quads_, input_rows_;
  int64_t position_bytes_ = 0;  // of a position as kernels read it
  WindowWalk walk_;
  bool shares_columns_ = false;  // among windows of a row
  std::span<const int8_t> next_;
};

}  // namespace

void fill_halo(const Place& place, uint8_t* bytes) {
  if (place.halo.empty()) return;
  const int64_t element = place.element_bytes();
  const Halo& halo = place.halo;
  const int64_t pitch = place.pitch();
  const auto fill = [&](uint8_t* from, int64_t elements) {
    const int64_t run = place.is_slice() ? place.channels() : elements;
    for (int64_t i = 0; i < elements; i += place.is_slice() ? pitch : run)
      std::memset(from + i * element, place.zero_byte(), static_cast<size_t>(run * element));
  };
  const int64_t front = halo.front * place.image();
  const int64_t left = halo.left * pitch;
  const int64_t right = halo.right * pitch;
  for (int64_t n = 0; n < place.images(); ++n) {
    uint8_t* const image = bytes + element * place.at(n, -halo.top, -halo.left);
    if (n % place.depth() == 0) fill(image - element * front, front);
    if ((n + 1) % place.depth() == 0) fill(image + element * place.image(), halo.back * place.image());
    fill(image, halo.top * place.row() + left);
    for (int64_t y = 0; y < place.height(); ++y) {
      // The end of this row and the beginning of the next.
      const bool is_last = y + 1 == place.height();
      fill(image + element * ((halo.top + y + 1) * place.row() - right), right + (is_last ? 0 : left));
    }
    fill(image + element * (halo.top + place.height()) * place.row(), halo.bottom * place.row());
  }
}

std::unique_ptr<EngineStep> sums_step(SumsLayer layer) {
  return std::make_unique<SumsStep>(std::move(layer));
}

}  // namespace detent
