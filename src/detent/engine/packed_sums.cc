#include "detent/engine/packed_sums.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/accumulated_sums.h"

namespace detent {
namespace {

/// A byte less the zero point of bytes.
constexpr int32_t kLargestWeight = 255;

/// Signs are -2 and 0 steps: what twice the sum is cut to.
constexpr float kSignSteps = 2;

/// Whether no sum has steps beyond 2^30.
bool steps_fit(const SumForm& form) {
  const auto most = static_cast<float>(0x1p30 / static_cast<double>(std::max<int64_t>(form.bound, 1)));
  if (form.output->is_sign) return kSignSteps < most;
  return std::ranges::all_of(form.multiplier, [&](float m) { return m < most; });
}

int64_t rounded_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

/// Weights of a layer as [output][input channel of its group][position].
struct Weights {
  std::span<const int32_t> codes;
  int64_t inputs;
  int64_t positions;

  int32_t at(int64_t output, int64_t input, int64_t position) const {
    return codes[static_cast<size_t>((output * inputs + input) * positions + position)];
  }
};

/// bias - zero point * sum of the weights, modulo 2^32 as the kernels add. Bit planes are counted from the
/// zero point.
int32_t start_of(const SumForm& form, const Weights& weights, int64_t output, WeightPacking packing) {
  if (counts_bits(packing)) return form.bias[static_cast<size_t>(output)];
  const auto count = static_cast<size_t>(weights.inputs * weights.positions);
  uint32_t sum = 0;
  for (const int32_t w : weights.codes.subspan(static_cast<size_t>(output) * count, count))
    sum += static_cast<uint32_t>(w);
  const auto zero = static_cast<uint32_t>(form.input.zero_point - form.input.low);
  return static_cast<int32_t>(static_cast<uint32_t>(form.bias[static_cast<size_t>(output)]) - zero * sum);
}

struct Range {
  int32_t least = 0;
  int32_t most = 0;
};
Range range_of(std::span<const int32_t> values) {
  Range range;
  for (const int32_t value : values) {
    range.least = std::min(range.least, value);
    range.most = std::max(range.most, value);
  }
  return range;
}

/// Without branches and comparisons, which instructions of all processors have for vectors of them.
bool are_signed_bytes(std::span<const int32_t> weights) {
  uint32_t outside = 0;
  for (const int32_t weight : weights) outside |= static_cast<uint32_t>(weight) + 128U;
  return outside < 256;
}

/// Weights as sums of signed bytes: of bytes less a zero point in two parts, or three.
std::vector<std::vector<int32_t>> byte_parts(std::span<const int32_t> weights) {
  std::vector<std::vector<int32_t>> parts;
  std::vector<int32_t> rest(weights.begin(), weights.end());
  while (!are_signed_bytes(rest)) {
    std::vector<int32_t>& part = parts.emplace_back(rest);
    for (int32_t& weight : part) weight = std::clamp(weight, -128, 127);
    std::ranges::transform(rest, part, rest.begin(), std::minus());
  }
  parts.push_back(std::move(rest));
  return parts;
}

void append_output(const SumForm& form, const Weights& weights, int64_t output, PackedSums& packed) {
  const auto c = static_cast<size_t>(output);
  const bool is_filler = output < 0;
  packed.start.push_back(is_filler ? 0 : start_of(form, weights, output, packed.packing));
  if (!form.fixed.empty()) {
    packed.fixed.push_back(is_filler ? FixedMultiplier() : form.fixed[c]);
  } else if (form.output && form.output->is_sign) {
    packed.multiplier.push_back(kSignSteps);
  } else {
    packed.multiplier.push_back(is_filler ? 0 : form.output ? form.multiplier[c] : form.scale[c]);
  }
}

/// The runs of bytes that windows consist of: rows where the channels of neighbouring positions follow each
/// other, else positions.
void set_runs(PackedSums& packed, int64_t groups, int64_t inputs) {
  const WindowShape& w = packed.window;
  const bool rows = groups == 1 && w.dilation_x == 1;
  packed.run_count = w.depth * w.height * (rows ? 1 : w.width);
  packed.run_steps = rounded_up(rows ? w.width * inputs : inputs, kStepInputs) / kStepInputs;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t r = 0; r < packed.run_count; ++r) {
      const int64_t row = rows ? r : r / w.width;
      const int64_t x = rows ? 0 : r % w.width;
      packed.runs.push_back(
          {row / w.height * w.dilation_z, row % w.height * w.dilation_y, x * w.dilation_x, g * inputs});
    }
  }
}

