#include "detent/inference/accumulated_sums.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// One spatial dimension of a layer.
struct SpatialAxis {
  int64_t input, result, kernel, stride, padding, dilation;
  bool transposed;

  /// Place in the input that `tap` of the window at `position` of the result reads; -1 where that is padding.
  int64_t place(int64_t position, int64_t tap) const {
    int64_t at =
        transposed ? position + padding - tap * dilation : position * stride - padding + tap * dilation;
    if (transposed && at % stride != 0) return -1;
    if (transposed) at /= stride;
    return at >= 0 && at < input ? at : -1;
  }
};

std::vector<SpatialAxis> spatial_axes(const Node& node, const Shape& weight, const Shape& input,
                                      const Shape& result) {
  const auto* sum = trait<WeightedSum>(node);
  const size_t dims = sum->spatial_dims;
  std::vector<SpatialAxis> axes;
  if (dims == 0) return axes;
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  for (size_t d = 0; d < dims; ++d) {
    axes.push_back(
        {input[d + 2], result[d + 2], weight[d + 2], stride[d], padding[d], dilation[d], sum->transposed});
  }
  return axes;
}

/// [tap][position of the result]: place in a channel of the input, -1 in the padding.
std::vector<int64_t> places_of(const std::vector<SpatialAxis>& axes, int64_t taps, int64_t positions) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < taps * positions; ++i) {
    int64_t tap = i / positions;
    int64_t position = i % positions;
    int64_t place = 0;
    int64_t step = 1;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      const int64_t at = axis->place(position % axis->result, tap % axis->kernel);
      place = at < 0 || place < 0 ? -1 : place + at * step;
      step *= axis->input;
      position /= axis->result;
      tap /= axis->kernel;
    }
    places.push_back(place);
  }
  return places;
}

/// A layer as products of matrices, one a group: weights [output, input channel and tap] times what these
/// read [input channel and tap, sample and position]. A linear layer has one position.
template <class T>
class LayerProducts {
 public:
  /// Inputs are counted from `zero`.
  LayerProducts(const Node& node, const Tensor& weight, const Tensor& inputs, T zero)
      : transposed_(trait<WeightedSum>(node)->transposed), weight_(weight), inputs_(inputs), zero_(zero) {
    const Operand operands[] = {Operand{inputs.shape(), Value()}};
    shape_ = find_operator(node.op).infer(node, operands).shape;
    const bool is_linear = trait<WeightedSum>(node)->spatial_dims == 0;
    groups_ = is_linear ? 1 : integer_attribute(node, "groups");
    channels_ = (transposed_ ? weight.dim(0) / groups_ : weight.dim(1));
    outputs_ = (transposed_ ? weight.dim(1) : weight.dim(0) / groups_);
    taps_ = element_count({weight.shape().begin() + 2, weight.shape().end()});
    if (!is_linear) {
      plane_ = element_count({inputs.shape().begin() + 2, inputs.shape().end()});
      positions_ = element_count({shape_.begin() + 2, shape_.end()});
    }
    samples_ = inputs.numel() / std::max<int64_t>(1, groups_ * channels_ * plane_);
    places_ = places_of(spatial_axes(node, weight.shape(), inputs.shape(), shape_), taps_, positions_);
  }

  const Shape& shape() const { return shape_; }
  int64_t depth() const { return channels_ * taps_; }
  int64_t columns() const { return samples_ * positions_; }
  int64_t additions() const { return columns() * groups_ * outputs_ * depth(); }

  /// Calls `use(output channel, factors, values, columns, at)` for all sums, some columns of an output at a
  /// time, from several threads: `at(i)` is the place of column i in the result, of columns that are none -1.
  template <class Use>
  void for_each_row(const Use& use) const {
    const int64_t wide = depth() <= kMostOfDepth ? 4 * kAddedColumns : kAddedColumns;
    const int64_t parts = (columns() + wide - 1) / wide;
    parallel_for(parts * groups_, 1, [&](int64_t begin, int64_t end) {
      std::vector<T> values(static_cast<size_t>(depth() * wide));
      std::vector<T> factors(static_cast<size_t>(depth()));
      for (int64_t part = begin; part < end; ++part) {
        const int64_t group = part / parts;
        const int64_t first = part % parts * wide;
        const int64_t count = std::min(wide, columns() - first);
        const int64_t filled = (count + kAddedColumns - 1) / kAddedColumns * kAddedColumns;
        read(group, first, count, filled, values);
        for (int64_t o = 0; o < outputs_; ++o) {
          take_factors(group, o, factors);
          use(group * outputs_ + o, std::span<const T>(factors), values.data(), filled,
              Places{*this, group * outputs_ + o, first, count});
        }
      }
    });
  }

  /// Where the sums of some columns of an output stand in the result.
  struct Places {
    const LayerProducts& layer;
    int64_t output, first, count;

    size_t at(int64_t i) const {
      const int64_t sample = (first + i) / layer.positions_;
      const int64_t position = (first + i) % layer.positions_;
      return static_cast<size_t>((sample * layer.groups_ * layer.outputs_ + output) * layer.positions_ +
                                 position);
    }
  };

