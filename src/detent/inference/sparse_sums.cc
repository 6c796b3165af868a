
#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/kernels/tensor_layout.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/windows.h"

namespace detent {
namespace {

std::vector<float> biases(const Connections& connections, const std::optional<Tensor>& bias) {
  std::vector<float> values(static_cast<size_t>(connections.outputs()));
  if (bias) std::ranges::copy(bias->values<float>(), values.begin());
  return values;
}

void compute_sparse_rows(const Connections& connections, const std::vector<float>& bias, const Tensor& input,
                         std::span<float> results) {
  const auto outputs = static_cast<size_t>(connections.outputs());
  const auto width = static_cast<size_t>(input.dim(-1));
  const float* values = input.values<float>().data();
  parallel_for(static_cast<int64_t>(results.size() / outputs), 1, [&](int64_t begin, int64_t end) {
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      const float* from = values + row * width;
      for (size_t o = 0; o < outputs; ++o)
        results[row * outputs + o] =
            connections.sum(static_cast<int64_t>(o), bias[o], [&](int64_t index) { return from[index]; });
    }
  });
}

WindowDimension dimension_of(const Node& layer, size_t i, size_t dims, const Shape& input,
                             const Shape& result) {
  const Shape& weight = layer.find_parameter("weight")->tensor.shape();
  const auto attribute = [&](const char* name) { return integers_attribute(layer, name, dims)[i]; };
  return {input[i + 2],        result[i + 2],        weight[i + 2],
          attribute("stride"), attribute("padding"), attribute("dilation")};
}

struct Planes {
  WindowDimension down;
  WindowDimension across;
  int64_t channels;       // of the input
  int64_t group_inputs;   // channels that an output's weights see
  int64_t group_outputs;  // outputs that see the same
};

/// Adds a connection's products to a row of sums; `offset` is the place that the first of them reads.
void add_products(double weight, const float* row, int64_t offset, const WindowDimension& across,
                  double* sums) {
  const int64_t stride = across.stride;
  const int64_t begin = std::min(across.count, offset < 0 ? (-offset + stride - 1) / stride : 0);
  const int64_t past = offset < across.size ? (across.size - 1 - offset) / stride + 1 : 0;
  const int64_t end = std::clamp(past, begin, across.count);
  const double outside = weight * 0;
  for (int64_t x = 0; x < begin; ++x) sums[x] += outside;
  if (stride == 1) {
    for (int64_t x = begin; x < end; ++x) sums[x] += weight * static_cast<double>(row[offset + x]);
  } else {
    for (int64_t x = begin; x < end; ++x) sums[x] += weight * static_cast<double>(row[offset + x * stride]);
  }
  for (int64_t x = end; x < across.count; ++x) sums[x] += outside;
}

/// Connections::sum of an output at all positions at once, the same products in the same order. `input` are
/// the channels that the output's weights see.
void add_plane(std::span<const Connections::Connection> connections, const Planes& planes, const float* input,
               std::span<double> sums) {
  const WindowDimension& down = planes.down;
  const WindowDimension& across = planes.across;
  std::ranges::fill(sums, 0.0);
  for (const auto& [index, value] : connections) {
    const auto weight = static_cast<double>(value);
    const int64_t tap = index % across.kernel;
    const int64_t row = index / across.kernel % down.kernel;
    const float* const channel = input + index / (across.kernel * down.kernel) * down.size * across.size;
    double* of_row = sums.data();
    for (int64_t at = 0; at < down.count; ++at, of_row += across.count) {
      const int64_t y = down.place(at, row);
      if (y >= 0 && y < down.size) {
        add_products(weight, channel + y * across.size, across.place(0, tap), across, of_row);
      } else {
        for (int64_t x = 0; x < across.count; ++x) of_row[x] += weight * 0;
      }
    }
  }
}

void compute_windows(const Connections& connections, const std::vector<float>& bias, const Planes& planes,
                     const float* values, std::span<float> results, int64_t samples) {
  const int64_t positions = planes.down.count * planes.across.count;
  const int64_t outputs = connections.outputs();
  parallel_for(samples * outputs, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(positions));
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t output = plane % outputs;
      const int64_t first =
          plane / outputs * planes.channels + output / planes.group_outputs * planes.group_inputs;
      add_plane(connections.of(output), planes, values + first * planes.down.size * planes.across.size, sums);
      const auto base = static_cast<double>(bias[static_cast<size_t>(output)]);
      std::ranges::transform(sums, results.begin() + plane * positions,
                             [&](double sum) { return static_cast<float>(sum + base); });
    }
  });
}

}  // namespace

Tensor sparse_sums(const Node& layer, const Connections& connections, const Tensor& values,
                   const std::optional<Tensor>& bias) {
  const Operand operand{values.shape(), Value()};
  Tensor result = result_tensor(infer_results(layer, std::span(&operand, 1)).front().shape);
  const size_t dims = trait<WeightedSum>(layer)->spatial_dims;
  if (result.numel() == 0) return result;
  if (dims == 0) {
    compute_sparse_rows(connections, biases(connections, bias), values, result.values<float>());
    return result;
  }
  const auto dimension = [&](size_t i) {
    return dimension_of(layer, i, dims, values.shape(), result.shape());
  };
  const int64_t groups = integer_attribute(layer, "groups");
  compute_windows(connections, biases(connections, bias),
                  {dims == 2 ? dimension(0) : WindowDimension(), dimension(dims - 1), values.dim(1),
                   values.dim(1) / groups, connections.outputs() / groups},
                  values.values<float>().data(), result.values<float>(), values.dim(0));
  return result;
}

}  // namespace detent
