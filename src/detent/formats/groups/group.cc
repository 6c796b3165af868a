#include "detent/formats/groups/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

constexpr int64_t kChunk = 16384;

}  // namespace

template <class Result, class OfPart, class Fold>
Result Group::reduce(const OfPart& of_part, const Fold& fold) const {
  const int64_t count = element_count();
  std::vector<Result> chunks(static_cast<size_t>((count + kChunk - 1) / kChunk));
  parallel_for(count, kChunk, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    chunks[static_cast<size_t>(begin / kChunk)] =
        of_part(GroupPart{values_.data(), grouping_, index_, begin, end});
  });
  Result total{};
  for (const Result& chunk : chunks) fold(total, chunk);
  return total;
}

MagnitudeSum Group::sum_of(std::span<const float> gammas, float bound) const {
  return reduce<MagnitudeSum>([&](const GroupPart& part) { return sum_magnitudes(part, gammas, bound); },
                              [](MagnitudeSum& total, const MagnitudeSum& chunk) {
                                total.sum += chunk.sum;
                                total.count += chunk.count;
                              });
}

MagnitudeSum Group::magnitudes_above(float bound) const { return sum_of({}, bound); }

MagnitudeSum Group::residual_magnitudes(std::span<const float> gammas) const {
  DETENT_CHECK(gammas.size() <= kMostGammas, "{} gammas", gammas.size());
  return sum_of(gammas, -1.0F);
}

Interval Group::range_with_zero() const {
  if (range_ != nullptr) return *range_;
  return reduce<Interval>([](const GroupPart& part) { return detent::range_with_zero(part); },
                          [](Interval& total, const Interval& chunk) {
                            total = {std::min(total.low, chunk.low), std::max(total.high, chunk.high)};
                          });
}

float Group::largest_magnitude() const {
  return reduce<float>([](const GroupPart& part) { return detent::largest_magnitude(part); },
                       [](float& total, float chunk) { total = std::max(total, chunk); });
}

std::vector<Interval> ranges_of_columns(std::span<const float> values, const Grouping& grouping) {
  const auto columns = static_cast<size_t>(grouping.length * grouping.inner);
  const int64_t rows_of_chunk = std::max<int64_t>(1, (int64_t{1} << 18) / static_cast<int64_t>(columns));
  std::vector<Interval> ranges(static_cast<size_t>(grouping.length), Interval{0, 0});
  std::mutex mutex;
  parallel_for(grouping.outer, rows_of_chunk, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment environment;
    std::vector<float> low(columns), high(columns);
    widen_ranges(values.data() + static_cast<size_t>(begin) * columns, end - begin, low, high);
    const std::lock_guard lock(mutex);  // in any order: minima and maxima are the same
    for (size_t i = 0; i < columns; ++i) {
      Interval& range = ranges[i / static_cast<size_t>(grouping.inner)];
      range = {std::min(range.low, low[i] + 0.0F), std::max(range.high, high[i] + 0.0F)};
    }
  });
  return ranges;
}

std::string Group::name() const {
  if (grouping_.groups() == 1) return "the tensor";
  return fmt::format("{} {}", grouping_.run == 0 ? "channel" : "group", index_);
}

std::vector<std::vector<float>> values_by_group(std::span<const float> values, const Grouping& grouping) {
  std::vector<std::vector<float>> groups(static_cast<size_t>(grouping.groups()));
  for (int64_t i = 0, end = 0; i < std::ssize(values); i = end) {
    end = std::min(std::ssize(values), grouping.end_of_run(i));
    std::vector<float>& group = groups[static_cast<size_t>(grouping.group_of(i))];
    group.insert(group.end(), values.begin() + i, values.begin() + end);
  }
  return groups;
}

}  // namespace detent
