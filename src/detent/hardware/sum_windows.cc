#include "detent/hardware/layer_circuits.h"

#include <algorithm>
#include <numeric>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/windows.h"

namespace detent {
namespace {

Shape spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

/// Positions from `place` in row-major order of `shape`.
std::vector<int64_t> index_of(int64_t place, const Shape& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; place /= shape[d]) index[d] = place % shape[d];
  return index;
}

}  // namespace

std::vector<std::vector<int32_t>> consecutive_windows(int64_t positions, int64_t taps) {
  std::vector<std::vector<int32_t>> windows(static_cast<size_t>(positions));
  for (size_t p = 0; p < windows.size(); ++p) {
    windows[p].resize(static_cast<size_t>(taps));
    std::iota(windows[p].begin(), windows[p].end(), static_cast<int32_t>(p) * static_cast<int32_t>(taps));
  }
  return windows;
}

std::vector<std::vector<int32_t>> windows_of_all_channels(const std::vector<std::vector<int32_t>>& plane,
                                                          const Shape& input) {
  const auto plane_size = static_cast<int32_t>(element_count(spatial(input)));
  std::vector<std::vector<int32_t>> windows;
  for (const auto& taps : plane) {
    auto& window = windows.emplace_back();
    for (int32_t c = 0; c < input[1]; ++c) {
      for (const int32_t tap : taps) window.push_back(tap == SumBody::kPadding ? tap : c * plane_size + tap);
    }
  }
  return windows;
}

SumBody::Channel sum_channel(std::vector<SumBody::Term> terms, int64_t bias, const CodeType& input) {
  SumBody::Channel channel{.terms = std::move(terms), .bias = bias, .sums = {}};
  for (const SumBody::Term& term : channel.terms) channel.bias -= int64_t{input.zero_point} * term.weight;
  channel.sums = {channel.bias, channel.bias};
  for (const SumBody::Term& term : channel.terms) {
    const int64_t at_low = int64_t{term.weight} * input.low;
    const int64_t at_high = int64_t{term.weight} * input.high;
    channel.sums.low += std::min(at_low, at_high);
    channel.sums.high += std::max(at_low, at_high);
  }
  return channel;
}

std::vector<std::vector<int32_t>> plane_windows(const Node& node, const Shape& input, const Shape& kernel,
                                                const Shape& output) {
  const Shape in = spatial(input);
  const Shape out = spatial(output);
  const auto stride = integers_attribute(node, "stride", in.size());
  const auto padding = integers_attribute(node, "padding", in.size());
  const auto dilation = integers_attribute(node, "dilation", in.size());
  std::vector<std::vector<int32_t>> windows;
  for (int64_t o = 0; o < element_count(out); ++o) {
    const std::vector<int64_t> at = index_of(o, out);
    auto& window = windows.emplace_back();
    for (int64_t k = 0; k < element_count(kernel); ++k) {
      const std::vector<int64_t> tap = index_of(k, kernel);
      int64_t place = 0;
      for (size_t d = 0; d < in.size() && place >= 0; ++d) {
        const int64_t position = at[d] * stride[d] - padding[d] + tap[d] * dilation[d];
        place = position < 0 || position >= in[d] ? -1 : place * in[d] + position;
      }
      window.push_back(place < 0 ? SumBody::kPadding : static_cast<int32_t>(place));
    }
  }
  return windows;
}

SumBody sum_body(const SumForm& form, const Node& node, const Shape& input, const Shape& output) {
  const auto& sum = *trait<WeightedSum>(node);
  if (sum.transposed)
    fail("node \"{}\" ({}): no hardware is made of transposed convolutions", node.name, node.op);
  SumBody body;
  body.padding_code = form.input.zero_point;
  body.channels_last = sum.spatial_dims == 0;
  const int64_t outputs = form.weight.dim(0);
  const int64_t taps = form.weight.numel() / std::max<int64_t>(outputs, 1);  // of one output channel
  int64_t groups = 1;
  if (sum.spatial_dims == 0) {
    body.windows = consecutive_windows(element_count(input) / taps, taps);
  } else {
    groups = integer_attribute(node, "groups");
    const Shape kernel(form.weight.shape().begin() + 2, form.weight.shape().end());
    body.windows = windows_of_all_channels(plane_windows(node, input, kernel, output), input);
  }
  const auto weights = form.weight.values<int32_t>();
  for (int64_t o = 0; o < outputs; ++o) {
    const int64_t first_tap = o / (outputs / groups) * taps;
    std::vector<SumBody::Term> terms;
    for (int64_t t = 0; t < taps; ++t) {
      const int32_t weight = weights[static_cast<size_t>(o * taps + t)];
      if (weight != 0) terms.push_back({static_cast<int32_t>(first_tap + t), weight});
    }
    body.channels.push_back(sum_channel(std::move(terms), form.bias[static_cast<size_t>(o)], form.input));
  }
  return body;
}

std::vector<std::vector<int32_t>> pooling_elements(const Node& node, const Shape& input) {
  const Shape in = spatial(input);
  const std::vector<std::vector<PoolingWindow>> dims = pooling_windows(node, input);
  std::vector<std::vector<int32_t>> plane = {{0}};
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<std::vector<int32_t>> longer;
    for (const auto& places : plane) {
      for (const PoolingWindow& window : dims[d]) {
        auto& next = longer.emplace_back();
        for (const int32_t place : places) {
          for (int64_t i = window.begin; i < window.end; i += window.step)
            next.push_back(static_cast<int32_t>(place * in[d] + i));
        }
      }
    }
    plane = std::move(longer);
  }
  const auto plane_size = static_cast<int32_t>(element_count(in));
  std::vector<std::vector<int32_t>> windows;
  for (int32_t c = 0; c < input[1]; ++c) {
    for (const auto& places : plane) {
      auto& window = windows.emplace_back(places);
      for (int32_t& place : window) place += c * plane_size;
    }
  }
  return windows;
}

}  // namespace detent
