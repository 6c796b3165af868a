#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/pair_functions.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

[[noreturn]] void fail_index(const FloatNode& n, int64_t index, int64_t size) {
  fail("node \"{}\" ({}): got the index {} of a dimension of {}", n.node.name, n.node.op, index, size);
}

[[noreturn]] void fail_shapes(const FloatNode& n, const Shape& indices, const Shape& of) {
  fail("node \"{}\" ({}): got indices of shape {} for a tensor of shape {}", n.node.name, n.node.op,
       shape_text(indices), shape_text(of));
}

int64_t from_front(const FloatNode& n, int64_t index, int64_t size) {
  if (index < -size || index >= size) fail_index(n, index, size);
  return index < 0 ? index + size : index;
}

/// Indices into a dimension of `size`, counted from the front.
std::vector<int64_t> positions(const FloatNode& n, const Tensor& indices, int64_t size) {
  const Tensor whole = to_dtype(indices, DType::kInt64);
  std::vector<int64_t> places(whole.values<int64_t>().begin(), whole.values<int64_t>().end());
  for (int64_t& place : places) place = from_front(n, place, size);
  return places;
}

size_t dim_of(const FloatNode& n, const Tensor& x) {
  return n.dimension(integer_attribute(n.node, "dim"), x.shape().size());
}

int64_t count_after(const Shape& shape, size_t dim) {
  return element_count({shape.begin() + static_cast<int64_t>(dim) + 1, shape.end()});
}

/// Places that follow each other: `count` from `place` on, of which the first is number `first` of all.
struct PlaceRun {
  int64_t place;
  int64_t first;
  int64_t count;
};

std::vector<PlaceRun> runs_of(const std::vector<int64_t>& places) {
  std::vector<PlaceRun> runs;
  for (size_t i = 0; i < places.size(); ++i) {
    if (!runs.empty() && places[i] == runs.back().place + runs.back().count) {
      ++runs.back().count;
    } else {
      runs.push_back({places[i], static_cast<int64_t>(i), 1});
    }
  }
  return runs;
}

/// Copies runs of parts of so many bytes.
void copy_runs(std::span<const PlaceRun> runs, size_t bytes, const std::byte* from, std::byte* to) {
  const auto element = static_cast<int64_t>(bytes);
  for (const PlaceRun& run : runs) {
    const std::byte* const source = from + run.place * element;
    std::byte* const target = to + run.first * element;
    if (run.count == 1 && bytes == 4) {
      std::memcpy(target, source, 4);
    } else if (run.count == 1 && bytes == 8) {
      std::memcpy(target, source, 8);
    } else {
      std::memcpy(target, source, bytes * static_cast<size_t>(run.count));
    }
  }
}

/// The parts of `part` elements at `places` of a tensor, one after the other, for each of `times` such
/// tensors of `size` parts.
Tensor copied_parts(const Tensor& x, const Shape& shape, const std::vector<int64_t>& places, int64_t size,
                    int64_t part) {
  Tensor result = unfilled_tensor(x.dtype(), shape);
  const auto bytes = static_cast<size_t>(part) * dtype_size(x.dtype());
  if (bytes == 0 || places.empty()) return result;
  const std::vector<PlaceRun> runs = runs_of(places);
  const auto count = std::ssize(runs);
  const int64_t tensors = result.numel() / part / std::ssize(places);
  const size_t from_bytes = static_cast<size_t>(size) * bytes;
  const size_t to_bytes = places.size() * bytes;
  constexpr int64_t kBytes = 1 << 16;
  const auto run_bytes = static_cast<int64_t>(to_bytes / runs.size());
  parallel_for(tensors * count, std::max<int64_t>(1, kBytes / run_bytes), [&](int64_t begin, int64_t end) {
    for (int64_t next = begin; next < end;) {
      const auto tensor = static_cast<size_t>(next / count);
      const int64_t first = next % count;
      const int64_t taken = std::min(count - first, end - next);
      copy_runs(std::span(runs).subspan(static_cast<size_t>(first), static_cast<size_t>(taken)), bytes,
                x.bytes().data() + tensor * from_bytes, result.bytes().data() + tensor * to_bytes);
      next += taken;
    }
  });
  return result;
}

