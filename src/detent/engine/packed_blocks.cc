#include "detent/engine/packed_blocks.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>
#include <span>

#include "detent/graph/traits.h"

namespace detent {
namespace {

constexpr unsigned kFractionBits = 23;
constexpr unsigned kHalfBits = 16;

/// Among those of all groups of 16 outputs.
int64_t block_index(const PackedBlocks& packed, int64_t output, int64_t position, int64_t block) {
  const int64_t group = output / packed.outputs * packed.groups() + output % packed.outputs / kBlockOutputs;
  return group * packed.window_blocks() + position * packed.blocks + block;
}

/// Where the element of an input lies among the bytes of a group's vectors.
struct Where {
  size_t byte;
  int shift;
};

Where where(const PackedBlocks& packed, int64_t output, int64_t position, int64_t input) {
  const int64_t vectors = packed.nibbles ? packed.steps / 2 : packed.steps;  // of a block
  const int64_t step = input % packed.block / kStepInputs;
  const int64_t block = block_index(packed, output, position, input / packed.block);
  const int64_t vector = block * vectors + (packed.nibbles ? step / 2 : step);
  const int64_t byte = vector * kBlockBytes + output % packed.outputs % kBlockOutputs * kStepInputs +
                       input % packed.block % kStepInputs;
  return {static_cast<size_t>(byte), packed.nibbles ? static_cast<int>(step % 2) * 4 : 0};
}

/// The bytes of weights that kernels read, by weight - kLeastWeight.
class Codes {
 public:
  /// Weights of at most 16 numbers take four bits each.
  Codes(std::span<const int32_t> weights, PackedBlocks& packed) {
    std::array<bool, kNumbers> occurs{};
    for (const int32_t weight : weights) occurs[index(weight)] = true;
    packed.nibbles = std::ranges::count(occurs, true) <= kNibbleCodes;
    packed.offset = 128;
    if (packed.nibbles)
      packed.offset = -kLeastWeight - static_cast<int32_t>(std::ranges::find(occurs, true) - occurs.begin());
    uint8_t next = 0;
    for (size_t i = 0; i < kNumbers; ++i) {
      const auto byte = static_cast<uint8_t>(static_cast<int32_t>(i) + kLeastWeight + packed.offset);
      codes_[i] = byte;
      if (!packed.nibbles || !occurs[i]) continue;
      packed.table[next] = byte;
      codes_[i] = next++;
    }
  }

  uint8_t of(int32_t weight) const { return codes_[index(weight)]; }

 private:
  static constexpr int32_t kLeastWeight = -128;
  static constexpr size_t kNumbers = 256;
  static constexpr int64_t kNibbleCodes = 16;
  static size_t index(int32_t weight) {
    const int32_t place = weight - kLeastWeight;
    return static_cast<size_t>(place);
  }

