#include "detent/engine/packed_blocks.h"
#include "detent/engine/steps/window_walk.h"

namespace detent {
namespace {

class BlockSumsStep final : public EngineStep {
 public:
  BlockSumsStep(std::shared_ptr<const PackedBlocks> packed, const SumFinish& finish, size_t input,
                size_t output)
      : packed_(std::move(packed)), finish_(finish), input_(input), output_(output) {}

  void prepare(std::span<const Place> places) override {
    const PackedBlocks& p = *packed_;
    const Place& in = places[input_];
    const WindowShape& w = p.window;
    walk_ = WindowWalk(w, {}, places[output_]);
    for (int64_t z = 0; z < w.depth; ++z) {
      for (int64_t y = 0; y < w.height; ++y) {
        for (int64_t x = 0; x < w.width; ++x) {
          const int64_t elements = z * w.dilation_z * in.image() + y * w.dilation_y * in.row();
          taps_.push_back((elements / in.channels() + x * w.dilation_x) * position_blocks());
        }
      }
    }
  }

  std::span<const int8_t> weights() const override {
    return {reinterpret_cast<const int8_t*>(packed_->weights.data()), packed_->weights.byte_size()};
  }

  void run(RunState& state) const override {
    const Place& out = state.places[output_];
    if (!packed_->is_linear) fill_halo(out, state.bytes(output_));
    const Inputs inputs = taken_inputs(state);
    const int64_t window_tasks = (walk_.count() + kMostWindows - 1) / kMostWindows;
    const int64_t parts = (packed_->groups() + kGroupsOfTask - 1) / kGroupsOfTask;
    const int64_t of_windows = parts * packed_->convolution_groups;
    ThreadPool::shared().run(window_tasks * of_windows, state.threads, [&](int64_t task) {
      const int64_t part = task / window_tasks;
      run_task(state, inputs, task % window_tasks * kMostWindows, part / parts, part % parts * kGroupsOfTask);
    });
  }

 private:
  static constexpr int64_t kMostWindows = 64;  // of a task
  static constexpr int64_t kGroupsOfTask = 8;

  /// As kernels read them: [position][convolution group][block][steps][4], each of one or two bytes; what
  /// fills blocks up is 0.
  struct Inputs {
    std::unique_ptr<int8_t[]> codes;
    std::unique_ptr<int32_t[]> sums;  // of blocks, times what weights are less here
  };

  int64_t position_blocks() const { return packed_->convolution_groups * packed_->blocks; }
  int64_t block_bytes() const { return packed_->steps * kStepInputs * (packed_->wide ? 2 : 1); }

  /// Inputs at all positions, the border among them.
  Inputs taken_inputs(RunState& state) const {
    constexpr int64_t kBytesOfTask = 16 << 10;
    const Place& in = state.places[input_];
    const int64_t positions = in.elements() / in.channels();
    const int64_t position_bytes = position_blocks() * block_bytes();
    Inputs taken;
    taken.codes = std::make_unique_for_overwrite<int8_t[]>(static_cast<size_t>(positions * position_bytes));
    taken.sums =
        std::make_unique_for_overwrite<int32_t[]>(static_cast<size_t>(positions * position_blocks()));
    const int64_t at_once = std::max<int64_t>(kBytesOfTask / position_bytes, 1);
    const PackedBlocks& p = *packed_;
    ThreadPool::shared().run((positions + at_once - 1) / at_once, state.threads, [&](int64_t task) {
      const int64_t first = task * at_once;
      const int64_t element = first * in.channels();
      p.kernels->take_blocks({.bytes = in.is_values ? nullptr : state.bytes(input_) + element,
                              .values = in.is_values ? state.values(input_) + element : nullptr,
                              .positions = std::min(at_once, positions - first),
                              .groups = p.convolution_groups,
                              .inputs = p.inputs,
                              .block = p.block,
                              .steps = p.steps,
                              .from = static_cast<uint8_t>(p.input.zero_point - p.input.low + p.difference),
                              .scale = p.input.scale,
                              .steps_of = p.difference,
                              .factor = -p.offset,
                              .codes = taken.codes.get() + first * position_bytes,
                              .sums = taken.sums.get() + first * position_blocks()});
    });
    return taken;
  }

  void run_task(RunState& state, const Inputs& inputs, int64_t first_window, int64_t convolution_group,
                int64_t first_group) const {
    const PackedBlocks& p = *packed_;
    const Place& out = state.places[output_];
    const int64_t element = out.element_bytes();
    const int64_t count = std::min(kMostWindows, walk_.count() - first_window);
    int64_t windows[kMostWindows];
    std::byte* results[kMostWindows];
    auto* const first_result = reinterpret_cast<std::byte*>(state.bytes(output_));
    walk_.for_each_row(
        state.places[input_], out, first_window, count,
        [&](int64_t begin, int64_t end, int64_t position, int64_t result) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t along = i - begin;
            windows[i] =
                (position + along * walk_.position_step()) * position_blocks() + convolution_group * p.blocks;
            results[i] = first_result + (result + along * walk_.result_step() * out.channels()) * element;
          }
        });
    const int64_t groups = convolution_group * p.groups();  // before those of this one
    const int64_t lanes = groups * p.window_blocks() * kBlockOutputs;
    const int64_t vectors = p.nibbles ? p.steps / 2 : p.steps;
    p.kernels->add_blocks({.inputs = inputs.codes.get(),
                           .input_sums = inputs.sums.get(),
                           .wide = p.wide,
                           .windows = windows,
                           .count = count,
                           .taps = taps_.data(),
                           .tap_count = std::ssize(taps_),
                           .tap_blocks = p.blocks,
                           .weights = p.weights.data() + groups * p.window_blocks() * vectors * kBlockBytes,
                           .nibbles = p.nibbles,
                           .is_small = std::ranges::max(p.table) <= kMostSmallWeight,
                           .table = p.table.data(),
                           .exponents = p.exponents.empty() ? nullptr : p.exponents.data() + lanes,
                           .scales = p.scales.empty() ? nullptr : p.scales.data() + lanes,
                           .whole_scales = p.whole_scales.empty() ? nullptr : p.whole_scales.data() + lanes,
                           .weight_sums = p.weight_sums.data() + lanes,
                           .difference = p.difference,
                           .steps = p.steps,
                           .first_group = first_group,
                           .last_group = std::min(p.groups(), first_group + kGroupsOfTask),
                           .outputs = p.outputs,
                           .start = p.start.data() + groups * kBlockOutputs,
                           .multiplier = p.multiplier,
                           .finish = finish_,
                           .unit = p.unit,
                           .results = results,
                           .result_offset = convolution_group * p.outputs * element});
  }

  std::shared_ptr<const PackedBlocks> packed_;
  SumFinish finish_;
  size_t input_;
  size_t output_;
  WindowWalk walk_;
  std::vector<int64_t> taps_;  // blocks from the first position of a window to each
};

}  // namespace

std::unique_ptr<EngineStep> block_sums_step(std::shared_ptr<const PackedBlocks> packed,
                                            const SumFinish& finish, size_t input, size_t output) {
  return std::make_unique<BlockSumsStep>(std::move(packed), finish, input, output);
}

}  // namespace detent