/// A number is one of rank 0.
Tensor indices_of(const FloatNode& n, size_t index) {
  const NodeInput& input = n.node.inputs[index];
  const Value& number = input.is_constant() ? input.constant : n.inputs[index].number;
  return number.is<int64_t>() ? Tensor::from<int64_t>({}, n.integers(index)) : n.operand(index);
}

Tensor gathered_positions(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const size_t dim = dim_of(n, x);
  const Tensor indices = indices_of(n, 1);
  Shape shape(x.shape().begin(), x.shape().begin() + static_cast<int64_t>(dim));
  shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
  shape.insert(shape.end(), x.shape().begin() + static_cast<int64_t>(dim) + 1, x.shape().end());
  const int64_t size = x.shape()[dim];
  return copied_parts(x, shape, positions(n, indices, size), size, count_after(x.shape(), dim));
}

/// float32 indices are integers; negative ones count from the end.
Tensor embedded(const FloatNode& n) {
  const Tensor weight = *n.parameter("weight");
  const Tensor indices = n.operand(0);
  if (indices.dtype() == DType::kFloat32) {
    const auto broken = [](float x) { return x != std::trunc(x); };
    const auto found = std::ranges::find_if(indices.values<float>(), broken);
    if (found != indices.values<float>().end())
      fail("node \"{}\": input 0: got the index {}, expected an integer", n.node.name, *found);
  }
  const std::vector<int64_t> rows = positions(n, indices, weight.dim(0));
  Shape shape = indices.shape();
  shape.push_back(weight.dim(1));
  return copied_parts(weight, shape, rows, weight.dim(0), weight.dim(1));
}

/// Places in `x` of the elements whose positions along a dimension input 1 gives.
struct IndexedElements {
  IndexedElements(const FloatNode& n, const Tensor& x)
      : node(n),
        shape(x.shape()),
        dim(dim_of(n, x)),
        indices(to_dtype(n.operand(1), DType::kInt64)),
        all(indices.values<int64_t>().data()),
        stride(StridedView::of(shape).strides[dim]),
        length(indices.shape().back()) {
    for (size_t d = 0; d < shape.size(); ++d) {
      if (d != dim && indices.shape()[d] > shape[d]) fail_shapes(n, indices.shape(), shape);
    }
  }

  /// From position 0 of the dimension to that of index i.
  int64_t offset(int64_t i) const { return from_front(node, all[i], shape[dim]) * stride; }

  const FloatNode& node;
  Shape shape;
  size_t dim;
  Tensor indices;
  const int64_t* all;
  int64_t stride;
  int64_t length;  // of a line, along the last dimension
};

/// Calls `line(begin, place, step)` for each line of indices: element `begin` + i is one of the line, and its
/// row-major place in `shape`, at position 0 of `dim`, is `place` + i * `step`.
template <class Line>
void for_each_line(const IndexedElements& elements, Line line) {
  const std::vector<int64_t> strides = StridedView::of(elements.shape).strides;
  const Shape& indices = elements.indices.shape();
  const size_t dim = elements.dim;
  const size_t rank = elements.shape.size();
  const int64_t length = elements.length;
  const int64_t step = dim == rank - 1 ? 0 : 1;
  const int64_t lines = length == 0 ? 0 : element_count(indices) / length;
  Shape at(rank, 0);
  int64_t place = 0;
  for (int64_t i = 0; i < lines; ++i) {
    line(i * length, place, step);
    for (size_t d = rank - 1; d-- > 0;) {
      const int64_t on = d == dim ? 0 : strides[d];
      place += on;
      if (++at[d] < indices[d]) break;
      place -= on * at[d];
      at[d] = 0;
    }
  }
}

Tensor gathered_elements(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const IndexedElements elements(n, x);
  Tensor result = result_tensor(x.dtype(), elements.indices.shape());
  visit_words(x.dtype(), [&]<class Word>(Word) {
    const Word* const from = words_of<Word>(x);
    Word* const to = words_of<Word>(result);
    for_each_line(elements, [&](int64_t begin, int64_t first, int64_t step) {
      for (int64_t i = 0; i < elements.length; ++i)
        to[begin + i] = from[first + i * step + elements.offset(begin + i)];
    });
  });
  return result;
}

