#include "detent/statistics/accumulators.h"

#include <algorithm>
#include <array>
#include <limits>
#include <mutex>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"

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

/// One thread's sweep over some slots.
class Accumulators::Sweep {
 public:
  Sweep(Accumulators& data, Accumulators* post_relu, int64_t values_of_slot)
      : data_(data), post_relu_(post_relu) {
    if (!data.values_ || data.values_->is_exact()) return;
    const int key_bits = data.needs_.values->key_bits;
    if (values_of_slot >= KeyCounter::worthwhile_values(key_bits))
      counter_ = &KeyCounter::of_thread(key_bits);
  }

  /// A chunk of a slot; best after another one of the same. `next` is what comes after it, if known.
  void add(size_t slot, std::span<const float> values, std::span<const float> next = {}) {
    if (slot != slot_) {
      end_slot();
      slot_ = slot;
    }
    if (data_.only_extremes()) {
      negatives_ += extremes_.add_alone(values, buffers_);
    } else {
      negatives_ += extremes_.add(values, buffers_);
      if (!buffers_.have_room()) empty_buffers(next);
    }
  }
  /// After all chunks of a sample, to take its range.
  void end_sample() {
    data_.sample_ranges_[slot_].add(extremes_);
    if (post_relu_ != nullptr) post_relu_->sample_ranges_[slot_].add(extremes_.post_relu(negatives_));
    end_extremes();
  }
  /// After all chunks.
  void end_slot() {
    if (extremes_.count() > 0) end_extremes();
    empty_buffers();
    if (counter_ != nullptr) empty_counter();
  }

 private:
  void end_extremes() {
    data_.extremes_[slot_].merge(extremes_);
    if (post_relu_ != nullptr) post_relu_->extremes_[slot_].merge(extremes_.post_relu(negatives_));
    extremes_ = {};
    negatives_ = 0;
  }
  void empty_buffers(std::span<const float> next = {}) {
    std::array<Accumulators*, 2> targets = {&data_, post_relu_};
    const size_t negatives = std::min(buffers_.negative.chunk().values.size(), next.size());
    use(buffers_.negative, std::span(targets).first(1), next);
    use(buffers_.positive, std::span(targets).first(post_relu_ == nullptr ? 1 : 2), next.subspan(negatives));
  }
  void use(SignBuffer& buffer, std::span<Accumulators* const> targets, std::span<const float> next) {
    const FiniteChunk chunk = buffer.chunk();
    if (chunk.values.empty()) return;
    if (!data_.sums_.empty()) {
      std::array<PowerTarget, 2> powers;
      for (size_t i = 0; i < targets.size(); ++i) powers[i] = targets[i]->powers(slot_);
      adder_.add(chunk, std::span(powers).first(targets.size()), counter_, next);
    } else if (counter_ != nullptr) {
      counter_->add(chunk);
    }
    if (counter_ != nullptr) {
      if (counter_->is_full()) empty_counter();
    } else if (data_.values_) {
      for (Accumulators* target : targets) target->values_->add(slot_, chunk);
    }
    buffer.clear();
  }
  void empty_counter() {
    data_.values_->add(slot_, *counter_, post_relu_ == nullptr ? nullptr : &*post_relu_->values_);
  }

  Accumulators& data_;
  Accumulators* post_relu_;
  size_t slot_ = 0;
  Extremes extremes_;
  int64_t negatives_ = 0;  // finite, of those that the extremes have seen
  KeyCounter* counter_ = nullptr;
  SignBuffers buffers_;
  PowerAdder adder_;
};

bool Accumulators::only_extremes() const { return !needs_.sums && !needs_.higher_sums && !values_; }

PowerTarget Accumulators::powers(size_t slot) {
  return {&sums_[slot], needs_.higher_sums ? &higher_sums_[slot] : nullptr};
}

/// Different tiles hold different slots.
void Accumulators::sweep(const float* data, const SlotLayout& layout, Accumulators* post_relu) {
  const int64_t tile_size =
      layout.slot_size() * std::min<int64_t>(SlotLayout::kMaxTileSlots, static_cast<int64_t>(layout.slots()));
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, tile_size));
  const int64_t shortest_run = only_extremes() ? 100 : kChunkValues / 2;
  parallel_for(static_cast<int64_t>(layout.tiles()), grain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    Sweep sweep(*this, post_relu, layout.is_interleaved() ? 0 : layout.slot_size());
    for (auto tile = static_cast<size_t>(begin); tile < static_cast<size_t>(end); ++tile)
      layout.read_tile(data, tile, shortest_run,
                       [&](size_t slot, std::span<const float> values) { sweep.add(slot, values); });
    sweep.end_slot();
  });
}

