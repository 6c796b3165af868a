#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "detent/core/convert.h"
#include "detent/core/element_types.h"
#include "detent/core/pair_functions.h"
#include "detent/core/parallel.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/linear_codes.h"
#include "detent/kernels/window_places.h"

namespace detent {
namespace {

/// The elements of an input that has one, or one for each position of a dimension: that of each element of x.
template <class T>
class AlongAxis {
 public:
  AlongAxis(const FloatNode& n, size_t index, DType dtype, T missing)
      : values_{missing}, run_(n.inputs[0].tensor.numel()) {
    if (n.is_absent(index)) return;
    const Tensor given = to_dtype(number_or_tensor(n, index), dtype);
    values_.assign(given.values<T>().begin(), given.values<T>().end());
    if (values_.size() == 1) return;
    const Shape& shape = n.inputs[0].tensor.shape();
    const size_t axis = n.dimension(integer_attribute(n.node, "axis"), shape.size());
    run_ = element_count({shape.begin() + static_cast<int64_t>(axis) + 1, shape.end()});
  }

  T at(int64_t element) const {
    return values_.size() == 1 ? values_[0] : values_[static_cast<size_t>(element / run_) % values_.size()];
  }
  /// Adjacent elements that share one.
  int64_t run() const { return run_; }

 private:
  /// A number here is none of the other inputs' type.
  static Tensor number_or_tensor(const FloatNode& n, size_t index) {
    double scratch = 0;
    const NodeInput& input = n.node.inputs[index];
    const Value& given = input.is_constant() ? input.constant : n.inputs[index].number;
    const double* const number = given.number(scratch);
    return number == nullptr ? n.operand(index) : Tensor::from<double>({}, std::vector{*number});
  }

  std::vector<T> values_;
  int64_t run_;
};

template <class T>
constexpr bool kHasCodeKernel =
    std::is_same_v<T, uint8_t> || std::is_same_v<T, int8_t> || std::is_same_v<T, int16_t>;

/// Calls `convert(begin, count)` for elements of which each `run` share scale and zero point.
template <class Convert>
void for_each_run(int64_t elements, int64_t run, const Convert& convert) {
  constexpr int64_t kGrain = 4096;
  parallel_for(elements, kGrain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t run_end = std::min(end, (begin / run + 1) * run);
      convert(begin, run_end - begin);
      begin = run_end;
    }
  });
}

Tensor quantized(const FloatNode& n) {
  const Tensor x = to_dtype(n.operand(0), DType::kFloat32);
  const AlongAxis<float> scale(n, 1, DType::kFloat32, 1);
  const AlongAxis<float> zero(n, 2, DType::kFloat32, 0);
  Tensor codes(dtype_of_name(choice_attribute(n.node, "dtype")), x.shape());
  visit_numbers(codes.dtype(), [&]<class T>(T) {
    const float* const from = words_of<float>(x);
    T* const to = words_of<T>(codes);
    for_each_run(x.numel(), std::min(scale.run(), zero.run()), [&](int64_t begin, int64_t count) {
      if constexpr (kHasCodeKernel<T>) {
        codes_of(from + begin, scale.at(begin), zero.at(begin), to + begin, count);
      } else {
        for (int64_t i = begin; i < begin + count; ++i) to[i] = code_of<T>(from[i], scale.at(i), zero.at(i));
      }
    });
  });
  return codes;
}

Tensor dequantized(const FloatNode& n) {
  const Tensor codes = n.operand(0);
  const AlongAxis<float> scale(n, 1, DType::kFloat32, 1);
  const AlongAxis<int64_t> zero(n, 2, DType::kInt64, 0);
  Tensor result(DType::kFloat32, codes.shape());
  const auto convert = [&]<class T>(const T* from) {
    float* const to = words_of<float>(result);
    for_each_run(codes.numel(), std::min(scale.run(), zero.run()), [&](int64_t begin, int64_t count) {
      const int64_t origin = zero.at(begin);
      const bool is_short = origin == static_cast<int16_t>(origin);
      if constexpr (kHasCodeKernel<T>) {
        if (is_short)
          return values_of(from + begin, scale.at(begin), static_cast<int32_t>(origin), to + begin, count);
      }
      for (int64_t i = begin; i < begin + count; ++i) to[i] = value_of(from[i], scale.at(i), zero.at(i));
    });
  };
  if (codes.dtype() == DType::kUInt8) {
    convert(words_of<uint8_t>(codes));
  } else if (codes.dtype() == DType::kInt8) {
    convert(words_of<int8_t>(codes));
  } else if (codes.dtype() == DType::kInt16) {
    convert(words_of<int16_t>(codes));
  } else {
    const Tensor wide = to_dtype(codes, DType::kInt64);
    convert(words_of<int64_t>(wide));
  }
  return result;
}

