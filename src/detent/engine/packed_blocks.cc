#include "detent/engine/packed_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <span>

namespace detent {
namespace {

/// Where the element of an input lies among the bytes of a group's vectors.
struct Where {
  size_t byte;
  int shift;
};

Where where(const PackedBlocks& packed, int64_t output, int64_t input) {
  const int64_t vectors = packed.nibbles ? packed.steps / 2 : packed.steps;  // of a block
  const int64_t step = input % packed.block / kStepInputs;
  const int64_t vector = (output / kBlockOutputs * packed.blocks + input / packed.block) * vectors +
                         (packed.nibbles ? step / 2 : step);
  const int64_t byte =
      vector * kBlockBytes + output % kBlockOutputs * kStepInputs + input % packed.block % kStepInputs;
  return {static_cast<size_t>(byte), packed.nibbles ? static_cast<int>(step % 2) * 4 : 0};
}

/// The bytes of weights that kernels read, by weight + kMostWeight.
class Codes {
 public:
  /// Weights of at most 16 numbers take four bits each.
  Codes(std::span<const int32_t> weights, PackedBlocks& packed) {
    std::array<bool, kNumbers> occurs{};
    for (const int32_t weight : weights) occurs[index(weight)] = true;
    packed.nibbles = std::ranges::count(occurs, true) <= kNibbleCodes;
    packed.offset = 128;
    if (packed.nibbles)
      packed.offset = kMostWeight - static_cast<int32_t>(std::ranges::find(occurs, true) - occurs.begin());
    uint8_t next = 0;
    for (size_t i = 0; i < kNumbers; ++i) {
      const auto byte = static_cast<uint8_t>(static_cast<int32_t>(i) - kMostWeight + packed.offset);
      codes_[i] = byte;
      if (!packed.nibbles || !occurs[i]) continue;
      packed.table[next] = byte;
      codes_[i] = next++;
    }
  }

  uint8_t of(int32_t weight) const { return codes_[index(weight)]; }

 private:
  static constexpr int32_t kMostWeight = 127;
  static constexpr size_t kNumbers = 2 * kMostWeight + 1;
  static constexpr int64_t kNibbleCodes = 16;
  static size_t index(int32_t weight) {
    const int32_t place = weight + kMostWeight;
    return static_cast<size_t>(place);
  }

  std::array<uint8_t, kNumbers> codes_{};
};

/// Inputs that lie around their zero point are counted from there.
void set_inputs(const CodeType& type, PackedBlocks& packed) {
  constexpr int32_t kMostSigned = 127;
  const int32_t most = type.size() - 1;  // the largest byte
  const int32_t zero = type.zero_point - type.low;
  const int32_t from = std::clamp(zero, std::max(0, most - kMostSigned), kMostSigned + 1);
  packed.signed_from = static_cast<uint8_t>(from);
  packed.difference = from - zero;
}

int64_t largest_block_sum(const BlockSumForm& form) {
  const auto weights = form.weight.values<int32_t>();
  int64_t largest = 0;
  for (int64_t row = 0; row < form.weight.numel(); row += form.inputs()) {
    for (int64_t first = 0; first < form.inputs(); first += form.block) {
      int64_t sum = 0;
      for (int64_t i = first; i < std::min(form.inputs(), first + form.block); ++i)
        sum += weights[static_cast<size_t>(row + i)];
      largest = std::max(largest, std::abs(sum));
    }
  }
  return largest;
}

void pack_output(const BlockSumForm& form, int64_t output, const Codes& codes, PackedBlocks& packed) {
  const auto weights = form.weight.values<int32_t>();
  uint8_t* const to = packed.weights.data();
  const auto put = [&](int64_t input, int32_t weight) {
    const Where at = where(packed, output, input);
    to[at.byte] = static_cast<uint8_t>(to[at.byte] | codes.of(weight) << at.shift);
  };
  for (int64_t b = 0; b < packed.blocks; ++b) {
    const auto lane = static_cast<size_t>((output / kBlockOutputs * packed.blocks + b) * kBlockOutputs +
                                          output % kBlockOutputs);
    const auto bits = std::bit_cast<uint32_t>(form.scale[static_cast<size_t>(output * packed.blocks + b)]);
    if (packed.scales.empty()) {
      packed.exponents[lane] = static_cast<uint8_t>(bits >> 23U);
    } else {
      packed.scales[lane] = static_cast<uint16_t>(bits >> 16U);
    }
    int32_t sum = 0;
    for (int64_t i = b * packed.block; i < std::min(packed.inputs, (b + 1) * packed.block); ++i) {
      const int32_t weight = weights[static_cast<size_t>(output * packed.inputs + i)];
      put(i, weight);
      sum += weight;
    }
    packed.weight_sums[lane] = static_cast<int16_t>(sum);
  }
}

class BlockSumsStep final : public EngineStep {
 public:
  BlockSumsStep(std::shared_ptr<const PackedBlocks> packed, size_t input, size_t output)
      : packed_(std::move(packed)), input_(input), output_(output) {}

  std::span<const int8_t> weights() const override {
    return {reinterpret_cast<const int8_t*>(packed_->weights.data()), packed_->weights.byte_size()};
  }

