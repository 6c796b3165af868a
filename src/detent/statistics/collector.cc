#include "detent/statistics/collector.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/xxh64.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

constexpr uint32_t kMagic = 0x54535444;  // "DTST"
constexpr uint16_t kVersion = 2;

Table options_of(const Value& value, const std::string& where) {
  const Table* options = value.get_if<Table>();
  if (options == nullptr) fail("{}: got {}, expected a table of options", where, value_text(value));
  return *options;
}

void check_dtype(const Tensor& batch) {
  if (batch.dtype() != DType::kFloat32)
    fail("statistics: got a tensor of {}, expected float32", dtype_name(batch.dtype()));
}

}  // namespace

Collector::Collector(const Table& statistics, const std::string& where) {
  Table resolved;
  for (const auto& [name, options] : statistics) {
    auto statistic = make_statistic(name, options_of(options, where), where);
    const Dims dims = statistic->dims();
    const auto found = std::ranges::find(groups_, dims, &Group::dims);
    const auto group = static_cast<size_t>(found - groups_.begin());
    if (found == groups_.end()) groups_.push_back({dims, {}});
    groups_[group].needs.include(statistic->needs());
    resolved[name] = statistic->options();
    entries_.push_back({name, std::move(statistic), group});
  }
  accumulators_ = empty_accumulators();
  signature_ = value_text(resolved);
}

std::vector<Accumulators> Collector::empty_accumulators() const {
  std::vector<Accumulators> accumulators;
  for (const Group& group : groups_) accumulators.emplace_back(group.dims, group.needs);
  return accumulators;
}

void Collector::update(const Tensor& sample_batch, std::optional<int64_t> first_sample) {
  sweep(sample_batch, first_sample, nullptr);
}

void Collector::update_with_post_relu(const Tensor& sample_batch, Collector& post_relu) {
  DETENT_CHECK(this != &post_relu && signature_ == post_relu.signature_, "{} with post-ReLU {}", signature_,
               post_relu.signature_);
  sweep(sample_batch, {}, &post_relu);
}

/// Groups that look at the extremes alone, which takes no longer than to fetch the values from memory, follow
/// the first one of the others piece by piece.
void Collector::sweep(const Tensor& sample_batch, std::optional<int64_t> first_sample, Collector* post_relu) {
  constexpr int64_t kPiece = int64_t{1} << 16;  // values
  check_dtype(sample_batch);
  const DefaultFloatEnvironment environment;
  const auto post_relu_of = [&](size_t i) {
    return post_relu == nullptr ? nullptr : &post_relu->accumulators_[i];
  };
  const auto led = std::ranges::find_if_not(accumulators_, &Accumulators::only_extremes);
  const auto leader = static_cast<size_t>(led - accumulators_.begin());
  const bool leads = leader < accumulators_.size() && sample_batch.rank() > 0;
  for (size_t i = 0; i < accumulators_.size(); ++i) {
    if (i != leader && !(leads && accumulators_[i].only_extremes()))
      accumulators_[i].update(sample_batch, first_sample, post_relu_of(i));
  }
  if (leader == accumulators_.size()) return;
  int64_t followed = 0;
  const auto follow = [&](int64_t seen) {
    const int64_t samples = sample_batch.dim(0);
    if (seen < samples && (seen - followed) * (sample_batch.numel() / samples) < kPiece) return;
    if (seen == followed && samples > 0) return;
    const Tensor piece = sample_batch.rows(followed, seen);
    for (size_t i = 0; i < accumulators_.size(); ++i) {
      if (!accumulators_[i].only_extremes()) continue;
      const auto first = first_sample ? std::optional(*first_sample + followed) : std::nullopt;
      accumulators_[i].update(piece, first, post_relu_of(i));
    }
    followed = seen;
  };
  accumulators_[leader].update(sample_batch, first_sample, post_relu_of(leader),
                               leads ? Accumulators::AfterSamples(follow) : Accumulators::AfterSamples());
}

