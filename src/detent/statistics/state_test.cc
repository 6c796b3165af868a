// Serialised states: what is damaged is refused, without a crash, a hang or much memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/core/xxh64.h"
#include "detent/statistics/collector.h"

namespace detent {
namespace {

using testing::HasSubstr;
using Bytes = std::vector<std::byte>;

Table all_statistics_of(const Value& dims, int64_t exact_values) {
  Table statistics;
  for (const StatisticInfo& statistic : all_statistics()) {
    Table& options = statistics.table(statistic.name);
    for (const FieldDescription& field : statistic.options) {
      if (field.name == "dims") options["dims"] = dims;
      if (field.name == "exact_values") options["exact_values"] = exact_values;
    }
  }
  return statistics;
}

Collector filled(const Table& statistics) {
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  Tensor samples(DType::kFloat32, {10, 3, 4});
  for (float& value : samples.values<float>()) value = normal(generator);
  Collector collector(statistics, "test");
  collector.update(samples, 0);
  return collector;
}

std::string merge_error(Collector& collector, std::span<const std::byte> state) {
  return detent::error_of([&] { collector.deserialize(state); });
}

/// As if the damaged bytes had been written on purpose.
void fix_checksum(Bytes& state) {
  const uint64_t checksum = xxh64(std::span(state).first(state.size() - 8));
  for (size_t i = 0; i < 8; ++i)
    state[state.size() - 8 + i] = static_cast<std::byte>(checksum >> (8 * i) & 0xFFU);
}

struct StateCase {
  Value dims;
  int64_t exact_values;
};
const StateCase kStateCases[] = {{"all", 1000}, {"all", 0}, {"none", 1000}, {List{1}, 0}};

TEST(State, GoesThroughBytes) {
  for (const auto& [dims, exact_values] : kStateCases) {
    const Table statistics = all_statistics_of(dims, exact_values);
    const Collector original = filled(statistics);
    Collector read(statistics, "test");
    read.deserialize(original.serialize());
    EXPECT_EQ(read.serialize(), original.serialize());
    for (const std::string& name : original.names())
      EXPECT_EQ(read.result(name), original.result(name)) << name;
    const Collector empty(statistics, "test");
    read.deserialize(empty.serialize());
    EXPECT_EQ(read.serialize(), empty.serialize());
  }
}

TEST(State, IsLittleEndianAndVersioned) {
  const Bytes state = filled(all_statistics_of("all", 0)).serialize();
  const Bytes head(state.begin(), state.begin() + 6);
  const Bytes expected = {std::byte{'D'}, std::byte{'T'}, std::byte{'S'},
                          std::byte{'T'}, std::byte{2},   std::byte{0}};
  EXPECT_EQ(head, expected);
}

TEST(State, ErrorsNameWhatIsWrong) {
  const Table statistics = all_statistics_of("all", 0);
  Collector collector = filled(statistics);
  const Bytes state = collector.serialize();
  Bytes other = state;
  other[0] = std::byte{'X'};
  EXPECT_THAT(merge_error(collector, other), HasSubstr("this is none"));
  other = state;
  other[4] = std::byte{9};
  EXPECT_THAT(merge_error(collector, other), HasSubstr("got version 9, expected 2"));
  other = state;
  other[state.size() / 2] ^= std::byte{1};
  EXPECT_THAT(merge_error(collector, other), HasSubstr("damaged or incomplete"));
  other = state;
  other.insert(other.end() - 8, std::byte{0});
  fix_checksum(other);
  EXPECT_THAT(merge_error(collector, other), HasSubstr("1 bytes more than expected"));
  Collector of_other(Table{{"mean", Table{}}}, "test");
  EXPECT_THAT(merge_error(of_other, state), HasSubstr("expected {mean = {dims = \"all\"}}"));
  EXPECT_EQ(collector.serialize(), state) << "a refused state changes nothing";
}

TEST(State, TruncatedAnywhereIsRefused) {
  for (const auto& [dims, exact_values] : kStateCases) {
    const Table statistics = all_statistics_of(dims, exact_values);
    const Bytes state = filled(statistics).serialize();
    Collector collector(statistics, "test");
    for (size_t size = 0; size < state.size(); ++size) {
      Bytes cut(state.begin(), state.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_NE(merge_error(collector, cut), "") << size;
      if (size < 8) continue;
      fix_checksum(cut);
      ASSERT_NE(merge_error(collector, cut), "") << size;
    }
  }
}

/// Damages `state` in a few places, mostly where the structure is: after the statistics' names.
void damage(Bytes& state, size_t header, std::mt19937& generator) {
  for (int i = 0; i < 3; ++i) {
    const size_t at =
        generator() % 8 == 0 ? generator() % state.size() : header + generator() % (state.size() - header);
    switch (generator() % 4) {
      case 0:
        state[at] = std::byte{0xFF};
        break;
      case 1:
        state[at] ^= static_cast<std::byte>(1U << (generator() % 8));
        break;
      case 2:
        state[at] = static_cast<std::byte>(generator() & 0xFFU);
        break;
      default:
        state.erase(state.begin() + static_cast<std::ptrdiff_t>(at));
        break;
    }
  }
}

/// Tries thousands of damaged states. What is accepted must give results or errors, and merge.
void try_damaged_states(uint32_t seed) {
  std::mt19937 generator(seed);
  for (const auto& [dims, exact_values] : kStateCases) {
    const Table statistics = all_statistics_of(dims, exact_values);
    const Collector original = filled(statistics);
    const Bytes state = original.serialize();
    const size_t empty_size = Collector(statistics, "test").serialize().size();
    for (int trial = 0; trial < fewer_under_sanitizers(2000); ++trial) {
      Bytes damaged = state;
      damage(damaged, std::min(empty_size, damaged.size()) / 2, generator);
      if (damaged.size() < 16) continue;
      if (trial % 8 != 0) fix_checksum(damaged);
      Collector collector(statistics, "test");
      if (!merge_error(collector, damaged).empty()) continue;
      for (const std::string& name : collector.names()) {
        try {
          collector.result(name);
        } catch (const Error&) {  // such as: only NaN was seen
        }
      }
      try {
        collector.merge(original);
      } catch (const Error&) {  // such as: samples of another shape
      }
    }
  }
}

TEST(State, DamagedStatesDoNotCrash) { try_damaged_states(11); }

TEST(State, DamagedStatesDoNotTakeMemory) {
  DETENT_SKIP_UNDER_SANITIZERS();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::ifstream statm("/proc/self/statm");
    size_t pages = 0;
    statm >> pages;
    const size_t limit = pages * static_cast<size_t>(getpagesize()) + (size_t{64} << 20);
    const rlimit address_space = {limit, limit};
    if (setrlimit(RLIMIT_AS, &address_space) != 0) _exit(2);
    try {
      try_damaged_states(12);
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace detent
