#include <algorithm>
#include <vector>

#include "detent/engine/steps/few_outputs.h"
#include "detent/engine/steps/place_rows.h"

namespace detent {
namespace {

class FloatSumsStep final : public EngineStep {
 public:
  explicit FloatSumsStep(FloatSumsLayer layer) : layer_(std::move(layer)) { multiplies_floats = true; }

  void prepare(std::span<const Place> places) override {
    const Place& in = places[layer_.input];
    const Place& out = places[layer_.output];
    const WindowShape& w = layer_.window;
    pitch_ = in.pitch();
    const int64_t apart = in.pitch() * (w.positions() == 1 ? w.stride_x : 1);
    spreads_ = !layer_.packed->depthwise && apart % kSharedSets == 0 && w.positions() * apart > kMostShared;
    gathers_ = spreads_ && w.positions() == 1;
    if (spreads_) pitch_ = in.channels() + kSumOutputs;
    const WindowShape& all = layer_.packed->window;
    const FirstTap& first = layer_.first_tap;
    for (int64_t z = 0; z < w.depth; ++z) {
      for (int64_t y = 0; y < w.height; ++y) {
        for (int64_t x = 0; x < w.width; ++x) {
          const int64_t tap =
              z * w.dilation_z * in.image() + y * w.dilation_y * in.row() + x * w.dilation_x * in.pitch();
          taps_.push_back({tap / in.pitch() * pitch_,
                           ((first.z + z) * all.height + first.y + y) * all.width + first.x + x});
        }
      }
    }
    for (const SumTap& tap : taps_) depthwise_taps_.push_back(tap.at);
    planes_ = layer_.grid.planes(out);
    rows_ = layer_.grid.rows(out);
    columns_ = layer_.grid.columns(out);
    windows_ = out.images() / out.depth() * planes_ * rows_ * columns_;
    layer_.follow_ups.end = layer_.follow_ups.mapped_end();
    if (!layer_.packed->bias.empty()) layer_.follow_ups.end.bias = layer_.packed->bias.data();
    few_outputs_ = FewOutputs::of(layer_, taps_, places);
  }

  std::span<const int8_t> weights() const override {
    const auto& weights = layer_.packed->weights;
    return {reinterpret_cast<const int8_t*>(weights.data()), weights.byte_size()};
  }

  void run(RunState& state) const override {
    const Place& out = state.places[layer_.output];
    if (layer_.fills_halo) fill_halo(out, state.bytes(layer_.output));
    if (few_outputs_) return few_outputs_->run(state, layer_);
    layer_.packed->depthwise ? run_depthwise(state) : run_windows(state);
  }

  /// Additions read whole vectors.
  bool takes_slice(size_t index, const Place& place) const override {
    const bool is_added = layer_.follow_ups.other == index;
    return !layer_.packed->depthwise && !(is_added && place.channels() % kSumOutputs != 0);
  }

 private:
  static constexpr int64_t kTileWindows = 14;
  static constexpr int64_t kMostWindows = 8 * kTileWindows;  // of a task
  static constexpr int64_t kMostBlockOutputs = 2 * kSumOutputs;
  /// Positions a multiple of so many values apart take each other's place in a first-level cache of 64 sets.
  /// Values of a tile do not fit where each window has more values than kMostShared: 3 x 3 positions of 256
  /// channels, or one of 1,024, or of 512 of which every second is read.
  static constexpr int64_t kSharedSets = 256;
  static constexpr int64_t kMostShared = 1023;

  static int64_t divided(int64_t count, int64_t by) { return (count + by - 1) / by; }

  /// Tasks: parts of the windows times parts of the blocks, each about as many tiles and blocks.
  struct Cut {
    int64_t window_parts;
    int64_t block_parts;

    int64_t tasks() const { return window_parts * block_parts; }
  };

  Cut cut(int threads) const {
    const int64_t wanted = threads > 1 ? 4 * int64_t{threads} : 1;
    const auto blocks = std::ssize(layer_.packed->blocks);
    const int64_t tiles = divided(windows_, kTileWindows);
    Cut cut{divided(windows_, kMostWindows), 1};
    while (cut.tasks() < wanted && cut.block_parts < blocks)
      cut.block_parts = std::min(2 * cut.block_parts, blocks);
    while (cut.tasks() < wanted && cut.window_parts < tiles)
      cut.window_parts = std::min(2 * cut.window_parts, tiles);
    return cut;
  }