 private:
  static constexpr int64_t kMostOfDepth = 2048;  // of what is read a megabyte or two stay in the cache

  /// `filled` columns, of which those from `count` on are 0.
  void read(int64_t group, int64_t first, int64_t count, int64_t filled, std::vector<T>& values) const {
    std::fill_n(values.begin(), depth() * filled, T(0));
    T* to = values.data();
    for (int64_t input = 0; input < channels_; ++input) {
      for (int64_t tap = 0; tap < taps_; ++tap, to += filled)
        read_row(group * channels_ + input, places_.data() + tap * positions_, first, count, to);
    }
  }

  /// Reads a row of a channel for columns.
  void read_row(int64_t channel, const int64_t* places, int64_t first, int64_t count, T* to) const {
    const T* const from = inputs_.values<T>().data();
    int64_t sample = first / positions_;
    int64_t position = first % positions_;
    for (int64_t i = 0; i < count; ++i) {
      const T* const plane = from + (sample * groups_ * channels_ + channel) * plane_;
      if (places[position] >= 0) to[i] = plane[places[position]] - zero_;
      if (++position < positions_) continue;
      position = 0;
      ++sample;
    }
  }

  void take_factors(int64_t group, int64_t output, std::vector<T>& factors) const {
    const auto from = weight_.values<T>();
    for (int64_t k = 0; k < depth(); ++k) {
      const int64_t input = k / taps_;
      const int64_t row = transposed_ ? (group * channels_ + input) * outputs_ + output
                                      : (group * outputs_ + output) * channels_ + input;
      factors[static_cast<size_t>(k)] = from[static_cast<size_t>(row * taps_ + k % taps_)];
    }
  }

  bool transposed_;
  const Tensor& weight_;
  const Tensor& inputs_;
  T zero_;
  Shape shape_;  // of the result
  int64_t groups_ = 1;
  int64_t channels_ = 0;  // of a group, in
  int64_t outputs_ = 0;   // ... and out
  int64_t taps_ = 1;
  int64_t plane_ = 1;      // elements of a channel of a sample's input
  int64_t positions_ = 1;  // ... of its result
  int64_t samples_ = 0;
  std::vector<int64_t> places_;
};

/// Overflows that several threads find.
struct SharedOverflows {
  std::atomic<int64_t> additions = 0;
  std::atomic<int64_t> sums = 0;

  void add(const AccumulatorOverflows& found) {
    additions += found.additions;
    sums += found.sums;
  }
  AccumulatorOverflows total() const { return {additions, sums}; }
};

int32_t with_bias(int64_t sum, int32_t bias) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::clamp(sum + bias, -kMost - 1, kMost));
}

/// Sums and factors of products that vectors of 32 bits have no room for.
AccumulatorOverflows add_large_products(const Accumulator& accumulator, std::span<const int32_t> factors,
                                        const int32_t* values, int64_t columns, int32_t* sums) {
  const int64_t low = -(int64_t{1} << (accumulator.width - 1));
  const int64_t high = -low - 1;
  AccumulatorOverflows total;
  for (int64_t i = 0; i < columns; ++i) {
    int64_t sum = 0;
    int64_t overflows = 0;
    for (size_t k = 0; k < factors.size(); ++k) {
      sum += int64_t{factors[k]} * values[static_cast<int64_t>(k) * columns + i];
      if (sum >= low && sum <= high) continue;
      ++overflows;
      const auto wrapped = static_cast<int64_t>(static_cast<uint64_t>(sum) << (64 - accumulator.width));
      sum = accumulator.overflow == Accumulator::Overflow::kWrap ? wrapped >> (64 - accumulator.width)
                                                                 : std::clamp(sum, low, high);
    }
    sums[i] = static_cast<int32_t>(sum);
    total += {overflows, overflows > 0 ? 1 : 0};
  }
  return total;
}

int64_t most_steps(const CodeType& type) {
  return std::max(int64_t{type.high} - type.zero_point, int64_t{type.zero_point} - type.low);
}

int64_t largest_product(const SumForm& form) {
  int64_t largest = 0;
  for (const int32_t weight : form.weight.values<int32_t>())
    largest = std::max(largest, std::abs(int64_t{weight}));
  return largest * most_steps(form.input);
}

/// Codes of at most 16 bits, counted from the zero point, as float32 holds them.
Tensor as_floats(const Tensor& codes, int32_t zero) {
  Tensor result(DType::kFloat32, codes.shape());
  std::ranges::transform(codes.values<int32_t>(), result.values<float>().begin(),
                         [&](int32_t code) { return static_cast<float>(code - zero); });
  return result;
}