/// Fills a packed group: [run][step][block][16][4]. What has no weight stays zero.
void pack_group(const Weights& weights, PackedGroup& group, PackedSums& packed) {
  group.is_empty = true;
  const int64_t run_positions = weights.positions / packed.run_count;
  const int64_t run_bytes = packed.run_steps * kStepInputs;
  std::vector<int8_t> windows(static_cast<size_t>(packed.run_count * run_bytes));  // of one output
  for (int64_t o = 0; o < group.outputs; ++o) {
    const int32_t* output =
        &weights.codes[static_cast<size_t>((group.first_output + o) * weights.inputs * weights.positions)];
    for (int64_t position = 0; position < weights.positions; ++position) {
      int8_t* to =
          windows.data() + position / run_positions * run_bytes + position % run_positions * weights.inputs;
      for (int64_t i = 0; i < weights.inputs; ++i)
        to[i] = static_cast<int8_t>(output[i * weights.positions + position]);
    }
    group.is_empty = group.is_empty && std::ranges::all_of(windows, [](int8_t w) { return w == 0; });
    int8_t* to = packed.weights.data() + group.weights + o * kStepInputs;
    for (size_t k = 0; k < windows.size(); k += kStepInputs, to += group.blocks * kBlockBytes)
      std::memcpy(to, windows.data() + k, kStepInputs);
  }
}

/// Where kernels count the bits of inputs and weights of -1, 0 and 1.
std::optional<WeightPacking> bit_packing(const SumForm& form, int64_t groups, const KernelSet& kernels) {
  if (kernels.add_bit_planes == nullptr || groups != 1) return std::nullopt;
  if (form.input.low < form.input.zero_point - 1 || form.input.high > form.input.zero_point + 1)
    return std::nullopt;
  const auto weights = form.weight.values<int32_t>();
  const auto [least, most] = range_of(weights);
  if (least < -1 || most > 1) return std::nullopt;
  return std::ranges::find(weights, 0) == weights.end() ? WeightPacking::kSigns : WeightPacking::kBitPlanes;
}

int64_t words_of(int64_t inputs) { return rounded_up(inputs, kWordInputs) / kWordInputs; }

/// Blocks of bit planes: [run][word][kind][16].
void pack_bit_planes(const SumForm& form, const Weights& weights, PackedSums& packed) {
  set_runs(packed, 1, weights.inputs);
  const int64_t words = words_of(weights.inputs);
  packed.run_steps = weights.positions / packed.run_count * words;
  const int64_t kinds = weight_kinds(packed.packing);
  const int64_t blocks = rounded_up(packed.outputs, kBlockOutputs) / kBlockOutputs;
  const int64_t block_bytes = weights.positions * words * kinds * kBlockOutputs * 8;
  packed.weights = AlignedArray<int8_t>(static_cast<size_t>(blocks * block_bytes));
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = block * kBlockOutputs;
    const int64_t filled = std::min(kBlockOutputs, packed.outputs - first);
    packed.groups.push_back(
        {1, first, filled, static_cast<size_t>(block * block_bytes), packed.start.size(), 0});
    auto* planes = reinterpret_cast<uint64_t*>(packed.weights.data() + block * block_bytes);
    for (int64_t o = 0; o < kBlockOutputs; ++o)
      append_output(form, weights, o < filled ? first + o : -1, packed);
    for (int64_t o = 0; o < filled; ++o) {
      for (int64_t position = 0; position < weights.positions; ++position) {
        for (int64_t i = 0; i < weights.inputs; ++i) {
          uint64_t* word = planes + (position * words + i / kWordInputs) * kinds * kBlockOutputs + o;
          const int32_t weight = weights.at(first + o, i, position);
          if (kinds == 2) word[0] |= uint64_t{weight != 0} << (i % kWordInputs);
          word[(kinds - 1) * kBlockOutputs] |= uint64_t{weight < 0} << (i % kWordInputs);
        }
      }
    }
  }
}