  void run(RunState& state) const override {
    constexpr int64_t kGroupsOfTask = 8;
    const PackedBlocks& p = *packed_;
    const Place& out = state.places[output_];
    const int64_t rows = state.places[input_].width();
    const Rows taken = taken_rows(state.bytes(input_), rows);
    const int64_t element = out.is_values ? 4 : 1;
    const int64_t groups = p.groups();
    ThreadPool::shared().run((groups + kGroupsOfTask - 1) / kGroupsOfTask, state.threads, [&](int64_t task) {
      p.kernels->add_blocks({.inputs = taken.inputs.data(),
                             .input_sums = taken.sums.data(),
                             .rows = rows,
                             .weights = p.weights.data(),
                             .nibbles = p.nibbles,
                             .table = p.table.data(),
                             .exponents = p.exponents.empty() ? nullptr : p.exponents.data(),
                             .scales = p.scales.empty() ? nullptr : p.scales.data(),
                             .weight_sums = p.weight_sums.data(),
                             .difference = p.difference,
                             .blocks = p.blocks,
                             .steps = p.steps,
                             .first_group = task * kGroupsOfTask,
                             .last_group = std::min(groups, (task + 1) * kGroupsOfTask),
                             .outputs = p.outputs,
                             .start = p.start.data(),
                             .multiplier = p.multiplier,
                             .finish = p.finish,
                             .results = reinterpret_cast<std::byte*>(state.bytes(output_)),
                             .result_row = p.outputs * element});
    });
  }

 private:
  struct Rows {
    std::vector<int8_t> inputs;  // [row][block][steps][4], what fills blocks up is 0
    std::vector<int32_t> sums;   // [row][block], times what weights are less here
  };

  Rows taken_rows(const uint8_t* codes, int64_t rows) const {
    const PackedBlocks& p = *packed_;
    const int64_t filled = p.steps * kStepInputs;
    Rows taken{std::vector<int8_t>(static_cast<size_t>(rows * p.blocks * filled)), {}};
    taken.sums.reserve(static_cast<size_t>(rows * p.blocks));
    int8_t* to = taken.inputs.data();
    for (int64_t row = 0; row < rows; ++row, codes += p.inputs) {
      for (int64_t b = 0; b < p.blocks; ++b, to += filled) {
        const int64_t count = std::min(p.block, p.inputs - b * p.block);
        const uint8_t* const from = codes + b * p.block;
        int32_t sum = 0;
        for (int64_t i = 0; i < count; ++i) {
          to[i] = static_cast<int8_t>(from[i] - p.signed_from);
          sum += to[i];
        }
        taken.sums.push_back(-p.offset * sum);
      }
    }
    return taken;
  }

  std::shared_ptr<const PackedBlocks> packed_;
  size_t input_;
  size_t output_;
};

}  // namespace

Tensor PackedBlocks::unpacked() const {
  Tensor result(DType::kInt32, {outputs, inputs});
  const auto to = result.values<int32_t>();
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = 0; i < inputs; ++i) {
      const Where at = where(*this, o, i);
      const unsigned byte = weights.data()[at.byte];
      const unsigned code = nibbles ? table[byte >> at.shift & 15U] : byte;
      to[static_cast<size_t>(o * inputs + i)] = static_cast<int32_t>(code) - offset;
    }
  }
  return result;
}

int64_t PackedBlocks::byte_size() const {
  return static_cast<int64_t>(weights.byte_size() + exponents.size() + 2 * scales.size()) +
         (difference == 0 ? 0 : std::ssize(weight_sums) * 2);
}

std::string why_not_packed(const BlockSumForm& form) {
  if (!fits_bytes(form.input)) return "inputs of more than 8 bits";
  if (form.output && (!fits_bytes(*form.output) || form.output->is_sign)) return "results of these codes";
  if (largest_block_sum(form) > std::numeric_limits<int16_t>::max()) return "long blocks";
  return "";
}

PackedBlocks packed_blocks(const BlockSumForm& form, const KernelSet& kernels) {
  PackedBlocks packed;
  packed.kernels = &kernels;
  packed.inputs = form.inputs();
  packed.outputs = form.outputs();
  packed.block = form.block;
  packed.blocks = form.blocks();
  const Codes codes(form.weight.values<int32_t>(), packed);
  set_inputs(form.input, packed);
  const int64_t unit = kStepInputs * (packed.nibbles ? 2 : 1);
  packed.steps = (form.block + unit - 1) / unit * unit / kStepInputs;
  const int64_t vectors = packed.groups() * packed.blocks * packed.steps / (packed.nibbles ? 2 : 1);
  const auto lanes = static_cast<size_t>(packed.groups() * packed.blocks * kBlockOutputs);
  packed.weights = AlignedArray<uint8_t>(static_cast<size_t>(vectors * kBlockBytes));
  const auto is_power = [](float scale) { return (std::bit_cast<uint32_t>(scale) << 9U) == 0 && scale != 0; };
  if (std::ranges::all_of(form.scale, is_power)) {
    packed.exponents.resize(lanes);
  } else {
    packed.scales.resize(lanes);
  }
  packed.weight_sums.resize(lanes);
  for (int64_t o = 0; o < packed.outputs; ++o) pack_output(form, o, codes, packed);
  packed.start = form.start;
  packed.start.resize(static_cast<size_t>(packed.groups() * kBlockOutputs));
  packed.multiplier = form.multiplier;
  if (form.output) packed.finish = finish_for(*form.output);
  packed.finish.gives_values = !form.output;
  return packed;
}

std::unique_ptr<EngineStep> block_sums_step(std::shared_ptr<const PackedBlocks> packed, size_t input,
                                            size_t output) {
  return std::make_unique<BlockSumsStep>(std::move(packed), input, output);
}

}  // namespace detent