  /// The input, its positions `pitch_` apart.
  std::unique_ptr<float[]> spread_input(RunState& state) const {
    const Place& in = state.places[layer_.input];
    const int64_t positions = in.elements() / in.pitch();
    const float* const from = state.values(layer_.input);
    auto spread = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(positions * pitch_));
    constexpr int64_t kAtOnce = 16;
    ThreadPool::shared().run(divided(positions, kAtOnce), state.threads, [&](int64_t task) {
      const int64_t end = std::min(positions, (task + 1) * kAtOnce);
      for (int64_t i = task * kAtOnce; i < end; ++i)
        std::copy_n(from + i * in.pitch(), in.channels(), spread.get() + i * pitch_);
    });
    return spread;
  }

  /// The positions of windows of one, one after the other.
  std::unique_ptr<float[]> gathered_input(RunState& state) const {
    const Place& in = state.places[layer_.input];
    auto gathered = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(windows_ * pitch_));
    ThreadPool::shared().run(divided(windows_, kTileWindows), state.threads, [&](int64_t task) {
      const int64_t first = task * kTileWindows;
      const int64_t count = std::min(kTileWindows, windows_ - first);
      Windows windows;
      note_windows(state, state.values(layer_.input), in.pitch(), first, count, windows);
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(windows.inputs[i], in.channels(), gathered.get() + (first + i) * pitch_);
    });
    return gathered;
  }

  void run_windows(RunState& state) const {
    const Cut parts = cut(state.threads);
    const std::unique_ptr<float[]> copy = !spreads_  ? nullptr
                                          : gathers_ ? gathered_input(state)
                                                     : spread_input(state);
    const float* const input = spreads_ ? copy.get() : state.values(layer_.input);
    const int64_t tiles = divided(windows_, kTileWindows);
    const std::span<const PackedFloatBlock> blocks = layer_.packed->blocks;
    ThreadPool::shared().run(parts.tasks(), state.threads, [&](int64_t task) {
      const auto window = [&](int64_t part) {
        return std::min(tiles * part / parts.window_parts * kTileWindows, windows_);
      };
      const auto block = [&](int64_t part) {
        return static_cast<size_t>(std::ssize(blocks) * part / parts.block_parts);
      };
      const int64_t first = task % parts.window_parts;
      const int64_t of_blocks = task / parts.window_parts;
      run_task(state, input, window(first), window(first + 1) - window(first),
               blocks.subspan(block(of_blocks), block(of_blocks + 1) - block(of_blocks)));
    });
  }

  /// Where windows begin, and where their results go.
  struct Windows {
    const float* inputs[kMostWindows];
    float* results[kMostWindows];
    const float* others[kMostWindows];  // of the addition that follows, if there is one
  };

  /// Positions of the input `from` are `pitch` apart.
  void note_windows(RunState& state, const float* from, int64_t pitch, int64_t first, int64_t count,
                    Windows& to) const {
    const Place& in = state.places[layer_.input];
    const Place& out = state.places[layer_.output];
    const WindowShape& w = layer_.window;
    float* const results = state.values(layer_.output);
    const size_t other_place = layer_.follow_ups.other.value_or(layer_.output);
    const Place& other = state.places[other_place];
    const float* const others = state.values(other_place);
    const ResultGrid& grid = layer_.grid;
    const int64_t apart = grid.step_x * out.pitch();
    const int64_t others_apart = grid.step_x * other.pitch();
    int64_t x = first % columns_;
    int64_t y = first / columns_ % rows_;
    int64_t plane = first / columns_ / rows_;
    for (int64_t i = 0; i < count;) {
      const int64_t end = std::min(count, i + columns_ - x);
      const int64_t n = plane / planes_;
      const int64_t z = plane % planes_;
      const auto result_at = [&](const Place& place) {
        return place.at(n, grid.first_z + z * grid.step_z, grid.first_y + y * grid.step_y,
                        grid.first_x + x * grid.step_x);
      };
      const int64_t at =
          in.at(n, z * w.stride_z - w.padding_z, y * w.stride_y - w.padding_y, x * w.stride_x - w.padding_x);
      const float* input = from + at / in.pitch() * pitch;
      float* result = results + result_at(out);
      const float* addend = others + result_at(other);
      for (; i < end; ++i, input += w.stride_x * pitch, result += apart, addend += others_apart) {
        to.inputs[i] = input;
        to.results[i] = result;
        to.others[i] = addend;
      }
      x = 0;
      if (++y < rows_) continue;
      y = 0;
      ++plane;
    }
  }