/// Linear layers wait for their weights to come from memory: fewer bits are sooner there. Elsewhere weights
/// are used often, and unpacking would take longer than it saves.
WeightPacking packing_of(const SumForm& form, bool is_linear) {
  if (!is_linear || is_wide(form.input)) return WeightPacking::kBytes;
  const auto [least, most] = range_of(form.weight.values<int32_t>());
  return fastest_packing(least, most, form.weight.dim(0), form.weight.dim(1));
}

/// The weights of steps that lie together, into their vectors.
void narrow_groups(PackedSums& packed) {
  const PackingShape shape = packing_shape(packed.packing);
  const auto narrowed = [&](size_t bytes) {
    return bytes / static_cast<size_t>(shape.steps) * static_cast<size_t>(shape.vectors);
  };
  AlignedArray<int8_t> result(narrowed(packed.weights.byte_size()));
  for (PackedGroup& group : packed.groups) {
    const int64_t vector = group.blocks * kBlockBytes;
    const int8_t* from = packed.weights.data() + group.weights;
    group.weights = narrowed(group.weights);
    int8_t* to = result.data() + group.weights;
    for (int64_t step = 0; step < packed.run_count * packed.run_steps; step += shape.steps) {
      narrow(packed.packing, from, vector, to);
      from += shape.steps * vector;
      to += shape.vectors * vector;
    }
  }
  packed.weights = std::move(result);
}

/// The bytes `part` of the weights.
void pack_groups(const SumForm& form, const Weights& weights, const Weights& part_weights, int64_t groups,
                 PackedSums& packed) {
  set_runs(packed, groups, weights.inputs);
  packed.run_steps = rounded_up(packed.run_steps, packing_shape(packed.packing).steps);
  const int64_t outputs = packed.outputs / groups;
  const int64_t blocks = rounded_up(outputs, kBlockOutputs) / kBlockOutputs;
  const int64_t parts = (blocks + packed.kernels->most_blocks - 1) / packed.kernels->most_blocks;
  const int64_t block_bytes = packed.run_count * packed.run_steps * kBlockBytes;
  packed.weights = AlignedArray<int8_t>(static_cast<size_t>(groups * blocks * block_bytes));
  size_t offset = 0;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t part = 0, block = 0; part < parts; ++part) {
      const int64_t count = (blocks - block + parts - part - 1) / (parts - part);
      const int64_t first = block * kBlockOutputs;
      const int64_t filled = std::min(count * kBlockOutputs, outputs - first);
      packed.groups.push_back({count, g * outputs + first, filled, offset, packed.start.size(),
                               static_cast<size_t>(g * packed.run_count)});
      for (int64_t o = 0; o < count * kBlockOutputs; ++o)
        append_output(form, weights, o < filled ? g * outputs + first + o : -1, packed);
      pack_group(part_weights, packed.groups.back(), packed);
      offset += static_cast<size_t>(count * block_bytes);
      block += count;
    }
  }
}

/// Which of a vector's channels the lane of one of four vectors of sums holds, after their bytes have been
/// interleaved within 16.
int64_t interleaved(int64_t quarter, int64_t lane) { return lane / 4 * 16 + quarter * 4 + lane % 4; }

