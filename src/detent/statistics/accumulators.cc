#include "detent/statistics/accumulators.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/float_environment.h"

namespace detent {
namespace {

/// Values that are worth a thread.
constexpr int64_t kGrain = int64_t{1} << 16;

Shape sample_shape_of(const Tensor& batch) {
  return batch.rank() == 0 ? Shape{} : Shape(batch.shape().begin() + 1, batch.shape().end());
}

}  // namespace

void Needs::include(const Needs& other) {
  sums |= other.sums;
  higher_sums |= other.higher_sums;
  sample_ranges |= other.sample_ranges;
  if (other.values) {
    if (!values) values.emplace();
    values->exact_values = std::max(values->exact_values, other.values->exact_values);
    values->key_bits = std::max(values->key_bits, other.values->key_bits);
  }
  if (other.record_bytes) record_bytes = std::max(record_bytes.value_or(0), *other.record_bytes);
}

Accumulators::Accumulators(Dims dims, Needs needs) : needs_(std::move(needs)), reduction_(std::move(dims)) {
  if (needs_.values) values_.emplace(*needs_.values);
  if (needs_.record_bytes) recording_.emplace(*needs_.record_bytes);
  resize();
}

void Accumulators::resize() {
  const size_t slots = reduction_.slots();
  extremes_.resize(slots);
  if (needs_.sums || needs_.higher_sums) sums_.resize(slots);
  if (needs_.higher_sums) higher_sums_.resize(slots);
  if (needs_.sample_ranges) sample_ranges_.resize(slots);
  if (values_) values_->resize(slots);
}

/// Different tiles hold different slots.
void Accumulators::sweep(const float* data, const SlotLayout& layout) {
  const int64_t tile_size =
      layout.slot_size() * std::min<int64_t>(SlotLayout::kMaxTileSlots, static_cast<int64_t>(layout.slots()));
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, tile_size));
  const bool alone = !needs_.sums && !needs_.higher_sums && !values_;
  parallel_for(static_cast<int64_t>(layout.tiles()), grain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    ChunkBuffer buffer;
    PowerAdder adder;
    for (int64_t tile = begin; tile < end; ++tile) {
      layout.read_tile(data, static_cast<size_t>(tile), [&](size_t slot, std::span<const float> values) {
        if (alone) return extremes_[slot].add_alone(values, buffer);
        const FiniteChunk chunk = extremes_[slot].add(values, buffer);
        if (needs_.higher_sums) {
          adder.add(chunk, sums_[slot], higher_sums_[slot]);
        } else if (needs_.sums) {
          adder.add(chunk, sums_[slot]);
        }
        if (values_) values_->add(slot, chunk);
      });
    }
  });
}

/// One slot: a part for each thread, then all together.
void Accumulators::sweep_in_parts(std::span<const float> values) {
  const auto count = static_cast<int64_t>(values.size());
  const int64_t part_size = std::max(kGrain, (count - 1) / thread_count() + 1);
  std::mutex mutex;
  parallel_for(count, part_size, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    Needs needs = needs_;
    needs.record_bytes.reset();
    Accumulators part({}, needs);
    if (values_ && !values_->is_exact()) part.values_->become_histograms();
    part.sweep(values.data() + begin, SlotLayout({end - begin}, {false}));
    const std::lock_guard lock(mutex);
    extremes_[0].merge(part.extremes_[0]);
    if (needs.sums || needs.higher_sums) sums_[0].merge(part.sums_[0]);
    if (needs.higher_sums) higher_sums_[0].merge(part.higher_sums_[0]);
    if (values_) values_->merge(*part.values_);
  });
}

void Accumulators::update(const Tensor& batch, std::optional<int64_t> first_sample) {
  const Shape sample_shape = sample_shape_of(batch);
  reduction_.accept(sample_shape);
  if (recording_) recording_->add(batch, first_sample);
  const int64_t samples = batch.rank() == 0 ? 1 : batch.dim(0);
  elements_ += batch.numel();
  samples_ += samples;
  if (values_ && elements_ > needs_.values->exact_values) values_->become_histograms();
  resize();
  if (batch.numel() == 0) return;
  const std::vector<bool> kept = reduction_.kept(sample_shape);
  const auto values = batch.values<float>();
  Shape shape = sample_shape;
  shape.insert(shape.begin(), samples);
  std::vector<bool> kept_of_batch = kept;
  kept_of_batch.insert(kept_of_batch.begin(), false);
  const SlotLayout layout(shape, kept_of_batch);
  if (layout.slots() == 1 && batch.numel() >= 2 * kGrain && thread_count() > 1) {
    sweep_in_parts(values);
  } else {
    sweep(values.data(), layout);
  }
  if (needs_.sample_ranges)
    add_sample_ranges(values.data(), samples, SlotLayout(sample_shape, kept), sample_ranges_);
}

