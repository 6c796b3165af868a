#include "detent/statistics/distribution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error.h"

namespace detent {
namespace {

/// The numbers of a value, and of nested lists of numbers, in order.
void append_numbers(const Value& value, const std::string& where, std::vector<double>& numbers) {
  if (const List* list = value.get_if<List>()) {
    for (const Value& element : *list) append_numbers(element, where, numbers);
    return;
  }
  double scratch = 0;
  const double* number = value.number(scratch);
  if (number == nullptr || std::isnan(*number))
    fail("{}: got {}, expected numbers", where, value_text(value));
  numbers.push_back(*number);
}

/// The innermost lists of nested ones.
void append_rows(const Value& value, const std::string& where, std::vector<std::vector<double>>& rows) {
  const List* list = value.get_if<List>();
  if (list == nullptr) fail("{}: got {}, expected a list", where, value_text(value));
  const bool innermost = list->empty() || !list->front().is<List>();
  if (innermost) return append_numbers(value, where, rows.emplace_back());
  for (const Value& element : *list) append_rows(element, where, rows);
}

/// Largest count that a double holds without rounding.
constexpr double kMostCount = 0x1p53;

bool holds_float32(double number) {
  return std::fabs(number) <= static_cast<double>(std::numeric_limits<float>::max());
}

/// Infinite beyond float32.
float float32_of(double number) {
  return holds_float32(number) ? static_cast<float>(number)
                               : std::copysign(HUGE_VALF, number < 0 ? -1.0F : 1.0F);
}

class Reader {
 public:
  Reader(const Table& results, const std::string& where) : results_(results), where_(where) {}

  std::vector<Distribution> read() {
    read_range("range_min_max", &Distribution::range);
    read_range("average_range", &Distribution::average_range);
    for (const char* statistic : {"variance_precise", "variance_online"}) {
      read_numbers(statistic, "mean", [](Distribution& part, double mean) { part.mean = mean; });
      read_numbers(statistic, "variance", [&](Distribution& part, double value) {
        if (!(value >= 0)) fail("{}: got a variance of {}", place(statistic), float_text(value));
        part.variance = value;
      });
    }
    read_histogram();
    if (parts_.empty()) parts_.resize(1);
    return std::move(parts_);
  }

 private:
  /// nullptr when the statistic is not there, or has no result because there were too few values.
  const Value* find(const char* statistic, const char* key) const {
    const Value* value = results_.find(statistic);
    if (value == nullptr) return nullptr;
    const Table* result = value->get_if<Table>();
    if (result == nullptr) fail("{}: got {}, expected a table", place(statistic), value_text(*value));
    const Value* number = result->find(key);
    if (number == nullptr) fail("{}: key \"{}\" is missing", place(statistic), key);
    return number->is_na() ? nullptr : number;
  }

  std::string place(const char* statistic) const {
    return fmt::format("{}, statistic {}", where_, statistic);
  }

  void expect_positions(size_t count, const char* statistic) {
    if (parts_.empty()) {
      parts_.resize(count);
      first_ = statistic;
    }
    if (parts_.size() == count) return;
    fail("{}: {} kept positions, but {} has {}: collect both with the same dims", place(statistic), count,
         first_, parts_.size());
  }

  template <class Set>
  void read_numbers(const char* statistic, const char* key, const Set& set) {
    const Value* value = find(statistic, key);
    if (value == nullptr) return;
    std::vector<double> numbers;
    append_numbers(*value, fmt::format("{}, \"{}\"", place(statistic), key), numbers);
    expect_positions(numbers.size(), statistic);
    for (size_t i = 0; i < numbers.size(); ++i) set(parts_[i], numbers[i]);
  }

  void read_range(const char* statistic, std::optional<Interval> Distribution::*range) {
    read_numbers(statistic, "min", [&](Distribution& part, double low) {
      part.*range = Interval{float32_of(low), float32_of(low)};
    });
    read_numbers(statistic, "max", [&](Distribution& part, double high) {
      if (part.*range) (part.*range)->high = float32_of(high);
    });
  }

  void read_histogram() {
    const Value* edges = find("histogram", "edges");
    const Value* counts = find("histogram", "counts");
    if (edges == nullptr || counts == nullptr) return;
    std::vector<std::vector<double>> edge_rows;
    std::vector<std::vector<double>> count_rows;
    append_rows(*edges, place("histogram") + ", \"edges\"", edge_rows);
    append_rows(*counts, place("histogram") + ", \"counts\"", count_rows);
    expect_positions(count_rows.size(), "histogram");
    if (edge_rows.size() != count_rows.size()) {
      fail("{}: edges of {} histograms, counts of {}", place("histogram"), edge_rows.size(),
           count_rows.size());
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].bins = bins_of(edge_rows[i], count_rows[i]);
      parts_[i].intervals = static_cast<int64_t>(count_rows[i].size());
    }
  }

  std::vector<Distribution::Bin> bins_of(const std::vector<double>& edges,
                                         const std::vector<double>& counts) const {
    const bool are_finite = std::ranges::all_of(edges, holds_float32);
    if (edges.size() != counts.size() + 1 || !std::ranges::is_sorted(edges) || !are_finite) {
      fail("{}: {} counts and {} edges, expected one edge more than counts, ascending and finite",
           place("histogram"), counts.size(), edges.size());
    }
    std::vector<Distribution::Bin> bins;
    double total = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      total += counts[i];
      if (!(counts[i] >= 0 && total <= kMostCount)) {
        fail("{}: got a count of {}, expected 0 to {} in all", place("histogram"), float_text(counts[i]),
             kMostCount);
      }
      if (counts[i] == 0) continue;
      const bool holds_zero = edges[i] <= 0 && edges[i + 1] >= 0;
      const auto value = holds_zero ? 0.0F : static_cast<float>((edges[i] + edges[i + 1]) / 2);
      const auto count = static_cast<int64_t>(counts[i]);
      if (!bins.empty() && bins.back().value == value) {
        bins.back().count += count;
      } else {
        bins.push_back({value, count});
      }
    }
    return bins;
  }

  const Table& results_;
  const std::string& where_;
  std::vector<Distribution> parts_;
  const char* first_ = "";
};

}  // namespace

std::vector<Distribution> distributions_of_results(const Table& results, const std::string& where) {
  return Reader(results, where).read();
}

}  // namespace detent
