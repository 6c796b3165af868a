#include "detent/passes/truth_tables/lutnet_tables.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>

#include "detent/core/error.h"
#include "detent/graph/node_names.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"

namespace detent {

std::pair<int64_t, int64_t> IntegerTables::range(int64_t output) const {
  int64_t least = 0;
  int64_t most = 0;
  for (int64_t term = 0; term < terms; ++term) {
    const std::span table(tables_of(output) + term * entries, static_cast<size_t>(entries));
    least += *std::ranges::min_element(table);
    most += *std::ranges::max_element(table);
  }
  return {least, most};
}

void IntegerTables::negate(int64_t output) {
  std::for_each_n(tables_of(output), terms * entries, [](int32_t& value) { value = -value; });
}

bool has_padding(const Node& layer) {
  const std::optional<TrainedTables> shape = trained_tables(layer);
  if (!shape || shape->spatial_dims == 0) return false;
  const std::vector<int64_t> padding = integers_attribute(layer, "padding", shape->spatial_dims);
  return std::ranges::any_of(padding, [](int64_t zeros) { return zeros > 0; });
}

namespace {

/// In units of `unit`, as the layer's evaluator rounds them.
int32_t in_units(float value, double unit) {
  const float count = std::nearbyint(value / static_cast<float>(unit));
  if (!(std::fabs(count) < 0x1p31F)) fail("{} is beyond 2^31 units of {}", value, unit);
  return static_cast<int32_t>(count);
}

/// The polynomial of a table of integers at an address of digits 0 to 2, those of -1, 0 and +1, times
/// 2^fan_in: 0 counts half of both sides.
int32_t entry_with_zeros(std::span<const int32_t> table, int64_t address, int64_t fan_in) {
  int64_t sum = 0;
  for (int64_t full = 0; full < std::ssize(table); ++full) {
    int64_t factor = 1;
    int64_t digits = address;
    for (int64_t k = 0; k < fan_in; ++k, digits /= 3)
      factor *= digits % 3 == 1 ? 1 : 2 * static_cast<int64_t>(digits % 3 == 2 * (full >> k & 1));
    sum += factor * table[static_cast<size_t>(full)];
  }
  return static_cast<int32_t>(sum);
}

/// Reads the parameters of a layer of trained tables.
class TableReader {
 public:
  TableReader(const Node& layer, int64_t elements_of_channel)
      : layer_(layer),
        shape_(*trained_tables(layer)),
        window_(elements_of_channel),
        zeros_(has_padding(layer)) {
    if (!shape_.binarized) fail("attribute \"binarize\": got false: the tables are no signs yet");
    if (shape_.unit == 0) fail("attribute \"unit\": got 0: amplitudes are multiples of nothing");
    amplitude_ = &layer.find_parameter("amplitude")->tensor;
  }

  IntegerTables read() const {
    const Parameter* bias = layer_.find_parameter("bias");
    IntegerTables result{.outputs = shape_.outputs,
                         .terms = shape_.terms * shape_.levels + (bias == nullptr ? 0 : 1),
                         .fan_in = shape_.fan_in,
                         .entries = 1,
                         .scale = shape_.unit};
    for (int64_t k = 0; k < shape_.fan_in; ++k) result.entries *= zeros_ ? 3 : 2;
    if (zeros_) result.scale = std::ldexp(shape_.unit, -static_cast<int>(shape_.fan_in));
    for (int64_t output = 0; output < shape_.outputs; ++output) {
      for (int64_t term = 0; term < shape_.terms; ++term)
        for (int64_t level = 0; level < shape_.levels; ++level) append(output, term, level, result);
      if (bias == nullptr) continue;
      const int32_t units = in_units(bias->tensor.values<float>()[static_cast<size_t>(output)], shape_.unit);
      result.inputs.insert(result.inputs.end(), static_cast<size_t>(shape_.fan_in), 0);
      result.tables.insert(result.tables.end(), static_cast<size_t>(result.entries),
                           zeros_ ? units << shape_.fan_in : units);
    }
    return result;
  }