  std::array<uint8_t, kNumbers> codes_{};
};

/// Inputs that lie around their zero point are counted from there, others from a code from which all are
/// signed bytes, or 256 times one and another.
void set_inputs(const CodeType& type, PackedBlocks& packed) {
  packed.input = type;
  packed.wide = !fits_bytes(type);
  const int32_t most = packed.wide ? 127 * 256 + 127 : 127;
  const int32_t least = packed.wide ? -128 * 256 - 128 : -128;
  const int32_t from = std::clamp(type.zero_point, type.high - most, type.low - least);
  packed.difference = from - type.zero_point;
}

int64_t largest_weight_sum(const BlockSumForm& form) {
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

/// Room for so many of the form's scales, in the shortest way that has them all.
void add_scales(const BlockSumForm& form, size_t lanes, PackedBlocks& packed) {
  const auto ends_in_zeros = [&](unsigned bits) {
    return std::ranges::all_of(
        form.scale, [&](float scale) { return std::bit_cast<uint32_t>(scale) << (32U - bits) == 0; });
  };
  const bool has_zero = std::ranges::find(form.scale, 0.0F) != form.scale.end();
  if (ends_in_zeros(kFractionBits) && !has_zero) {
    packed.exponents.resize(lanes);
  } else if (ends_in_zeros(kHalfBits)) {
    packed.scales.resize(lanes);
  } else {
    packed.whole_scales.resize(lanes);
  }
}

void put_scale(float scale, size_t lane, PackedBlocks& packed) {
  const auto bits = std::bit_cast<uint32_t>(scale);
  if (!packed.exponents.empty()) {
    packed.exponents[lane] = static_cast<uint8_t>(bits >> kFractionBits);
  } else if (!packed.scales.empty()) {
    packed.scales[lane] = static_cast<uint16_t>(bits >> kHalfBits);
  } else {
    packed.whole_scales[lane] = scale;
  }
}

void pack_output(const BlockSumForm& form, int64_t output, const Codes& codes, PackedBlocks& packed) {
  const int32_t* weights = form.weight.values<int32_t>().data() + output * form.positions() * form.inputs();
  const float* scale = form.scale.data() + output * packed.window_blocks();
  uint8_t* const to = packed.weights.data();
  for (int64_t position = 0; position < form.positions(); ++position) {
    for (int64_t b = 0; b < packed.blocks; ++b) {
      const auto lane = static_cast<size_t>(block_index(packed, output, position, b) * kBlockOutputs +
                                            output % packed.outputs % kBlockOutputs);
      put_scale(*scale++, lane, packed);
      int32_t sum = 0;
      for (int64_t i = b * packed.block; i < std::min(packed.inputs, (b + 1) * packed.block); ++i) {
        const int32_t weight = *weights++;
        const Where at = where(packed, output, position, i);
        to[at.byte] = static_cast<uint8_t>(to[at.byte] | codes.of(weight) << at.shift);
        sum += weight;
      }
      packed.weight_sums[lane] = static_cast<int16_t>(sum);
    }
  }
}

}  // namespace

Tensor PackedBlocks::unpacked() const {
  Tensor result(DType::kInt32, {convolution_groups * outputs, window.positions(), inputs});
  int32_t* to = result.values<int32_t>().data();
  for (int64_t o = 0; o < convolution_groups * outputs; ++o) {
    for (int64_t position = 0; position < window.positions(); ++position) {
      for (int64_t i = 0; i < inputs; ++i) {
        const Where at = where(*this, o, position, i);
        const unsigned byte = weights.data()[at.byte];
        const unsigned code = nibbles ? table[byte >> at.shift & 15U] : byte;
        *to++ = static_cast<int32_t>(code) - offset;
      }
    }
  }
  return result;
}

int64_t PackedBlocks::byte_size() const {
  return static_cast<int64_t>(weights.byte_size() + exponents.size() + 2 * scales.size() +
                              4 * whole_scales.size()) +
         (difference == 0 ? 0 : std::ssize(weight_sums) * 2);
}

std::string why_not_packed(const BlockSumForm& form, const Node& node) {
  if (trait<WeightedSum>(node)->spatial_dims > 3) return "windows over more than three dimensions";
  if (!fits_bytes(form.input) && !is_wide(form.input)) return "inputs of these codes";
  if (form.output && !is_wide(*form.output) && (!fits_bytes(*form.output) || form.output->is_sign))
    return "results of these codes";
  if (largest_weight_sum(form) > std::numeric_limits<int16_t>::max()) return "long blocks";
  return "";
}

PackedBlocks packed_blocks(const BlockSumForm& form, const Node& node, const KernelSet& kernels) {
  PackedBlocks packed;
  packed.kernels = &kernels;
  packed.window = window_shape(node);
  packed.is_linear = trait<WeightedSum>(node)->spatial_dims == 0;
  packed.convolution_groups = form.groups;
  packed.inputs = form.inputs();
  packed.outputs = form.outputs() / form.groups;
  packed.block = form.block;
  packed.blocks = form.blocks();
  const Codes codes(form.weight.values<int32_t>(), packed);
  set_inputs(form.input, packed);
  const int64_t unit = kStepInputs * (packed.nibbles ? 2 : 1);
  packed.steps = (form.block + unit - 1) / unit * unit / kStepInputs;
  const int64_t groups = packed.convolution_groups * packed.groups();
  const int64_t blocks = groups * packed.window_blocks();
  const auto lanes = static_cast<size_t>(blocks * kBlockOutputs);
  const int64_t vectors = blocks * packed.steps / (packed.nibbles ? 2 : 1);
  packed.weights = AlignedArray<uint8_t>(static_cast<size_t>(vectors * kBlockBytes));
  add_scales(form, lanes, packed);
  packed.weight_sums.resize(lanes);
  packed.start.resize(static_cast<size_t>(groups * kBlockOutputs));
  for (int64_t o = 0; o < form.outputs(); ++o) {
    pack_output(form, o, codes, packed);
    const int64_t at = o / packed.outputs * packed.groups() * kBlockOutputs + o % packed.outputs;
    packed.start[static_cast<size_t>(at)] = form.start[static_cast<size_t>(o)];
  }
  packed.multiplier = form.multiplier;
  if (form.output) packed.finish = finish_for(*form.output);
  packed.finish.gives_values = !form.output;
  if (form.output && is_wide(*form.output)) packed.unit = form.output->scale;
  return packed;
}

}  // namespace detent