  void run_task(RunState& state, const float* input, int64_t first, int64_t count,
                std::span<const PackedFloatBlock> blocks) const {
    const PackedFloatSums& packed = *layer_.packed;
    Windows windows;
    note_windows(state, input, pitch_, first, count, windows);
    for (int64_t i = 0; gathers_ && i < count; ++i) windows.inputs[i] = input + (first + i) * pitch_;
    const bool collects = state.places[layer_.output].is_slice() && layer_.follow_ups.function;
    float* in_slice[kMostWindows];
    if (collects) {
      std::copy_n(windows.results, count, in_slice);
      collect_results(windows, count, blocks);
    }
    for (const PackedFloatBlock& block : blocks) {
      const PackedFloatBlock* const next = &block == &blocks.back() ? nullptr : &block + 1;
      add_block({.windows = windows.inputs,
                 .results = windows.results,
                 .count = count,
                 .taps = taps_,
                 .channels = packed.channels,
                 .first_channel = block.first_channel,
                 .weights = packed.weights.data() + block.weights,
                 .packed_taps = packed.window.positions(),
                 .blocks = block.blocks,
                 .outputs = block.outputs,
                 .first_output = block.first_output,
                 .start = packed.start.data() + block.start,
                 .end = layer_.follow_ups.end.from(block.first_output),
                 .others = layer_.follow_ups.other && !layer_.follow_ups.function ? windows.others : nullptr,
                 .last = layer_.follow_ups.last,
                 .next = next == nullptr ? nullptr : packed.weights.data() + next->weights});
    }
    if (layer_.follow_ups.function) add_function(windows, count, blocks);
    if (!collects) return;
    const int64_t channel = blocks.front().first_output;
    for (int64_t i = 0; i < count; ++i)
      std::copy_n(windows.results[i] + channel, outputs_of(blocks), in_slice[i] + channel);
  }

  static int64_t outputs_of(std::span<const PackedFloatBlock> blocks) {
    return blocks.back().first_output + blocks.back().outputs - blocks.front().first_output;
  }

  /// Lets results be side by side, so that a function takes many of them at once.
  static void collect_results(Windows& windows, int64_t count, std::span<const PackedFloatBlock> blocks) {
    thread_local std::vector<float> buffer;
    const int64_t outputs = outputs_of(blocks);
    buffer.resize(static_cast<size_t>(count * outputs));
    for (int64_t i = 0; i < count; ++i)
      windows.results[i] = buffer.data() + i * outputs - blocks.front().first_output;
  }

  /// On the results of some windows and blocks, while they are near.
  void add_function(const Windows& windows, int64_t count, std::span<const PackedFloatBlock> blocks) const {
    const FloatFollowUps& follow_ups = layer_.follow_ups;
    const int64_t first = blocks.front().first_output;
    const int64_t outputs = outputs_of(blocks);
    for (int64_t i = 0, end = 0; i < count; i = end) {
      for (end = i + 1; end < count && windows.results[end] == windows.results[end - 1] + outputs;) ++end;
      const int64_t elements = (end - i) * outputs;
      float* const results = windows.results[i] + first;
      follow_ups.function->function.apply({results, static_cast<size_t>(elements)},
                                          {results, static_cast<size_t>(elements)});
      if (!follow_ups.other) continue;
      for (int64_t window = i; window < end; ++window) {
        float* const result = windows.results[window] + first;
        add_values(follow_ups.last, result, windows.others[window] + first, outputs, result);
      }
    }
  }

  /// Some channels at a time, where the weights of all would not stay near while the windows take their
  /// turns.
  void add_block(ChannelsLastSums sums) const {
    constexpr int64_t kNear = 24 << 10;  // weights
    const int64_t channel_weights = sums.packed_taps * sums.blocks * kSumOutputs;
    const int64_t parts = divided(sums.channels * channel_weights, kNear);
    if (parts == 1 || sums.count <= kTileWindows) return add_channels_last(sums);
    const int64_t most = divided(sums.channels, parts);
    const float* const next_block = sums.next;
    alignas(64) float partial[kMostWindows * kMostBlockOutputs];
    for (int64_t left = sums.channels; left > 0;) {
      sums.channels = std::min(most, left);
      left -= sums.channels;
      sums.sums_after = left > 0 ? partial : nullptr;
      const float* const after = sums.weights + sums.channels * channel_weights;
      sums.next = left > 0 ? after : next_block;
      add_channels_last(sums);
      sums.sums_before = partial;
      sums.weights = after;
      sums.first_channel += sums.channels;
    }
  }