AccumulatedSums sums_in_integers(const SumForm& form, const Node& node, const Accumulator& accumulator,
                                 const Tensor& codes) {
  constexpr int64_t kMostOfVectors = int64_t{1} << 30;
  const bool fits = accumulator.width == 32 || largest_product(form) <= kMostOfVectors;
  const LayerProducts<int32_t> layer(node, form.weight, codes, form.input.zero_point);
  AccumulatedSums result{.sums = Tensor(DType::kInt32, layer.shape()), .additions = layer.additions()};
  const auto to = result.sums.values<int32_t>();
  SharedOverflows overflows;
  layer.for_each_row([&](int64_t output, std::span<const int32_t> factors, const int32_t* values,
                         int64_t columns, const auto& places) {
    std::vector<int32_t> sums(static_cast<size_t>(columns));
    overflows.add(fits ? add_products(accumulator, factors, values, columns, sums.data())
                       : add_large_products(accumulator, factors, values, columns, sums.data()));
    for (int64_t i = 0; i < places.count; ++i)
      to[places.at(i)] = with_bias(sums[static_cast<size_t>(i)], form.bias[static_cast<size_t>(output)]);
  });
  result.overflows = overflows.total();
  return result;
}

/// Calls `put(output channel, place in the result, sum)` for each.
template <class Put>
AccumulatorOverflows sums_in_floats(const LayerProducts<float>& layer, const Accumulator& accumulator,
                                    const Put& put) {
  SharedOverflows overflows;
  layer.for_each_row([&](int64_t output, std::span<const float> factors, const float* values, int64_t columns,
                         const auto& places) {
    std::vector<float> sums(static_cast<size_t>(columns));
    overflows.add(add_products(accumulator, factors, values, columns, sums.data()));
    for (int64_t i = 0; i < places.count; ++i)
      put(static_cast<size_t>(output), places.at(i), sums[static_cast<size_t>(i)]);
  });
  return overflows.total();
}

}  // namespace

AccumulatedSums accumulated_sums(const SumForm& form, const Node& node, const Accumulator& accumulator,
                                 const Tensor& codes) {
  if (!accumulator.is_float()) return sums_in_integers(form, node, accumulator, codes);
  constexpr float kMost = 0x1p31F;
  const Tensor inputs = as_floats(codes, form.input.zero_point);
  const Tensor weight = as_floats(form.weight, 0);
  const LayerProducts<float> layer(node, weight, inputs, 0);
  AccumulatedSums result{.sums = Tensor(DType::kInt32, layer.shape()), .additions = layer.additions()};
  const auto to = result.sums.values<int32_t>();
  result.overflows = sums_in_floats(layer, accumulator, [&](size_t output, size_t at, float sum) {
    to[at] = with_bias(static_cast<int64_t>(std::clamp(sum, -kMost, kMost)), form.bias[output]);
  });
  return result;
}

AccumulatedSums accumulated_sums(const Tensor& weight, std::span<const float> bias, const Node& node,
                                 const Accumulator& accumulator, const Tensor& values) {
  DETENT_CHECK(accumulator.is_float(), "values in {}", accumulator.text());
  const LayerProducts<float> layer(node, weight, values, 0);
  AccumulatedSums result{.sums = Tensor(DType::kFloat32, layer.shape()), .additions = layer.additions()};
  const auto to = result.sums.values<float>();
  result.overflows = sums_in_floats(layer, accumulator, [&](size_t output, size_t at, float sum) {
    to[at] = bias.empty() ? sum : sum + bias[output];
  });
  return result;
}

int64_t products_bound(const SumForm& form, const Node& node) {
  const WeightChannels channels(node);
  const int64_t low = form.input.low - form.input.zero_point;
  const int64_t high = form.input.high - form.input.zero_point;
  std::vector<int64_t> most(static_cast<size_t>(channels.outputs()));
  std::vector<int64_t> least(most.size());
  int64_t index = 0;
  for (const int32_t weight : form.weight.values<int32_t>()) {
    const auto output = static_cast<size_t>(channels.output(index++));
    most[output] += std::max(weight * low, weight * high);
    least[output] -= std::min(weight * low, weight * high);
  }
  int64_t bound = 0;
  for (size_t o = 0; o < most.size(); ++o) bound = std::max({bound, most[o], least[o]});
  return bound;
}

int guaranteed_width(int64_t bound) {
  return 1 + static_cast<int>(std::bit_width(static_cast<uint64_t>(bound)));
}

std::optional<Accumulator> inexact_accumulator(const SumForm& form, const Node& node) {
  const std::optional<Accumulator> accumulator = accumulator_of(node);
  if (!accumulator || accumulator->holds(products_bound(form, node))) return std::nullopt;
  return accumulator;
}

std::string inexact_accumulator_text(const Graph& graph, const Node& node) {
  const std::optional<Accumulator> accumulator = accumulator_of(node);
  if (!accumulator) return "";
  const auto form = graph.requantization() ? node_form(node, *graph.requantization()) : std::nullopt;
  const auto* sums = form ? std::get_if<SumForm>(&*form) : nullptr;
  if (sums == nullptr) return fmt::format("has the accumulator {}", accumulator->text());
  if (!inexact_accumulator(*sums, node)) return "";
  return fmt::format("has the accumulator {}, where {} bits would hold every sum", accumulator->text(),
                     guaranteed_width(products_bound(*sums, node)));
}

}  // namespace detent