void Accumulators::merge(const Accumulators& other) {
  DETENT_CHECK(this != &other, "merging a collector into itself");
  reduction_.accept(other.reduction_);
  if (recording_) recording_->merge(*other.recording_);
  elements_ += other.elements_;
  samples_ += other.samples_;
  if (values_ && elements_ > needs_.values->exact_values) values_->become_histograms();
  resize();
  for (size_t slot = 0; slot < other.extremes_.size(); ++slot) extremes_[slot].merge(other.extremes_[slot]);
  for (size_t slot = 0; slot < other.sums_.size(); ++slot) sums_[slot].merge(other.sums_[slot]);
  for (size_t slot = 0; slot < other.higher_sums_.size(); ++slot)
    higher_sums_[slot].merge(other.higher_sums_[slot]);
  for (size_t slot = 0; slot < other.sample_ranges_.size(); ++slot)
    sample_ranges_[slot].merge(other.sample_ranges_[slot]);
  if (values_) values_->merge(*other.values_);
}

double Accumulators::mean(size_t slot, bool abs) const {
  return static_cast<double>(sums_[slot].sum(abs) / static_cast<Float128>(extremes_[slot].finite()));
}

double Accumulators::variance(size_t slot, bool abs) const {
  const auto n = static_cast<Float128>(extremes_[slot].finite());
  const Float128 sum = sums_[slot].sum(abs);
  const Float128 variance = (sums_[slot].square_sum() - sum * sum / n) / n;
  return variance > 0 ? static_cast<double>(variance) : 0;
}

std::vector<ValueBin> Accumulators::bins(size_t slot, const ValueResolution& resolution, bool abs) const {
  std::vector<ValueBin> bins =
      is_exact(resolution) ? values_->exact_bins(slot) : values_->histogram_bins(slot, resolution.key_bits);
  if (abs) bins = magnitude_bins(bins);
  const int64_t zeros = extremes_[slot].zeros();
  if (zeros > 0) {
    const auto at = std::ranges::find_if(bins, [](const ValueBin& bin) { return bin.lower >= 0; });
    bins.insert(at, {0, 0, zeros});
  }
  return bins;
}

size_t Accumulators::slot_state_bytes() const {
  size_t bytes = Extremes::kStateBytes;
  if (needs_.sums || needs_.higher_sums) bytes += PowerSums::kStateBytes;
  if (needs_.higher_sums) bytes += HigherPowerSums::kStateBytes;
  if (needs_.sample_ranges) bytes += SampleRangeSums::kStateBytes;
  return bytes;
}

void Accumulators::write(StateWriter& writer) const {
  writer.count(elements_);
  writer.count(samples_);
  const auto& shape = reduction_.sample_shape();
  writer.number(static_cast<uint8_t>(shape ? 1 : 0));
  if (shape) {
    writer.compact(shape->size());
    for (const int64_t dim : *shape) writer.count(dim);
  }
  for (size_t slot = 0; slot < slots(); ++slot) {
    extremes_[slot].write(writer);
    if (!sums_.empty()) sums_[slot].write(writer);
    if (!higher_sums_.empty()) higher_sums_[slot].write(writer);
    if (!sample_ranges_.empty()) sample_ranges_[slot].write(writer);
    if (values_) values_->write(slot, writer);
  }
  if (recording_) recording_->write(writer);
}

void Accumulators::read(StateReader& reader) {
  elements_ = reader.count();
  samples_ = reader.count();
  if (reader.number<uint8_t>() != 0) {
    const uint64_t rank = reader.compact();
    reader.expect(rank, sizeof(int64_t));
    Shape shape;
    for (uint64_t i = 0; i < rank; ++i) shape.push_back(reader.count());
    reduction_.accept(shape);
  }
  reader.expect(reduction_.slots(), slot_state_bytes());
  if (values_ && elements_ > needs_.values->exact_values) values_->become_histograms();
  resize();
  int64_t elements = 0;
  for (size_t slot = 0; slot < slots(); ++slot) {
    extremes_[slot].read(reader);
    if (extremes_[slot].count() != elements_ / static_cast<int64_t>(slots()))
      bad_state("the numbers of values disagree");
    elements += extremes_[slot].count();
    if (!sums_.empty()) sums_[slot].read(reader);
    if (!higher_sums_.empty()) higher_sums_[slot].read(reader);
    if (!sample_ranges_.empty()) sample_ranges_[slot].read(reader);
    const Extremes& extremes = extremes_[slot];
    if (values_) values_->read(slot, reader, extremes.finite() - extremes.zeros());
  }
  if (elements != elements_) bad_state("the numbers of values disagree");
  if (recording_) recording_->read(reader);
}

}  // namespace detent