/// A row of a window has the taps of all `parts` of the weights.
void pack_depthwise(const SumForm& form, const Weights& weights, std::span<const Weights> parts,
                    bool is_phase, PackedSums& packed) {
  const WindowShape& w = packed.window;
  const int64_t vector = packed.kernels->vector_bytes;
  const int64_t rows = w.depth * w.height;
  const int64_t taps = std::ssize(parts) * w.width;
  const int64_t quads = rounded_up(taps, 4) / 4;
  packed.depthwise = true;
  packed.whole_rows = w.stride_x == 1 && !is_phase;
  packed.chunks = packed.whole_rows ? packed.outputs / std::gcd(packed.outputs, vector)
                                    : rounded_up(packed.outputs, vector) / vector;
  for (int64_t x = 0; x < 4 * quads; ++x)
    packed.runs.push_back({0, 0, x < taps ? x % w.width * w.dilation_x : 0, 0});
  packed.weights = AlignedArray<int8_t>(static_cast<size_t>(packed.chunks * rows * quads * 4 * vector));
  int8_t* to = packed.weights.data();
  for (int64_t chunk = 0; chunk < packed.chunks; ++chunk) {
    const auto channel = [&](int64_t i) {
      return (chunk * vector + interleaved(i / (vector / 4), i % (vector / 4))) % packed.outputs;
    };
    for (int64_t quad = 0; quad < rows * quads; ++quad) {
      const int64_t y = quad / quads;
      for (int64_t i = 0; i < vector; ++i) {
        for (int64_t x = quad % quads * 4; x < quad % quads * 4 + 4; ++x) {
          const int64_t position = y * w.width + x % w.width;
          *to++ =
              x < taps
                  ? static_cast<int8_t>(parts[static_cast<size_t>(x / w.width)].at(channel(i), 0, position))
                  : int8_t{0};
        }
      }
    }
    for (int64_t i = 0; i < vector; ++i) append_output(form, weights, channel(i), packed);
  }
}

/// Calls `visit(output, input, position, weight)` for the weights of a depthwise layer.
template <class Visit>
void for_each_depthwise(const PackedSums& packed, const Visit& visit) {
  const WindowShape& w = packed.window;
  const int64_t vector = packed.kernels->vector_bytes;
  const int64_t quads = std::ssize(packed.runs) / 4;
  const int8_t* from = packed.weights.data();
  for (int64_t chunk = 0; chunk < packed.chunks; ++chunk) {
    for (int64_t quad = 0; quad < w.depth * w.height * quads; ++quad) {
      for (int64_t i = 0; i < vector; ++i) {
        const int64_t channel = chunk * vector + interleaved(i / (vector / 4), i % (vector / 4));
        for (int64_t x = quad % quads * 4; x < quad % quads * 4 + 4; ++x, ++from) {
          if (channel < packed.outputs) visit(channel, 0, quad / quads * w.width + x % w.width, *from);
        }
      }
    }
  }
}

/// The same for bit planes.
template <class Visit>
void for_each_bit(const PackedSums& packed, int64_t inputs, const Visit& visit) {
  const int64_t words = words_of(inputs);
  const int64_t kinds = weight_kinds(packed.packing);
  for (const PackedGroup& group : packed.groups) {
    const auto* planes = reinterpret_cast<const uint64_t*>(packed.weights.data() + group.weights);
    for (int64_t o = 0; o < group.outputs; ++o) {
      for (int64_t position = 0; position < packed.window.positions(); ++position) {
        for (int64_t i = 0; i < inputs; ++i) {
          const uint64_t* word = planes + (position * words + i / kWordInputs) * kinds * kBlockOutputs + o;
          const auto bit = [&](int64_t kind) {
            return static_cast<int32_t>(word[kind * kBlockOutputs] >> (i % kWordInputs) & 1U);
          };
          const int32_t other = kinds == 2 ? bit(0) : 1;
          visit(group.first_output + o, i, position, other - 2 * bit(kinds - 1));
        }
      }
    }
  }
}

