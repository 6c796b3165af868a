// However the samples are cut into batches, whichever collectors see them, on however many threads, and in
// whatever order these are merged, through files or not: results and states are equal to the last bit.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "detent/core/parallel.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/statistics/collector.h"

namespace detent {
namespace {

const Value kDims[] = {"all",
                       "none",
                       List{1},
                       List{-1},
                       Table{{"keep", List{1}}},
                       List{0, 1, 2},
                       Table{{"group_size", 2}, {"axis", 1}},
                       Table{{"group_size", 1}, {"axis", -1}}};

/// The statistic with options that make it take each of its ways with few values.
Table options_of(const StatisticInfo& statistic, const Value& dims, int64_t exact_values) {
  Table options;
  for (const FieldDescription& field : statistic.options) {
    if (field.name == "dims") options["dims"] = dims;
    if (field.name == "exact_values") options["exact_values"] = exact_values;
    if (field.name == "abs") options["abs"] = exact_values % 2 == 1;
  }
  return options;
}

/// Every registered statistic, each in one collector.
Table all_with(const Value& dims, int64_t exact_values) {
  Table statistics;
  for (const StatisticInfo& statistic : all_statistics())
    statistics[statistic.name] = options_of(statistic, dims, exact_values);
  return statistics;
}

/// Any bits, with more zeros, ties and special values than bits have by themselves.
rc::Gen<float> any_float() {
  using Limits = std::numeric_limits<float>;
  return rc::gen::oneOf(
      rc::gen::map(rc::gen::inRange<uint32_t>(0, 0xFFFFFFFF),
                   [](uint32_t bits) { return std::bit_cast<float>(bits); }),
      rc::gen::map(rc::gen::inRange(-8, 9), [](int x) { return static_cast<float>(x) * 0.25F; }),
      rc::gen::element(-0.0F, Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), Limits::max(),
                       Limits::denorm_min(), -Limits::denorm_min()));
}

/// [samples, 3, 4], and a first row of ones, so that each position has a number.
Tensor any_samples() {
  const auto count = *rc::gen::inRange<size_t>(0, 20);
  std::vector<float> values = *rc::gen::container<std::vector<float>>(count * 12, any_float());
  values.insert(values.begin(), 12, 1.0F);
  return Tensor::from({static_cast<int64_t>(count) + 1, 3, 4}, values);
}

std::vector<std::string> results_of(const Collector& collector) {
  std::vector<std::string> results;
  for (const std::string& name : collector.names()) {
    try {
      results.push_back(name + value_text(collector.result(name)));
    } catch (const Error& error) {
      results.emplace_back(error.what());
    }
  }
  return results;
}

RC_GTEST_PROP(Merging, DoesNotDependOnCutsOrOrder, ()) {
  const Tensor samples = any_samples();
  const auto dims = *rc::gen::elementOf(std::vector<Value>(std::begin(kDims), std::end(kDims)));
  const Table statistics = all_with(dims, *rc::gen::inRange<int64_t>(0, 200));
  Collector whole(statistics, "test");
  whole.update(samples, 0);

  std::vector<Collector> parts;
  for (int64_t begin = 0; begin < samples.dim(0);) {
    const int64_t end = *rc::gen::inRange<int64_t>(begin, samples.dim(0)) + 1;
    if (parts.empty() || *rc::gen::arbitrary<bool>()) parts.emplace_back(statistics, "test");
    const auto seer = *rc::gen::inRange<size_t>(0, parts.size());
    parts[seer].update(samples.rows(begin, end), begin);
    begin = end;
  }
  while (parts.size() > 1) {
    const auto from = *rc::gen::inRange<size_t>(0, parts.size());
    const auto to = (from + *rc::gen::inRange<size_t>(1, parts.size())) % parts.size();
    if (*rc::gen::arbitrary<bool>()) {
      Collector read(statistics, "test");
      read.deserialize(parts[from].serialize());
      parts[to].merge(read);
    } else {
      parts[to].merge(parts[from]);
    }
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(from));
  }
  RC_ASSERT(results_of(parts[0]) == results_of(whole));
  RC_ASSERT(parts[0].serialize() == whole.serialize());
}

RC_GTEST_PROP(Merging, DoesNotDependOnTheOtherStatistics, ()) {
  const Tensor samples = any_samples();
  const auto dims = *rc::gen::elementOf(std::vector<Value>(std::begin(kDims), std::end(kDims)));
  const auto exact_values = *rc::gen::inRange<int64_t>(0, 200);
  Table statistics = all_with(dims, exact_values);
  // A finer and longer memory than that of the other statistic that keeps values.
  statistics.table("histogram")["exact_values"] = 100;
  statistics.table("histogram")["key_bits"] = 22;
  Collector together(statistics, "test");
  together.update(samples, 0);
  const std::vector<std::string> results = results_of(together);
  size_t i = 0;
  for (const auto& [name, options] : statistics) {
    Table only;
    only[name] = options;
    Collector alone(only, "test");
    alone.update(samples, 0);
    RC_ASSERT(results_of(alone) == std::vector<std::string>{results[i++]});
  }
}

TEST(Merging, DoesNotDependOnThreads) {
  Tensor samples(DType::kFloat32, {fewer_under_sanitizers(64), 40, 150});
  uint32_t state = 1;
  for (float& value : samples.values<float>()) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-28F;
  }
  const int threads = thread_count();
  for (const Value& dims : kDims) {
    for (const int64_t exact_values : {0, 1 << 20}) {
      std::vector<std::vector<std::byte>> states;
      for (const int count : {1, 2, 5}) {
        set_thread_count(count);
        Collector collector(all_with(dims, exact_values), "test");
        collector.update(samples, 0);
        states.push_back(collector.serialize());
      }
      EXPECT_TRUE(states[0] == states[1] && states[0] == states[2]) << value_text(dims) << exact_values;
    }
  }
  set_thread_count(threads);
}

#if defined(__x86_64__)
TEST(Merging, DoesNotDependOnTheCallersFloatingPointMode) {
  std::vector<float> values;
  constexpr int kCount = fewer_under_sanitizers(300000);
  constexpr int64_t kCut = kCount / 3;
  for (int i = 0; i < kCount; ++i) values.push_back(static_cast<float>(i % 1000 - 500) * 0x1p-149F);
  const Tensor samples = Tensor::from({kCount, 1, 1}, values);
  for (const int64_t exact_values : {0, 1 << 20}) {
    std::vector<std::vector<std::byte>> states;
    for (const unsigned mode :
         {0x1F80U, 0x1F80U | 0x8040U | 0x6000U}) {  // the default; flushing, towards zero
      const unsigned saved = _mm_getcsr();
      _mm_setcsr(mode);
      Collector collector(all_with("all", exact_values), "test");
      collector.update(samples.rows(0, kCut), 0);
      Collector other(all_with("all", exact_values), "test");
      other.update(samples.rows(kCut, kCount), kCut);
      collector.merge(other);
      Collector read(all_with("all", exact_values), "test");
      read.deserialize(collector.serialize());
      states.push_back(read.serialize());
      const std::vector<std::string> results = results_of(read);
      _mm_setcsr(saved);
      EXPECT_EQ(results_of(read), results);
    }
    EXPECT_TRUE(states[0] == states[1]) << exact_values;
  }
}
#endif

}  // namespace
}  // namespace detent