/// The row of each position, the last dimension of `indices`, in dimensions of these sizes that are joined.
std::vector<int64_t> joined_rows(const FloatNode& n, const Tensor& indices, std::span<const int64_t> sizes) {
  const Tensor whole = to_dtype(indices, DType::kInt64);
  const auto values = whole.values<int64_t>();
  const size_t depth = sizes.size();
  std::vector<int64_t> rows(values.size() / depth);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t size = sizes[i % depth];
    const int64_t index = values[i] < 0 ? values[i] + size : values[i];
    if (index < 0 || index >= size) fail_index(n, values[i], size);
    rows[i / depth] = rows[i / depth] * size + index;
  }
  return rows;
}

Tensor gathered_by_position(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const Tensor indices = n.operand(1);
  const auto batch = static_cast<size_t>(integer_attribute(n.node, "batch_dims"));
  const auto depth = static_cast<size_t>(indices.dim(-1));
  if (!std::ranges::equal(std::span(x.shape()).first(batch), std::span(indices.shape()).first(batch)))
    fail_shapes(n, indices.shape(), x.shape());
  const std::span<const int64_t> sizes = std::span(x.shape()).subspan(batch, depth);
  Shape shape(indices.shape().begin(), indices.shape().end() - 1);
  const auto after = static_cast<int64_t>(batch + depth);
  shape.insert(shape.end(), x.shape().begin() + after, x.shape().end());
  std::vector<int64_t> rows = joined_rows(n, indices, sizes);
  const int64_t batches = element_count({x.shape().begin(), x.shape().begin() + static_cast<int64_t>(batch)});
  const int64_t indexed = element_count({sizes.begin(), sizes.end()});
  const auto of_batch = std::ssize(rows) / std::max<int64_t>(batches, 1);
  for (int64_t i = 0; i < std::ssize(rows); ++i) rows[static_cast<size_t>(i)] += i / of_batch * indexed;
  return copied_parts(x, shape, rows, batches * indexed,
                      element_count({x.shape().begin() + after, x.shape().end()}));
}

/// Combines the element that is there with the one that is put there, by the attribute `reduction`.
template <class T>
auto reduction_of(const Node& node) -> T (*)(T, T) {
  if constexpr (std::is_same_v<T, bool>) {
    fail("node \"{}\" ({}): bool elements are not reduced", node.name, node.op);
  } else {
    static const std::map<std::string_view, T (*)(T, T)> functions = {
        {"add", Sum::of<T>}, {"mul", Product::of<T>}, {"max", Larger::of<T>}, {"min", Smaller::of<T>}};
    return functions.at(choice_attribute(node, "reduction"));
  }
}

/// Calls `scatter(to, from, put)` with the elements of a copy of input 0 and those of input 2, which `put`
/// combines; returns the copy. Input 2 has `count` elements.
template <class Scatter>
Tensor scattered(const FloatNode& n, int64_t count, const Scatter& scatter) {
  Tensor result = n.operand(0).clone();
  const Tensor updates = n.operand(2);
  if (updates.numel() != count)
    fail("node \"{}\" ({}): got elements of shape {}, expected {} of them", n.node.name, n.node.op,
         shape_text(updates.shape()), count);
  const std::string& reduction = choice_attribute(n.node, "reduction");
  if (reduction == "none") {
    visit_words(result.dtype(), [&]<class Word>(Word) {
      scatter(words_of<Word>(result), words_of<Word>(updates), [](Word, Word update) { return update; });
    });
  } else {
    visit_numbers(result.dtype(), [&]<class T>(T) {
      T* const to = words_of<T>(result);
      const T* const from = words_of<T>(updates);
      if constexpr (std::is_same_v<T, float>) {  // loops for those of graph networks
        if (reduction == "add") return scatter(to, from, [](T a, T b) { return Sum::of<T>(a, b); });
        if (reduction == "max") return scatter(to, from, [](T a, T b) { return Larger::of<T>(a, b); });
        if (reduction == "min") return scatter(to, from, [](T a, T b) { return Smaller::of<T>(a, b); });
      }
      scatter(to, from, reduction_of<T>(n.node));
    });
  }
  return result;
}

bool are_equal(const int64_t* values, int64_t count) {
  int64_t differing = 0;
  for (int64_t i = 1; i < count; ++i) differing |= values[i] ^ values[0];
  return differing == 0;
}