/// The same for other layers, whose windows have `inputs` channels.
template <class Visit>
void for_each_grouped(const PackedSums& packed, int64_t inputs, const Visit& visit) {
  const int64_t positions = packed.window.positions();
  const int64_t run_positions = positions / packed.run_count;
  const PackingShape shape = packing_shape(packed.packing);
  for (const PackedGroup& group : packed.groups) {
    const int8_t* from = packed.weights.data() + group.weights;
    const int64_t vector = group.blocks * kBlockBytes;
    for (int64_t o = 0; o < group.outputs; ++o) {
      for (int64_t position = 0; position < positions; ++position) {
        for (int64_t i = 0; i < inputs; ++i) {
          const int64_t k = position % run_positions * inputs + i;
          const int64_t step = position / run_positions * packed.run_steps + k / kStepInputs;
          const int8_t* steps = from + step / shape.steps * shape.vectors * vector;
          const int32_t weight = widened(packed.packing, steps, vector, static_cast<int>(step % shape.steps),
                                         o * kStepInputs + k % kStepInputs);
          visit(group.first_output + o, i, position, weight);
        }
      }
    }
  }
}

}  // namespace

Tensor unpacked_weights(const PackedSums& packed, const Shape& shape) {
  Tensor weights(DType::kInt32, shape);
  const auto codes = weights.values<int32_t>();
  const int64_t inputs = shape[1];
  const int64_t positions = packed.window.positions();
  const auto note = [&](int64_t output, int64_t input, int64_t position, int32_t weight) {
    codes[static_cast<size_t>((output * inputs + input) * positions + position)] += weight;
  };
  if (packed.depthwise) {
    for_each_depthwise(packed, note);
  } else if (counts_bits(packed.packing)) {
    for_each_bit(packed, inputs, note);
  } else {
    for_each_grouped(packed, inputs, note);
  }
  for (const PackedSums& part : packed.rest) for_each_grouped(part, inputs, note);
  return weights;
}

Halo WindowShape::halo(const Place& input, int64_t planes, int64_t rows, int64_t columns) const {
  const auto after = [](int64_t count, int64_t stride, int64_t padding, int64_t size, int64_t dilation,
                        int64_t positions) {
    return std::max<int64_t>((count - 1) * stride - padding + (size - 1) * dilation + 1 - positions, 0);
  };
  const auto before = [](int64_t padding) { return std::max<int64_t>(padding, 0); };
  return {.front = before(padding_z),
          .back = after(planes, stride_z, padding_z, depth, dilation_z, input.depth()),
          .top = before(padding_y),
          .left = before(padding_x),
          .bottom = after(rows, stride_y, padding_y, height, dilation_y, input.height()),
          .right = after(columns, stride_x, padding_x, width, dilation_x, input.width())};
}

WindowShape window_shape(const Node& node) {
  const auto* sum = trait<WeightedSum>(node);
  DETENT_CHECK(sum != nullptr && sum->spatial_dims <= 3, "window of {}", node.op);
  if (sum->spatial_dims == 0) return {};
  return window_shape(node, node.find_parameter("weight")->tensor.shape());
}

WindowShape window_shape(const Node& node, const Shape& weight) {
  WindowShape window;
  const size_t dims = weight.size() - 2;
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  window.width = weight.back();
  window.stride_x = stride.back();
  window.padding_x = padding.back();
  window.dilation_x = dilation.back();
  if (dims == 1) return window;
  window.height = weight[weight.size() - 2];
  window.stride_y = stride[dims - 2];
  window.padding_y = padding[dims - 2];
  window.dilation_y = dilation[dims - 2];
  if (dims == 2) return window;
  window.depth = weight[2];
  window.stride_z = stride[0];
  window.padding_z = padding[0];
  window.dilation_z = dilation[0];
  return window;
}

bool is_given(const Node& node, size_t input) {
  return input < node.inputs.size() && !node.inputs[input].is_absent();
}

SumFinish finish_for(const CodeType& type) {
  if (type.is_sign) return {.least = -kSignSteps, .most = 0, .zero = type.high - type.low};
  return {.multiplier = nullptr,
          .fixed = nullptr,
          .gives_values = false,
          .least = static_cast<float>(type.low - type.zero_point),
          .most = static_cast<float>(type.high - type.zero_point),
          .zero = type.zero_point - type.low};
}

SumFinish PackedSums::finish_at(size_t sum) const {
  SumFinish result = finish;
  if (fixed.empty()) {
    result.multiplier = multiplier.data() + sum;
  } else {
    result.fixed = fixed.data() + sum;
  }
  return result;
}