 private:
  void append(int64_t output, int64_t term, int64_t level, IntegerTables& result) const {
    const auto inputs = layer_.find_parameter("inputs")->tensor.values<int64_t>().subspan(
        static_cast<size_t>((output * shape_.terms + term) * shape_.fan_in),
        static_cast<size_t>(shape_.fan_in));
    if (inputs[0] == kNoTable) {
      result.inputs.insert(result.inputs.end(), inputs.size(), 0);
      result.tables.insert(result.tables.end(), static_cast<size_t>(result.entries), 0);
      return;
    }
    for (const int64_t input : inputs)
      result.inputs.push_back((input / window_ * shape_.levels + level) * window_ + input % window_);
    const std::vector<int32_t> table = signed_table(output, term, level);
    for (int64_t address = 0; address < result.entries; ++address) {
      result.tables.push_back(zeros_ ? entry_with_zeros(table, address, shape_.fan_in)
                                     : table[static_cast<size_t>(address)]);
    }
  }

  /// For each address, what the signs of all sums of this level count together.
  std::vector<int32_t> signed_table(int64_t output, int64_t term, int64_t level) const {
    const auto values = layer_.find_parameter("tables")->tensor.values<float>();
    const int64_t each = shape_.sums_of_level();
    std::vector<int32_t> table(static_cast<size_t>(shape_.entries()));
    for (int64_t sum = level * each; sum < (level + 1) * each; ++sum) {
      const int64_t row = amplitude_->dim(0) == 1 ? 0 : output;
      const int32_t units =
          in_units(amplitude_->values<float>()[static_cast<size_t>(row * shape_.sums + sum)], shape_.unit);
      const int64_t first = ((output * shape_.terms + term) * shape_.sums + sum) * shape_.entries();
      for (size_t address = 0; address < table.size(); ++address)
        table[address] += values[static_cast<size_t>(first) + address] >= 0 ? units : -units;
    }
    return table;
  }

  const Node& layer_;
  TrainedTables shape_;
  int64_t window_;
  bool zeros_;
  const Tensor* amplitude_;
};

/// By what all entries can be divided.
void divide_by_common_factor(IntegerTables& tables) {
  int32_t factor = 0;
  for (const int32_t value : tables.tables) factor = std::gcd(factor, value);
  if (factor <= 1) return;
  for (int32_t& value : tables.tables) value /= factor;
  tables.scale *= factor;
}

}  // namespace

IntegerTables integer_tables(const Node& layer, int64_t elements_of_channel) {
  IntegerTables result;
  try {
    result = TableReader(layer, elements_of_channel).read();
  } catch (const Error& error) {
    throw node_error(layer, error);
  }
  constexpr int64_t kExact = int64_t{1} << 24;
  for (int64_t output = 0; output < result.outputs; ++output) {
    const auto [least, most] = result.range(output);
    if (least <= -kExact || most >= kExact) {
      fail("node \"{}\" ({}): the sums of output {} can be {} to {} units, expected magnitudes below 2^24",
           layer.name, layer.op, output, least, most);
    }
  }
  divide_by_common_factor(result);
  return result;
}

int residual_code(float x, const std::vector<float>& gamma) {
  int code = 0;
  for (const float each : gamma) {
    const bool is_positive = x >= 0;
    code = code * 2 + static_cast<int>(is_positive);
    x -= is_positive ? each : -each;
  }
  return code;
}

std::optional<std::vector<std::pair<float, int>>> residual_values(const std::vector<float>& gamma) {
  struct Piece {  // of the numbers: those that have the signs of `code`
    double low;
    double high;
    double middle;  // what is taken off
    float value;
    int code;
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<Piece> pieces = {{-kInfinity, kInfinity, 0, 0, 0}};
  for (const float each : gamma) {
    std::vector<Piece> next;
    for (const Piece& piece : pieces) {
      const double half = each;
      if (piece.low < piece.middle)
        next.push_back({piece.low, std::min(piece.high, piece.middle), piece.middle - half,
                        piece.value - each, piece.code * 2});
      if (piece.high > piece.middle)
        next.push_back({std::max(piece.low, piece.middle), piece.high, piece.middle + half,
                        piece.value + each, piece.code * 2 + 1});
    }
    pieces = std::move(next);
  }
  std::vector<std::pair<float, int>> values;
  for (const Piece& piece : pieces) values.emplace_back(piece.value, piece.code);
  std::ranges::sort(values);
  const auto is_same = [](const auto& a, const auto& b) { return a.first == b.first; };
  if (std::ranges::adjacent_find(values, is_same) != values.end()) return std::nullopt;
  return values;
}

}  // namespace detent