bool Collector::records() const {
  return std::ranges::any_of(groups_,
                             [](const Group& group) { return group.needs.record_bytes.has_value(); });
}

bool Collector::takes_any_order() const {
  return !records() && std::ranges::all_of(groups_, [](const Group& group) { return group.dims == Dims(); });
}

void Collector::merge(const Collector& other) {
  DETENT_CHECK(this != &other && signature_ == other.signature_, "merging {} into {}", other.signature_,
               signature_);
  const DefaultFloatEnvironment environment;
  for (size_t i = 0; i < accumulators_.size(); ++i) accumulators_[i].merge(other.accumulators_[i]);
}

bool Collector::empty() const {
  return std::ranges::all_of(accumulators_, [](const Accumulators& data) { return data.elements() == 0; });
}

std::vector<std::string> Collector::names() const {
  std::vector<std::string> names;
  for (const Entry& each : entries_) names.push_back(each.name);
  return names;
}

const Collector::Entry& Collector::entry(std::string_view statistic) const {
  const auto found = std::ranges::find(entries_, statistic, &Entry::name);
  DETENT_CHECK(found != entries_.end(), "\"{}\" is not collected", statistic);
  return *found;
}

const Accumulators& Collector::accumulators(std::string_view statistic) const {
  return accumulators_[entry(statistic).group];
}

Table Collector::result(std::string_view statistic) const {
  const Entry& wanted = entry(statistic);
  const Accumulators& data = accumulators_[wanted.group];
  if (data.elements() == 0) fail("{}: no value was seen", statistic);
  int64_t nan = 0;
  int64_t infinities = 0;
  for (size_t slot = 0; slot < data.slots(); ++slot) {
    const Extremes& extremes = data.extremes(slot);
    if (extremes.nan() == extremes.count())
      fail("{}: only NaN was seen{}, which infinite samples and overflow lead to", statistic,
           data.slots() == 1 ? "" : fmt::format(" at kept position {} of {}", slot, data.slots()));
    nan += extremes.nan();
    infinities += extremes.infinities();
  }
  const DefaultFloatEnvironment environment;
  Table table = wanted.statistic->result(data);
  if (nan > 0) table["nan_count"] = nan;
  if (infinities > 0) table["infinity_count"] = infinities;
  return table;
}

std::vector<std::byte> Collector::serialize() const {
  const DefaultFloatEnvironment environment;
  StateWriter writer;
  writer.number(kMagic);
  writer.number(kVersion);
  writer.text(signature_);
  for (const Accumulators& group : accumulators_) group.write(writer);
  writer.number(xxh64(writer.bytes()));
  return writer.bytes();
}

void Collector::deserialize(std::span<const std::byte> state) {
  constexpr size_t kChecksumBytes = sizeof(uint64_t);
  StateReader header(state);
  if (header.number<uint32_t>() != kMagic) bad_state("this is none");
  if (const auto version = header.number<uint16_t>(); version != kVersion)
    bad_state(fmt::format("got version {}, expected {}", version, kVersion));
  header.expect(kChecksumBytes, 1);
  StateReader reader(state.first(state.size() - kChecksumBytes).subspan(state.size() - header.left()));
  StateReader checksum(state.last(kChecksumBytes));
  if (checksum.number<uint64_t>() != xxh64(state.first(state.size() - kChecksumBytes)))
    bad_state("it is damaged or incomplete");
  if (const std::string signature = reader.text(); signature != signature_)
    bad_state(fmt::format("got one of {}, expected {}", signature, signature_));
  const DefaultFloatEnvironment environment;
  std::vector<Accumulators> accumulators = empty_accumulators();
  for (Accumulators& group : accumulators) group.read(reader);
  if (reader.left() > 0) bad_state(fmt::format("got {} bytes more than expected", reader.left()));
  accumulators_ = std::move(accumulators);
}

}  // namespace detent