std::vector<Tensor> dynamically_quantized(const FloatNode& n) {
  const auto x = n.tensor(0).values<float>();
  float low = 0;
  float high = 0;
  for (const float value : x) {
    low = Smaller::of(low, value);
    high = Larger::of(high, value);
  }
  const DynamicCodes way(low, high);
  Tensor codes(DType::kUInt8, n.tensor(0).shape());
  codes_of(x.data(), way.scale, way.zero, codes.values<uint8_t>().data(), std::ssize(x));
  return {codes, Tensor::from<float>({}, std::vector{way.scale}),
          Tensor::from<uint8_t>({}, std::vector{way.zero})};
}

// Sums of products of integers less their zero points, modulo 2^32.

/// The codes of input `index` less the zero points that input `zeros` has, repeated to its shape.
Tensor centred(const FloatNode& n, size_t index, const std::optional<Tensor>& zeros) {
  const Tensor codes = to_dtype(n.operand(index), DType::kInt32);
  if (!zeros) return codes;
  const Tensor zero = gathered(*zeros, StridedView::broadcast(zeros->shape(), codes.shape()));
  Tensor result(DType::kInt32, codes.shape());
  std::ranges::transform(codes.values<int32_t>(), zero.values<int32_t>(), result.values<int32_t>().begin(),
                         std::minus());
  return result;
}

std::optional<Tensor> zero_points(const FloatNode& n, size_t index) {
  if (n.is_absent(index)) return std::nullopt;
  // A number is of the type of the codes that it belongs to, not of those of input 0.
  const NodeInput& input = n.node.inputs[index];
  const Value& number = input.is_constant() ? input.constant : n.inputs[index].number;
  if (const auto* zero = number.get_if<int64_t>())
    return Tensor::from<int32_t>({}, std::vector{static_cast<int32_t>(*zero)});
  return to_dtype(n.operand(index), DType::kInt32);
}

/// sums += a row of `depth` factors times as many rows.
void add_products(const int32_t* factors, int64_t depth, const int32_t* rows, int64_t columns,
                  uint32_t* sums) {
  for (int64_t k = 0; k < depth; ++k) {
    const auto factor = static_cast<uint32_t>(factors[k]);
    const int32_t* const row = rows + k * columns;
    for (int64_t j = 0; j < columns; ++j) sums[j] += factor * static_cast<uint32_t>(row[j]);
  }
}

/// As numpy's matmul, also of tensors of rank 1.
Tensor integer_product(const FloatNode& n) {
  const Shape shape = n.inferred().front().shape;
  std::optional<Tensor> row_zeros = zero_points(n, 2);
  if (row_zeros && row_zeros->rank() == 1) row_zeros = row_zeros->reshaped({row_zeros->dim(0), 1});
  Tensor a = centred(n, 0, row_zeros);
  Tensor b = centred(n, 1, zero_points(n, 3));
  if (a.rank() == 1) a = a.reshaped({1, a.dim(0)});
  if (b.rank() == 1) b = b.reshaped({b.dim(0), 1});
  const int64_t depth = a.dim(-1);
  const int64_t rows = a.dim(-2);
  const int64_t columns = b.dim(-1);
  const auto leading = [](const Tensor& x) { return Shape(x.shape().begin(), x.shape().end() - 2); };
  const Shape batches = broadcast_shapes(leading(a), leading(b));
  const auto repeated = [&](const Tensor& x) {
    Shape whole = batches;
    whole.insert(whole.end(), x.shape().end() - 2, x.shape().end());
    return gathered(x, StridedView::broadcast(x.shape(), whole));
  };
  const Tensor left = repeated(a);
  const Tensor right = repeated(b);
  Tensor sums(DType::kInt32, shape);
  parallel_for(element_count(batches) * rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      add_products(words_of<int32_t>(left) + i * depth, depth,
                   words_of<int32_t>(right) + i / rows * depth * columns, columns,
                   words_of<uint32_t>(sums) + i * columns);
  });
  return sums;
}