/// Graph networks repeat the index of a row for all of its elements, which then stay adjacent.
Tensor scattered_elements(const FloatNode& n) {
  const IndexedElements elements(n, n.operand(0));
  const int64_t length = elements.length;
  return scattered(n, elements.indices.numel(), [&](auto* to, const auto* from, auto put) {
    for_each_line(elements, [&](int64_t begin, int64_t first, int64_t step) {
      const auto* const updates = from + begin;
      if (step == 1 && are_equal(elements.all + begin, length)) {
        auto* const row = to + first + elements.offset(begin);
        for (int64_t i = 0; i < length; ++i) row[i] = put(row[i], updates[i]);
        return;
      }
      for (int64_t i = 0; i < length; ++i) {
        auto& there = to[first + i * step + elements.offset(begin + i)];
        there = put(there, updates[i]);
      }
    });
  });
}

Tensor scattered_parts(const FloatNode& n) {
  const Shape shape = n.operand(0).shape();
  const Tensor indices = n.operand(1);
  const auto depth = static_cast<size_t>(indices.dim(-1));
  const std::vector<int64_t> rows = joined_rows(n, indices, std::span(shape).first(depth));
  const int64_t part = element_count({shape.begin() + static_cast<int64_t>(depth), shape.end()});
  return scattered(n, std::ssize(rows) * part, [&](auto* to, const auto* from, auto put) {
    for (const int64_t row : rows) {
      auto* const there = to + row * part;
      for (int64_t i = 0; i < part; ++i) there[i] = put(there[i], from[i]);
      from += part;
    }
  });
}

/// An index beyond the depth gives no position its value.
Tensor one_hot(const FloatNode& n) {
  const Tensor indices = to_dtype(n.operand(0), DType::kInt64);
  const auto depth = to_dtype(n.operand(1), DType::kInt64).values<int64_t>()[0];
  if (depth < 1) fail("node \"{}\" (one_hot): input 1 is {}, expected at least 1", n.node.name, depth);
  const Tensor choices = n.operand(2);
  Shape shape = indices.shape();
  const size_t dim = n.dimension(integer_attribute(n.node, "dim"), shape.size() + 1);
  shape.insert(shape.begin() + static_cast<int64_t>(dim), depth);
  const int64_t inner = count_after(shape, dim);
  Tensor result(choices.dtype(), shape);
  visit_words(choices.dtype(), [&]<class Word>(Word) {
    Word* const to = words_of<Word>(result);
    std::fill_n(to, result.numel(), words_of<Word>(choices)[0]);
    for (int64_t i = 0; i < indices.numel(); ++i) {
      int64_t place = indices.values<int64_t>()[static_cast<size_t>(i)];
      if (place < 0) place += depth;
      if (place >= 0 && place < depth)
        to[(i / inner * depth + place) * inner + i % inner] = words_of<Word>(choices)[1];
    }
  });
  return result;
}

/// A row for each dimension, a column for each element that is not 0.
Tensor nonzero(const FloatNode& n) {
  const Tensor x = n.operand(0);
  const Tensor marks = to_dtype(x, DType::kBool);
  std::vector<int64_t> places;
  for (int64_t i = 0; i < x.numel(); ++i)
    if (marks.values<bool>()[static_cast<size_t>(i)]) places.push_back(i);
  Tensor result(DType::kInt64, {x.rank(), std::ssize(places)});
  const auto to = result.values<int64_t>();
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t rest = places[i];
    for (size_t d = x.shape().size(); d-- > 0; rest /= x.shape()[d])
      to[d * places.size() + i] = rest % x.shape()[d];
  }
  return result;
}

/// The slices of a tensor at places of a dimension.
class Slices {
 public:
  Slices(const Tensor& x, size_t dim)
      : x_(x), size_(x.shape()[dim]), after_(count_after(x.shape(), dim)), rows_(0) {
    const int64_t of_row = size_ * after_;
    rows_ = of_row == 0 ? 0 : x.numel() / of_row;
  }

  int64_t size() const { return size_; }

  /// Below 0, 0 or above: element after element, NaN after all numbers and equal to each other.
  int compare(int64_t a, int64_t b) const {
    int result = 0;
    visit_numbers(x_.dtype(), [&]<class T>(T) {
      const T* const from = words_of<T>(x_);
      for (int64_t i = 0; i < rows_ * after_ && result == 0; ++i) {
        const int64_t row = i / after_ * size_ * after_ + i % after_;
        result = order(from[row + a * after_], from[row + b * after_]);
      }
    });
    return result;
  }

