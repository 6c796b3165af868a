#include <algorithm>
#include <cmath>

#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/tensor_layout.h"
#include "detent/kernels/window_places.h"

namespace detent {
namespace {

/// Digits of a table's address, one for each sign: 0 of -1, and of 1 the base less 1. In base 3 there is a
/// digit 1 of zeros, in the border of a convolution.
using Digits = std::vector<uint8_t>;

/// A table's values where some of the signs are 0, in the middle of -1 and 1: the mean over what these leave
/// open, of the polynomial of Lagrange. `values` [2^fan_in]; the result has 3^fan_in.
std::vector<float> with_zeros(std::span<const float> values, int64_t fan_in) {
  int64_t columns = 1;
  for (int64_t k = 0; k < fan_in; ++k) columns *= 3;
  std::vector<float> result(static_cast<size_t>(columns));
  for (int64_t column = 0; column < columns; ++column) {
    for (size_t row = 0; row < values.size(); ++row) {
      float share = 1;
      int64_t digits = column;
      for (int64_t k = 0; k < fan_in; ++k, digits /= 3)
        share *=
            digits % 3 == 1 ? 0.5F : static_cast<float>(digits % 3 == 2 * static_cast<int64_t>(row >> k & 1));
      result[static_cast<size_t>(column)] += share * values[row];
    }
  }
  return result;
}

/// A layer of tables in training (graph/operators/lutnet.cc).
class TableSums {
 public:
  TableSums(const FloatNode& n, bool has_zeros)
      : tables_(*trained_tables(n.node)),
        base_(has_zeros ? 3 : 2),
        inputs_(*n.parameter("inputs")),
        gamma_(n.values_of("gamma")),
        amplitude_(*n.parameter("amplitude")) {
    const auto given = n.values_of("tables");
    const auto entries = static_cast<size_t>(tables_.entries());
    std::vector<float> table(entries);
    for (size_t first = 0; first < given.size(); first += entries) {
      std::ranges::transform(given.subspan(first, entries), table.begin(), [&](float x) {
        return !tables_.binarized ? x : x >= 0 ? 1.0F : -1.0F;
      });
      const std::vector<float> extended = has_zeros ? with_zeros(table, tables_.fan_in) : table;
      values_.insert(values_.end(), extended.begin(), extended.end());
    }
    entries_ = std::ssize(values_) / std::max<int64_t>(1, std::ssize(given) / tables_.entries());
    for (const float x : n.values_of("bias")) bias_.push_back(rounded(x));
  }

  int64_t outputs() const { return inputs_.dim(0); }
  int64_t levels() const { return std::ssize(gamma_); }

  /// digits[level * step] of an element.
  void binarize(float x, uint8_t* digits, int64_t step) const {
    for (int64_t level = 0; level < levels(); ++level) {
      const bool positive = x >= 0;
      digits[level * step] = positive ? static_cast<uint8_t>(base_ - 1) : 0;
      x -= (positive ? 1.0F : -1.0F) * gamma_[static_cast<size_t>(level)];
    }
  }

  /// The layer at a window of these digits [levels, elements].
  float result(int64_t output, const uint8_t* digits, int64_t elements) const {
    const int64_t sums = tables_.sums;
    float total = 0;
    for (int64_t sum = 0; sum < sums; ++sum) {
      const float product =
          sum_of(output, sum, digits + sum / tables_.sums_of_level() * elements) * amplitude(output, sum);
      total = sum == 0 ? product : total + product;
    }
    return bias_.empty() ? total : total + bias_[static_cast<size_t>(output)];
  }