/// One slot. Its sample ranges are taken on the way where `sample_size` is not 0.
void Accumulators::sweep_slot(std::span<const float> values, size_t sample_size, Accumulators* post_relu,
                              const AfterSamples& after) {
  Sweep sweep(*this, post_relu, static_cast<int64_t>(values.size()));
  const size_t step = sample_size == 0 ? values.size() : sample_size;
  for (size_t first = 0; first < values.size(); first += step) {
    for (size_t begin = 0; begin < step; begin += kChunkValues) {
      const size_t size = std::min(kChunkValues, step - begin);
      sweep.add(0, values.subspan(first + begin, size), values.subspan(first + begin + size));
    }
    if (sample_size != 0) sweep.end_sample();
    if (sample_size != 0 && after) after(static_cast<int64_t>(first / step + 1));
  }
  sweep.end_slot();
}

Accumulators Accumulators::empty_part() const {
  Needs needs = needs_;
  needs.record_bytes.reset();
  Accumulators part({}, needs);
  if (values_ && !values_->is_exact()) part.values_->become_histograms();
  return part;
}

void Accumulators::merge_part(const Accumulators& part) {
  extremes_[0].merge(part.extremes_[0]);
  if (!sums_.empty()) sums_[0].merge(part.sums_[0]);
  if (!higher_sums_.empty()) higher_sums_[0].merge(part.higher_sums_[0]);
  if (!sample_ranges_.empty()) sample_ranges_[0].merge(part.sample_ranges_[0]);
  if (values_) values_->merge(*part.values_);
}

/// The same: whole samples, or any values, for each thread, then all together.
void Accumulators::sweep_slot_in_parts(std::span<const float> values, size_t sample_size,
                                       Accumulators* post_relu) {
  const auto count = static_cast<int64_t>(values.size());
  const auto unit = static_cast<int64_t>(std::max<size_t>(sample_size, 1));
  const int64_t wanted = std::max(kGrain, (count - 1) / thread_count() + 1);
  const int64_t part_size = (wanted - 1) / unit * unit + unit;
  std::mutex mutex;
  parallel_for(count, part_size, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    Accumulators part = empty_part();
    Accumulators post_relu_part = empty_part();
    part.sweep_slot(values.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), sample_size,
                    post_relu == nullptr ? nullptr : &post_relu_part);
    const std::lock_guard lock(mutex);
    merge_part(part);
    if (post_relu != nullptr) post_relu->merge_part(post_relu_part);
  });
}

/// Makes room for a batch, which is about to be swept.
void Accumulators::expect(const Tensor& batch) {
  elements_ += batch.numel();
  samples_ += batch.rank() == 0 ? 1 : batch.dim(0);
  if (values_ && elements_ > needs_.values->exact_values) values_->become_histograms();
  resize();
}

void Accumulators::update(const Tensor& given, std::optional<int64_t> first_sample, Accumulators* post_relu,
                          const AfterSamples& after) {
  DETENT_CHECK(post_relu == nullptr || (post_relu->elements_ == elements_ && !post_relu->recording_),
               "post-ReLU statistics that have seen other values, or records them");
  reduction_.accept(sample_shape_of(given));
  if (post_relu != nullptr) post_relu->reduction_.accept(sample_shape_of(given));
  if (recording_) recording_->add(given, first_sample);
  const Tensor batch = reduction_.arranged(given);
  const Shape sample_shape = sample_shape_of(batch);
  expect(batch);
  if (post_relu != nullptr) post_relu->expect(batch);
  const int64_t samples = batch.rank() == 0 ? 1 : batch.dim(0);
  if (batch.numel() == 0) {
    if (after) after(samples);
    return;
  }
  const std::vector<bool> kept = reduction_.kept(sample_shape);
  const auto values = batch.values<float>();
  Shape shape = sample_shape;
  shape.insert(shape.begin(), samples);
  std::vector<bool> kept_of_batch = kept;
  kept_of_batch.insert(kept_of_batch.begin(), false);
  const SlotLayout layout(shape, kept_of_batch);
  // Small samples are not worth chunks of their own.
  const auto sample_size = static_cast<size_t>(batch.numel() / samples);
  const bool by_sample = needs_.sample_ranges && layout.slots() == 1 && sample_size >= kChunkValues / 4;
  if (layout.slots() > 1) {
    sweep(values.data(), layout, post_relu);
  } else if (batch.numel() >= 2 * kGrain && thread_count() > 1 && !in_parallel_for()) {
    sweep_slot_in_parts(values, by_sample ? sample_size : 0, post_relu);
  } else {
    const DefaultFloatEnvironment environment;
    sweep_slot(values, by_sample ? sample_size : 0, post_relu, after);
  }
  if (needs_.sample_ranges && !by_sample)
    add_sample_ranges(values.data(), samples, SlotLayout(sample_shape, kept), sample_ranges_,
                      post_relu == nullptr ? nullptr : &post_relu->sample_ranges_);
  if (after) after(samples);
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
  return sums_[slot].variance(extremes_[slot].finite(), abs);
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