 private:
  template <class T>
  static int order(T a, T b) {
    if (a < b) return -1;
    if (b < a) return 1;
    if constexpr (std::is_floating_point_v<T>)
      return static_cast<int>(std::isnan(a)) - static_cast<int>(std::isnan(b));
    return 0;
  }

  const Tensor& x_;
  int64_t size_;
  int64_t after_;
  int64_t rows_;
};

/// Which slice is the first of those that are equal, in the order of their elements; of each slice, which of
/// these it is; and how many are equal.
struct Different {
  std::vector<int64_t> first;
  std::vector<int64_t> which;
  std::vector<int64_t> count;
};

Different different_slices(const Slices& slices) {
  std::vector<int64_t> order(static_cast<size_t>(slices.size()));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return slices.compare(a, b) < 0; });
  Different result;
  result.which.resize(order.size());
  for (const int64_t place : order) {
    if (result.first.empty() || slices.compare(result.first.back(), place) != 0) {
      result.first.push_back(place);
      result.count.push_back(0);
    }
    ++result.count.back();
    result.which[static_cast<size_t>(place)] = std::ssize(result.first) - 1;
  }
  return result;
}

/// The same in the order of the first of each.
Different as_they_come(const Different& sorted) {
  std::vector<int64_t> order(sorted.first.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](int64_t i) { return sorted.first[static_cast<size_t>(i)]; });
  Different result;
  std::vector<int64_t> place(order.size());
  for (const int64_t i : order) {
    place[static_cast<size_t>(i)] = std::ssize(result.first);
    result.first.push_back(sorted.first[static_cast<size_t>(i)]);
    result.count.push_back(sorted.count[static_cast<size_t>(i)]);
  }
  for (const int64_t i : sorted.which) result.which.push_back(place[static_cast<size_t>(i)]);
  return result;
}

std::vector<Tensor> unique_slices(const FloatNode& n) {
  const Tensor given = n.operand(0);
  const bool is_half = given.dtype() == DType::kFloat16 || given.dtype() == DType::kBFloat16;
  const Tensor x = is_half ? to_dtype(given, DType::kFloat32) : given;
  const size_t dim = dim_of(n, x);
  Different found = different_slices(Slices(x, dim));
  if (!boolean_attribute(n.node, "sorted")) found = as_they_come(found);
  Shape shape = given.shape();
  shape[dim] = std::ssize(found.first);
  const auto list = [](const std::vector<int64_t>& values) {
    return Tensor::from<int64_t>({std::ssize(values)}, values);
  };
  return {copied_parts(given, shape, found.first, given.shape()[dim], count_after(given.shape(), dim)),
          list(found.first), list(found.which), list(found.count)};
}

Tensor triangle(const FloatNode& n) {
  const int64_t diagonal = n.is_absent(1) ? 0 : n.integer(1);
  const bool upper = boolean_attribute(n.node, "upper");
  Tensor result = n.operand(0).clone();
  const int64_t rows = result.dim(-2);
  const int64_t columns = result.dim(-1);
  visit_words(result.dtype(), [&]<class Word>(Word) {
    Word* const to = words_of<Word>(result);
    for (int64_t line = 0; columns > 0 && line < result.numel() / columns; ++line) {
      const int64_t place = std::clamp<int64_t>(line % rows + diagonal + (upper ? 0 : 1), 0, columns);
      Word* const row = to + line * columns;
      std::fill(upper ? row : row + place, upper ? row + place : row + columns, Word());
    }
  });
  return result;
}

}  // namespace

FloatOperators gathering_operators() {
  return {{"gather", gathered_positions, true},
          {"embedding", embedded, true},
          {"gather_elements", gathered_elements, true},
          {"gather_nd", gathered_by_position, true},
          {"scatter_elements", scattered_elements, true},
          {"scatter_nd", scattered_parts, true},
          {"one_hot", one_hot, true},
          {"nonzero", nonzero, true},
          {.op = "unique", .compute = nullptr, .is_exact = true, .compute_all = unique_slices},
          {"trilu", triangle, true}};
}

}  // namespace detent