 private:
  float rounded(float x) const {
    if (tables_.unit == 0) return x;
    const auto unit = static_cast<float>(tables_.unit);
    return std::nearbyint(x / unit) * unit;
  }
  float amplitude(int64_t output, int64_t sum) const {
    const int64_t row = amplitude_.dim(0) == 1 ? 0 : output;
    return rounded(amplitude_.values<float>()[static_cast<size_t>(row * tables_.sums + sum)]);
  }
  /// The tables' values at one level's digits, added up; missing ones count nothing.
  float sum_of(int64_t output, int64_t sum, const uint8_t* digits) const {
    const int64_t count = inputs_.dim(1);
    const int64_t fan_in = inputs_.dim(2);
    float total = 0;
    for (int64_t table = 0; table < count; ++table) {
      const int64_t* const input = inputs_.values<int64_t>().data() + (output * count + table) * fan_in;
      if (input[0] == kNoTable) continue;
      int64_t address = 0;
      for (int64_t k = fan_in; k-- > 0;) address = address * base_ + digits[input[k]];
      const int64_t first = ((output * count + table) * tables_.sums + sum) * entries_;
      total += values_[static_cast<size_t>(first + address)];
    }
    return total;
  }

  TrainedTables tables_;
  int64_t base_;
  Tensor inputs_;
  std::span<const float> gamma_;
  Tensor amplitude_;
  std::vector<float> values_;  // [outputs, tables, sums, entries]
  std::vector<float> bias_;
  int64_t entries_ = 0;
};

Tensor lut_linear(const FloatNode& n) {
  const Tensor& x = n.tensor(0);
  const TableSums sums(n, false);
  Shape shape = x.shape();
  const int64_t elements = shape.back();
  shape.back() = sums.outputs();
  Tensor result = result_tensor(shape);
  const int64_t rows = x.numel() / std::max<int64_t>(elements, 1);
  parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    Digits digits(static_cast<size_t>(sums.levels() * elements));
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < elements; ++i)
        sums.binarize(x.values<float>()[static_cast<size_t>(row * elements + i)], digits.data() + i,
                      elements);
      for (int64_t o = 0; o < sums.outputs(); ++o)
        result.values<float>()[static_cast<size_t>(row * sums.outputs() + o)] =
            sums.result(o, digits.data(), elements);
    }
  });
  return result;
}

Tensor lut_convolution(const FloatNode& n) {
  const Tensor& x = n.tensor(0);
  const size_t dims = x.shape().size() - 2;
  const auto integers = [&](const char* name) { return integers_attribute(n.node, name, dims); };
  const Shape shape = n.inferred().front().shape;
  const WindowPlaces over{{shape.begin() + 2, shape.end()},
                          {x.shape().begin() + 2, x.shape().end()},
                          integers("kernel_size"),
                          integers("stride"),
                          integers("padding"),
                          integers("dilation")};
  const bool has_border = std::ranges::any_of(over.padding, [](int64_t size) { return size > 0; });
  const TableSums sums(n, has_border);
  const int64_t taps = element_count(over.kernel);
  const int64_t elements = x.dim(1) * taps;
  const int64_t windows = element_count(over.windows);
  const int64_t places = element_count(over.places);
  Tensor result = result_tensor(shape);
  parallel_for(shape[0] * windows, 1, [&](int64_t begin, int64_t end) {
    Digits digits;
    for (int64_t i = begin; i < end; ++i) {
      const float* const sample = x.values<float>().data() + i / windows * x.dim(1) * places;
      digits.assign(static_cast<size_t>(sums.levels() * elements), 1);
      for (int64_t tap = 0; tap < taps; ++tap) {
        const int64_t place = over.place_of(i % windows, tap);
        for (int64_t c = 0; place >= 0 && c < x.dim(1); ++c)
          sums.binarize(sample[c * places + place], digits.data() + c * taps + tap, elements);
      }
      for (int64_t o = 0; o < sums.outputs(); ++o) {
        const int64_t at = (i / windows * sums.outputs() + o) * windows + i % windows;
        result.values<float>()[static_cast<size_t>(at)] = sums.result(o, digits.data(), elements);
      }
    }
  });
  return result;
}

}  // namespace

FloatOperators trained_table_operators() {
  return {{trained_tables_operator(0), lut_linear},
          {trained_tables_operator(1), lut_convolution},
          {trained_tables_operator(2), lut_convolution}};
}

}  // namespace detent