Tensor integer_convolution(const FloatNode& n) {
  const size_t dims = n.inputs[0].tensor.shape().size() - 2;
  const auto integers = [&](const char* name) { return integers_attribute(n.node, name, dims); };
  const bool transposed = boolean_attribute(n.node, "transposed");
  const int64_t groups = integer_attribute(n.node, "groups");
  std::optional<Tensor> weight_zeros = zero_points(n, 3);
  if (weight_zeros) {
    if (transposed && weight_zeros->numel() > 1) {
      fail("node \"{}\": input 3 has {} zero points for a transposed convolution, expected one", n.node.name,
           weight_zeros->numel());
    }
    Shape by_channel(dims + 2, 1);
    by_channel[0] = weight_zeros->numel();
    weight_zeros = weight_zeros->reshaped(by_channel);
  }
  std::optional<Tensor> input_zero = zero_points(n, 2);
  if (input_zero) input_zero = input_zero->reshaped({});
  const Tensor input = centred(n, 0, input_zero);
  const Tensor weight = centred(n, 1, weight_zeros);
  const std::optional<Tensor> bias = n.is_absent(4) ? std::nullopt : std::optional(n.operand(4));
  Tensor sums(DType::kInt32, n.inferred().front().shape);
  const auto spatial = [](const Tensor& x) { return Shape(x.shape().begin() + 2, x.shape().end()); };
  const WindowPlaces over{spatial(transposed ? input : sums),
                          spatial(transposed ? sums : input),
                          spatial(weight),
                          integers("stride"),
                          integers("padding"),
                          integers("dilation")};
  const int64_t outputs = sums.dim(1);
  const int64_t channels = input.dim(1) / groups;
  const int64_t taps = element_count(over.kernel);
  const int64_t inputs_of_channel = element_count(spatial(input));
  const int64_t sums_of_channel = element_count(spatial(sums));
  parallel_for(sums.dim(0) * outputs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t output = i % outputs;
      const int64_t first = output / (outputs / groups) * channels;
      uint32_t* const to = words_of<uint32_t>(sums) + i * sums_of_channel;
      if (bias) std::fill_n(to, sums_of_channel, words_of<uint32_t>(*bias)[output]);
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t kernel = transposed ? (first + c) * (outputs / groups) + output % (outputs / groups)
                                          : output * channels + c;
        const auto* const x =
            words_of<uint32_t>(input) + (i / outputs * input.dim(1) + first + c) * inputs_of_channel;
        const auto* const w = words_of<uint32_t>(weight) + kernel * taps;
        over.for_each([&](int64_t window, int64_t tap, int64_t place) {
          if (transposed)
            to[place] += x[window] * w[tap];
          else
            to[window] += x[place] * w[tap];
        });
      }
    }
  });
  return sums;
}

}  // namespace

FloatOperators quantization_operators() {
  return {
      {.op = "quantize_linear", .compute = quantized, .is_exact = true, .codes = CodeOperator::kQuantization},
      {.op = "dequantize_linear", .compute = dequantized, .is_exact = true, .codes = CodeOperator::kValues},
      {.op = "dynamic_quantize_linear",
       .compute = nullptr,
       .is_exact = true,
       .compute_all = dynamically_quantized,
       .codes = CodeOperator::kRange},
      {.op = "integer_matmul", .compute = integer_product, .is_exact = true, .codes = CodeOperator::kProduct},
      {.op = "integer_convolution",
       .compute = integer_convolution,
       .is_exact = true,
       .codes = CodeOperator::kConvolution}};
}

}  // namespace detent
