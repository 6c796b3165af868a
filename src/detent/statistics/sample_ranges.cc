#include "detent/statistics/accumulators.h"

#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"

namespace detent {

void SampleRangeSums::add(const Extremes& sample) {
  if (sample.finite() == 0) return;
  min.add(sample.finite_min());
  max.add(sample.finite_max());
  min_magnitude.add(sample.finite_min_magnitude());
  max_magnitude.add(sample.finite_max_magnitude());
  ++samples;
}

void SampleRangeSums::merge(const SampleRangeSums& other) {
  min.merge(other.min);
  max.merge(other.max);
  min_magnitude.merge(other.min_magnitude);
  max_magnitude.merge(other.max_magnitude);
  samples += other.samples;
}

double SampleRangeSums::mean(const ExactSum& sum) const {
  return static_cast<double>(sum.value() / static_cast<Float128>(samples));
}

void SampleRangeSums::write(StateWriter& writer) const {
  for (const ExactSum* sum : {&min, &max, &min_magnitude, &max_magnitude}) sum->write(writer);
  writer.count(samples);
}

void SampleRangeSums::read(StateReader& reader) {
  for (ExactSum* sum : {&min, &max, &min_magnitude, &max_magnitude}) sum->read(reader);
  samples = reader.count();
}

void add_sample_ranges(const float* data, int64_t samples, const SlotLayout& sample_layout,
                       std::vector<SampleRangeSums>& sums, std::vector<SampleRangeSums>* post_relu) {
  const auto sample_size = static_cast<int64_t>(sample_layout.slots()) * sample_layout.slot_size();
  constexpr int64_t kValuesOfThread = int64_t{1} << 16;
  constexpr int64_t kShortestRun = 64;
  const int64_t tile_size =
      sample_size * samples / std::max<int64_t>(1, static_cast<int64_t>(sample_layout.tiles()));
  const int64_t grain = std::max<int64_t>(1, kValuesOfThread / std::max<int64_t>(1, tile_size));
  parallel_for(static_cast<int64_t>(sample_layout.tiles()), grain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    SignBuffers buffers;
    for (auto tile = static_cast<size_t>(begin); tile < static_cast<size_t>(end); ++tile) {
      const size_t first = sample_layout.first_slot(tile);
      for (int64_t sample = 0; sample < samples; ++sample) {
        std::array<Extremes, SlotLayout::kMaxTileSlots> extremes;
        std::array<int64_t, SlotLayout::kMaxTileSlots> negatives{};
        sample_layout.read_tile(data + sample * sample_size, tile, kShortestRun,
                                [&](size_t slot, std::span<const float> chunk) {
                                  negatives[slot - first] += extremes[slot - first].add_alone(chunk, buffers);
                                });
        for (size_t i = 0; i < extremes.size() && first + i < sums.size(); ++i) {
          sums[first + i].add(extremes[i]);
          if (post_relu != nullptr) (*post_relu)[first + i].add(extremes[i].post_relu(negatives[i]));
        }
      }
    }
  });
}

}  // namespace detent