int64_t PackedSums::weight_bytes() const {
  auto bytes = static_cast<int64_t>(weights.byte_size());
  for (const PackedSums& part : rest) bytes += part.weight_bytes();
  return bytes;
}

std::string why_not_packed(const SumForm& form, const Node& node) {
  const auto* sum = trait<WeightedSum>(node);
  if (const auto accumulator = inexact_accumulator(form, node))
    return fmt::format("sums in {}", accumulator->text());
  if (sum == nullptr || sum->spatial_dims > 3) return "windows over more than three dimensions";
  if (!fits_bytes(form.input) && !is_wide(form.input)) return "inputs of these codes";
  if (form.output && !fits_bytes(*form.output)) {
    if (!is_wide(*form.output)) return "results of these codes";
    if (!form.fixed.empty()) return "results of more than 8 bits in fixed point";
  }
  const auto [least, most] = range_of(form.weight.values<int32_t>());
  if (least < -kLargestWeight || most > kLargestWeight) return "weights of more than 9 bits";
  if (form.output && form.output->is_sign && !form.fixed.empty()) return "signs in fixed point";
  const auto is_finite = [](float m) { return std::isfinite(m); };
  if (!std::ranges::all_of(form.output ? form.multiplier : form.scale, is_finite)) return "infinite scales";
  // Their products have no sign.
  if (form.output && form.output->is_sign &&
      std::ranges::find(form.multiplier, 0.0F) != form.multiplier.end())
    return "scales of 0";
  return "";
}

PackedSums packed_windows(const SumForm& form, const WindowLayer& layer, const KernelSet& kernels) {
  const Shape& shape = form.weight.shape();
  PackedSums packed;
  packed.kernels = &kernels;
  packed.window = layer.window;
  packed.outputs = shape[0];
  const Weights weights{form.weight.values<int32_t>(), shape[1], layer.window.positions()};
  if (form.output) packed.finish = finish_for(*form.output);
  const bool gives_bytes = form.output && fits_bytes(*form.output);
  packed.finish.gives_values = !gives_bytes;  // of a wide output its steps
  packed.finish.cuts_bytes = gives_bytes && form.fixed.empty() && steps_fit(form);
  if (is_wide(form.input)) packed.wide_input = form.input;
  const WindowShape& w = layer.window;
  const bool is_flat = w.depth == 1 && w.stride_z == 1 && w.padding_z == 0;  // planes stay what they are
  const bool is_deep = layer.groups > 1 && layer.groups == packed.outputs && shape[1] == 1;
  const auto bits = is_flat ? bit_packing(form, layer.groups, kernels) : std::nullopt;
  if (bits) {
    packed.packing = *bits;
    pack_bit_planes(form, weights, packed);
    return packed;
  }
  const std::vector<std::vector<int32_t>> bytes = byte_parts(weights.codes);
  std::vector<Weights> parts;
  for (const std::vector<int32_t>& part : bytes) parts.push_back({part, weights.inputs, weights.positions});
  if (is_deep) {
    pack_depthwise(form, weights, parts, layer.is_phase, packed);
    return packed;
  }
  if (parts.size() == 1) packed.packing = packing_of(form, layer.is_linear);
  const PackedSums unpacked = packed;
  pack_groups(form, weights, parts[0], layer.groups, packed);
  if (packed.packing != WeightPacking::kBytes) narrow_groups(packed);
  for (size_t i = 1; i < parts.size(); ++i)
    pack_groups(form, weights, parts[i], layer.groups, packed.rest.emplace_back(unpacked));
  return packed;
}

PackedSums packed_sums(const SumForm& form, const Node& node, const KernelSet& kernels) {
  const bool is_linear = trait<WeightedSum>(node)->spatial_dims == 0;
  return packed_windows(form,
                        {.window = window_shape(node),
                         .groups = is_linear ? 1 : integer_attribute(node, "groups"),
                         .is_linear = is_linear},
                        kernels);
}

}  // namespace detent
