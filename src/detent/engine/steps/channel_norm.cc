#include <algorithm>
#include <vector>

#include "detent/engine/steps/place_rows.h"
#include "detent/kernels/normalization.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

/// The sums of group_norm are in the order of values channel by channel: groups that fill vectors of channels
/// are moved into that order for them, and all values are scaled where they lie.
class ChannelNormStep final : public EngineStep {
 public:
  explicit ChannelNormStep(ChannelNormLayer layer) : layer_(std::move(layer)) {
    weight_ = parameter("weight");
    bias_ = parameter("bias");
  }

  void run(RunState& state) const override {
    const Place& in = state.places[layer_.from];
    const Place& out = state.places[layer_.to];
    const int64_t channels = in.channels();
    const int64_t samples = in.images() / in.depth();
    std::vector<float> scales(static_cast<size_t>(3 * samples * channels));
    find_scales(state, scales);
    const float* const from = state.values(layer_.from);
    float* const to = state.values(layer_.to);
    fill_halo(out, state.bytes(layer_.to));
    for_each_row(out, state, [&](int64_t n, int64_t y) {
      const float* const high = scales.data() + n / in.depth() * 3 * channels;
      const ChannelScales by{high, high + channels, high + 2 * channels, weight_, bias_};
      for_each_run(in, out, n, y, [&](int64_t first, int64_t result, int64_t count) {
        scale_channels(by, channels, count / channels, from + first, to + result);
      });
    });
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }

 private:
  static constexpr int64_t kVectorChannels = 16;

  const float* parameter(std::string_view name) const {
    const auto found = std::ranges::find(*layer_.parameters, name, &NamedTensors::value_type::first);
    return found == layer_.parameters->end() ? nullptr : std::as_const(found->second).values<float>().data();
  }

  /// For each sample, what is taken off each channel, the rest of it, and its factor.
  void find_scales(RunState& state, std::vector<float>& scales) const {
    const Place& in = state.places[layer_.from];
    const int64_t channels = in.channels();
    const int64_t of_group = channels / layer_.groups;
    const int64_t at_once = (kVectorChannels + of_group - 1) / of_group;  // groups
    const int64_t blocks = (layer_.groups + at_once - 1) / at_once;
    const int64_t positions = in.depth() * in.height() * in.width();
    ThreadPool::shared().run(in.images() / in.depth() * blocks, state.threads, [&](int64_t task) {
      const int64_t n = task / blocks;
      const int64_t first = task % blocks * at_once * of_group;
      const int64_t count = std::min(at_once * of_group, channels - first);
      thread_local std::vector<float> rows;
      rows.resize(static_cast<size_t>(count * positions));
      move_channels(in, state.values(layer_.from) + first, n, count, rows.data());
      float* const high = scales.data() + n * 3 * channels;
      for (int64_t c = 0; c < count; c += of_group) {
        const std::span<const float> group(rows.data() + c * positions,
                                           static_cast<size_t>(of_group * positions));
        const RowScale by = group_scale(group, layer_.eps);
        std::fill_n(high + first + c, of_group, by.high);
        std::fill_n(high + channels + first + c, of_group, by.low);
        std::fill_n(high + 2 * channels + first + c, of_group, by.scale);
      }
    });
  }

  /// Some channels of sample `n`, one after the other.
  static void move_channels(const Place& in, const float* from, int64_t n, int64_t channels, float* to) {
    const int64_t positions = in.depth() * in.height() * in.width();
    for (int64_t z = 0; z < in.depth(); ++z) {
      for (int64_t y = 0; y < in.height(); ++y)
        channels_to_front(from + in.at(n, z, y, 0), in.pitch(), channels, in.width(),
                          to + (z * in.height() + y) * in.width(), positions);
    }
  }

  ChannelNormLayer layer_;
  const float* weight_;
  const float* bias_;
};

}  // namespace

std::unique_ptr<EngineStep> channel_norm_step(ChannelNormLayer layer) {
  return std::make_unique<ChannelNormStep>(std::move(layer));
}

}  // namespace detent
