#include "detent/graph/value_sizes.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include <fmt/ranges.h>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

constexpr int64_t kLargestDivisor = 4096;

/// How often the shapes of a graph may be inferred: less than a second's work.
size_t most_inferences(const Graph& graph) {
  constexpr size_t kMostNodes = 400'000;
  return std::clamp<size_t>(kMostNodes / graph.nodes().size(), 40, 400);
}

bool takes(const Graph& graph, const NamedSizes& sizes) {
  try {
    infer_shapes(graph, sizes);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// Named first sizes of inputs that are usually 1.
std::set<std::string> batch_names(const Graph& graph) {
  std::set<std::string> names;
  for (const auto& [name, type] : graph.input_types()) {
    if (!type.shape.empty() && type.shape[0].is_named() && type.shape[0].size == 1)
      names.insert(type.shape[0].symbol);
  }
  return names;
}

/// Shapes of some values for chosen sizes; those that were asked for are kept.
class Shapes {
 public:
  Shapes(const Graph& graph, std::span<const NodeInput> values)
      : graph_(graph), values_(values), most_(most_inferences(graph)) {}

  /// Nothing where the network does not take the sizes.
  const std::optional<std::vector<Shape>>& at(const NamedSizes& sizes) {
    const auto [known, is_new] = known_.try_emplace(sizes);
    if (!is_new || known_.size() > most_) return known->second;
    try {
      NamedSizes all = sizes;
      if (const auto batch = sizes.find(kBatchName); batch != sizes.end())
        for (const std::string& name : batch_names(graph_)) all.emplace(name, batch->second);
      const ValueTypes types = infer_shapes(graph_, all);
      std::vector<Shape> shapes;
      for (const NodeInput& value : values_) shapes.push_back(types.at(value_name(value)).shape);
      known->second = std::move(shapes);
    } catch (const Error&) {
      // Not for these sizes.
    }
    return known->second;
  }

 private:
  const Graph& graph_;
  std::span<const NodeInput> values_;
  const size_t most_;
  std::map<NamedSizes, std::optional<std::vector<Shape>>> known_;
};

/// A size of a named dimension, and the size that follows from it.
using Sample = std::pair<int64_t, int64_t>;

/// floor((p * size + b) / q), of which the samples leave b in [lowest, highest].
struct Line {
  int64_t p;
  int64_t q;
  int64_t lowest;
  int64_t highest;
};

std::optional<Line> line_through(const std::vector<Sample>& samples, int64_t p, int64_t q) {
  Line line{p, q, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  for (const auto& [size, result] : samples) {
    line.lowest = std::max(line.lowest, q * result - p * size);
    line.highest = std::min(line.highest, q * result - p * size + q - 1);
  }
  return line.lowest <= line.highest ? std::optional(line) : std::nullopt;
}

/// That with the smallest divisor.
std::optional<Line> simplest_line(const std::vector<Sample>& samples) {
  const auto [first, last] = std::ranges::minmax_element(samples);
  const double slope = static_cast<double>(last->second - first->second) /
                       static_cast<double>(std::max<int64_t>(1, last->first - first->first));
  for (int64_t q = 1; q <= kLargestDivisor; ++q) {
    const auto p = static_cast<int64_t>(std::llround(slope * static_cast<double>(q)));
    if (const auto line = line_through(samples, p, q)) return line;
  }
  return std::nullopt;
}

std::string sum_text(const std::string& text, int64_t number) {
  if (number == 0) return text;
  return fmt::format("{} {} {}", text, number < 0 ? '-' : '+', std::abs(number));
}

std::string line_text(const Line& line, const std::string& symbol) {
  const std::string multiple = line.p == 1 ? symbol : fmt::format("{}*{}", line.p, symbol);
  if (line.q == 1) return sum_text(multiple, line.lowest);
  const bool rounds_down = line.lowest <= 0 && line.highest >= 0;
  const bool rounds_up = line.lowest <= line.q - 1 && line.highest >= line.q - 1;
  if (rounds_down) return fmt::format("{}({}/{})", "floor", multiple, line.q);
  if (rounds_up) return fmt::format("{}({}/{})", "ceil", multiple, line.q);
  return fmt::format("floor(({})/{})", sum_text(multiple, line.lowest), line.q);
}

/// Finds the formula of one size.
class Formula {
 public:
  Formula(Shapes& shapes, const NamedSizes& usual, size_t value, size_t dim)
      : shapes_(shapes), usual_(usual), value_(value), dim_(dim) {}

  std::string text() {
    const std::optional<int64_t> usual = at(usual_);
    if (!usual) return "?";
    std::vector<std::string> symbols;
    for (const auto& [symbol, size] : usual_) {
      if (depends_on(symbol, *usual)) symbols.push_back(symbol);
    }
    if (symbols.empty()) return std::to_string(*usual);
    const std::string product = product_text(symbols, *usual);
    return product.empty() ? "?" : product;
  }

 private:
  std::optional<int64_t> at(const NamedSizes& sizes) {
    const auto& shapes = shapes_.at(sizes);
    const bool is_there = shapes && dim_ < (*shapes)[value_].size() && (*shapes)[value_][dim_] != kOpenSize;
    return is_there ? std::optional((*shapes)[value_][dim_]) : std::nullopt;
  }

  std::optional<int64_t> at(const std::string& symbol, int64_t size) {
    NamedSizes sizes = usual_;
    sizes[symbol] = size;
    return at(sizes);
  }

  std::vector<Sample> samples_of(const std::string& symbol) {
    const int64_t u = usual_.at(symbol);
    std::vector<Sample> samples;
    // Near the usual size, multiples and halves of it for networks that take only some, and far away.
    for (const int64_t size : {u,     u + 1, u + 2,     u + 3,     u + 5,     u + 7,       u - 1,
                               u / 2, u / 4, 3 * u / 2, 5 * u / 4, 9 * u / 8, 17 * u / 16, 2 * u - 1,
                               2 * u, 3 * u, 7 * u / 2, 5 * u - 2, 10 * u,    1000 * u}) {
      const auto result = size > 0 ? at(symbol, size) : std::nullopt;
      if (result) samples.emplace_back(size, *result);
    }
    return samples;
  }

  bool depends_on(const std::string& symbol, int64_t usual) {
    return std::ranges::any_of(samples_of(symbol), [&](const Sample& s) { return s.second != usual; });
  }

  /// Asks for sizes next to the steps of the line until b is one number, or the network takes none of them.
  void narrow(Line& line, const std::string& symbol, int64_t factor) {
    while (line.p == 1 && line.lowest < line.highest) {
      const int64_t b = line.lowest + (line.highest - line.lowest + 1) / 2;
      const int64_t u = usual_.at(symbol);
      const int64_t size = (u / line.q + 2) * line.q - b;  // the first at a step where b is at least this
      const auto result = size > 0 ? at(symbol, size) : std::nullopt;
      if (!result) return;
      const auto narrower = line_through({{size, *result / factor}}, 1, line.q);
      line.lowest = std::max(line.lowest, narrower->lowest);
      line.highest = std::min(line.highest, narrower->highest);
      if (line.lowest > line.highest) return;
    }
  }

  /// A multiple of one line for each symbol; "" where it is none.
  std::string product_text(const std::vector<std::string>& symbols, int64_t usual) {
    int64_t constant = usual;
    std::vector<std::string> factors;
    NamedSizes tried = usual_;
    double expected = static_cast<double>(usual);
    for (const std::string& symbol : symbols) {
      std::vector<Sample> samples = samples_of(symbol);
      int64_t factor = 0;
      for (const Sample& sample : samples) factor = std::gcd(factor, sample.second);
      if (factor == 0 || usual == 0) return "";
      for (Sample& sample : samples) sample.second /= factor;
      std::optional<Line> line = simplest_line(samples);
      if (!line) return "";
      narrow(*line, symbol, factor);
      if (line->lowest > line->highest) return "";
      if (constant % (usual / factor) != 0) return "";
      constant /= usual / factor;
      std::string text = line_text(*line, symbol);
      const bool is_sum = line->q == 1 && line->lowest != 0;
      const bool stands_alone = symbols.size() == 1 && factor == 1;
      factors.push_back(is_sum && !stands_alone ? "(" + text + ")" : std::move(text));
      const Sample other = samples[std::min<size_t>(samples.size() - 1, 1)];
      tried[symbol] = other.first;
      expected *= static_cast<double>(other.second * factor) / static_cast<double>(usual);
    }
    const auto found = at(tried);
    if (symbols.size() > 1 && (!found || std::llround(expected) != *found)) return "";
    if (constant != 1) factors.insert(factors.begin(), std::to_string(constant));
    return fmt::format("{}", fmt::join(factors, "*"));
  }

  Shapes& shapes_;
  const NamedSizes& usual_;
  size_t value_;
  size_t dim_;
};

}  // namespace

NamedSizes usual_sizes(const Graph& graph) {
  NamedSizes sizes;
  for (const auto& [name, type] : graph.input_types()) {
    for (const Dimension& dimension : type.shape)
      if (dimension.is_named()) sizes[dimension.symbol] = dimension.size;
  }
  return sizes;
}

NamedSizes with_batch(const Graph& graph, const NamedSizes& sizes, int64_t batch) {
  const std::set<std::string> names = batch_names(graph);
  NamedSizes all = sizes;
  NamedSizes own = sizes;
  for (auto& [symbol, size] : all)
    if (names.contains(symbol)) size = batch;
  if (const auto found = own.find(kBatchName); found != own.end()) found->second = batch;
  return all == own || takes(graph, all) ? all : own;
}

NamedSizes sizes_of(const Graph& graph, std::span<const Tensor> inputs) {
  NamedSizes sizes;
  const std::vector<std::string> names = graph.input_names();
  for (size_t i = 0; i < std::min(names.size(), inputs.size()); ++i)
    graph.input_types().at(names[i]).matches(inputs[i].shape(), sizes);
  return sizes;
}

NamedSizes other_sizes(const Graph& graph) {
  const std::set<std::string> batches = batch_names(graph);
  const NamedSizes usual = usual_sizes(graph);
  constexpr std::pair<int64_t, int64_t> kTried[] = {{3, 2}, {2, 1}, {4, 1}, {5, 4}, {9, 8}, {3, 4}, {1, 2}};
  for (const bool differ_all : {true, false}) {
    for (const auto& [times, divided_by] : kTried) {
      NamedSizes sizes = usual;
      for (auto& [symbol, size] : sizes) {
        if (symbol == kBatchName || batches.contains(symbol)) continue;
        const int64_t other = std::max<int64_t>(1, size * times / divided_by);
        size = differ_all && other == size ? size + 1 : other;
      }
      if (sizes != usual && takes(graph, sizes)) return sizes;
    }
  }
  return usual;
}

std::vector<std::vector<std::string>> open_shapes(const Graph& graph, std::span<const NodeInput> values) {
  Shapes shapes(graph, values);
  // Two samples, where the network takes them: of one, the batch could not be told from what broadcasts.
  NamedSizes usual = with_batch(graph, usual_sizes(graph), 2);
  if (!takes(graph, usual)) usual = usual_sizes(graph);
  const ValueTypes types = infer_shapes(graph, usual);
  // Dimensions that must be as large as the batch get its name.
  for (const std::string& name : batch_names(graph)) {
    if (name == kBatchName || !usual.contains(kBatchName) || usual[name] != usual[kBatchName]) continue;
    NamedSizes apart = usual;
    ++apart[name];
    for (const std::string& tied : batch_names(graph)) apart.emplace(tied, usual[kBatchName]);
    if (!takes(graph, apart)) usual.erase(name);
  }
  std::vector<std::vector<std::string>> texts;
  for (size_t i = 0; i < values.size(); ++i) {
    std::vector<std::string>& sizes = texts.emplace_back();
    const size_t rank = types.at(value_name(values[i])).shape.size();
    for (size_t d = 0; d < rank; ++d) sizes.push_back(Formula(shapes, usual, i, d).text());
  }
  return texts;
}

std::string open_shape_text(std::span<const std::string> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

}  // namespace detent