  void run_depthwise(RunState& state) const {
    const PackedFloatSums& packed = *layer_.packed;
    const Place& in = state.places[layer_.input];
    const Place& out = state.places[layer_.output];
    const WindowShape& w = layer_.window;
    ThreadPool::shared().run(out.images() * out.height(), state.threads, [&](int64_t row) {
      const int64_t y = row % out.height();
      const int64_t plane = row / out.height();
      const int64_t n = plane / out.depth();
      const int64_t z = plane % out.depth();
      const int64_t first =
          in.at(n, z * w.stride_z - w.padding_z, y * w.stride_y - w.padding_y, -w.padding_x);
      float* const result = state.values(layer_.output) + out.at(n, z, y, 0);
      add_channels_last_depthwise({.input = state.values(layer_.input) + first,
                                   .window_step = w.stride_x * in.channels(),
                                   .windows = out.width(),
                                   .taps = depthwise_taps_,
                                   .weights = packed.weights.data(),
                                   .channels = packed.outputs,
                                   .start = packed.start.data(),
                                   .end = layer_.follow_ups.end,
                                   .result = result});
      const FloatFollowUps& follow_ups = layer_.follow_ups;
      const int64_t count = out.width() * out.channels();
      if (follow_ups.function)
        follow_ups.function->function.apply({result, static_cast<size_t>(count)},
                                            {result, static_cast<size_t>(count)});
      if (!follow_ups.other) return;
      const Place& other = state.places[*follow_ups.other];
      add_values(follow_ups.last, result, state.values(*follow_ups.other) + other.at(n, z, y, 0), count,
                 result);
    });
  }

  FloatSumsLayer layer_;
  std::optional<FewOutputs> few_outputs_;
  std::vector<SumTap> taps_;
  std::vector<int64_t> depthwise_taps_;
  bool spreads_ = false;
  bool gathers_ = false;
  int64_t pitch_ = 0;  // from one position of the input to the next
  // Windows of a sample, and of all samples.
  int64_t planes_ = 1;
  int64_t rows_ = 1;
  int64_t columns_ = 1;
  int64_t windows_ = 0;
};

/// An epilogue of sums, applied to values that are there.
class FloatElementsStep final : public EngineStep {
 public:
  FloatElementsStep(FloatFollowUps follow_ups, size_t from, size_t to)
      : follow_ups_(std::move(follow_ups)), from_(from), to_(to) {
    follow_ups_.end = follow_ups_.mapped_end();
  }

  void run(RunState& state) const override {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    ThreadPool::shared().run(out.images() * out.height(), state.threads, [&](int64_t row) {
      const int64_t n = row / out.height();
      const int64_t y = row % out.height();
      const float* const from = state.values(from_);
      float* const to = state.values(to_);
      for_each_run(in, out, n, y, [&](int64_t first, int64_t result, int64_t count) {
        end_sums(follow_ups_.end, from + first, out.channels(), count / out.channels(), to + result);
      });
      if (!follow_ups_.other) return;
      const float* const others = state.values(*follow_ups_.other);
      for_each_run(state.places[*follow_ups_.other], out, n, y,
                   [&](int64_t first, int64_t result, int64_t count) {
                     add_values(follow_ups_.last, to + result, others + first, count, to + result);
                   });
    });
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }

  std::optional<size_t> row_results() const override { return to_; }
  bool maps_rows_of(size_t place, std::span<const Place> /*places*/) const override {
    return place == from_ && !follow_ups_.other;
  }
  bool compute_rows(RunState& state, const MatrixRows& rows) const override {
    end_sums(follow_ups_.end, reinterpret_cast<const float*>(rows.from), state.places[to_].shape.back(),
             rows.count, reinterpret_cast<float*>(rows.to));
    return false;
  }
  std::optional<size_t> element_source() const override {
    const SumsEnd& end = follow_ups_.end;
    const bool is_alike = end.bias == nullptr && end.scale == nullptr && end.shift == nullptr;
    return is_alike && !follow_ups_.other ? std::optional(from_) : std::nullopt;
  }
  bool compute_elements(const void* from, void* to, int64_t count) const override {
    end_sums(follow_ups_.end, static_cast<const float*>(from), count, 1, static_cast<float*>(to));
    return false;
  }

 private:
  FloatFollowUps follow_ups_;
  size_t from_;
  size_t to_;
};

}  // namespace

SumsEnd FloatFollowUps::mapped_end() const {
  SumsEnd mapped = end;
  if (map != nullptr) {
    mapped.scale = map->scale.data();
    mapped.shift = map->shift.data();
  }
  return mapped;
}

std::unique_ptr<EngineStep> float_sums_step(FloatSumsLayer layer) {
  return std::make_unique<FloatSumsStep>(std::move(layer));
}

std::unique_ptr<EngineStep> float_elements_step(FloatFollowUps follow_ups, size_t from, size_t to) {
  return std::make_unique<FloatElementsStep>(std::move(follow_ups), from, to);
}

}  // namespace detent
