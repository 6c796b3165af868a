#include "detent/inference/sparse_planes.h"

#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/windows.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

std::vector<float> biases(const Connections& connections, const std::optional<Tensor>& bias) {
  std::vector<float> values(static_cast<size_t>(connections.outputs()));
  if (bias) std::ranges::copy(bias->values<float>(), values.begin());
  return values;
}

/// One row after the other.
void compute_few_rows(const Connections& connections, const std::vector<float>& bias, const Tensor& input,
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

/// All rows at once: columns of the input are planes of one row of windows.
void compute_many_rows(const Connections& connections, const std::vector<float>& bias, const Tensor& input,
                       int64_t rows, std::span<float> results) {
  constexpr int64_t kGrain = 8192;
  const int64_t outputs = connections.outputs();
  const int64_t width = input.dim(-1);
  const WindowDimension across{.size = rows, .count = rows};
  const Planes planes{{}, across, width, width, outputs};
  Tensor columns = result_tensor({width, rows});
  Tensor sums = result_tensor({outputs, rows});
  channels_to_front(input.values<float>().data(), width, rows, columns.values<float>().data(), rows);
  const int64_t grain = std::max<int64_t>(1, kGrain / (rows * std::max<int64_t>(1, connections.most())));
  parallel_for(outputs, grain, [&](int64_t begin, int64_t end) {
    std::vector<double> of_output(static_cast<size_t>(rows));
    for (int64_t output = begin; output < end; ++output) {
      std::ranges::fill(of_output, 0.0);
      add_plane(connections.of(output), planes, columns.values<float>().data(), of_output.data());
      const auto base = static_cast<double>(bias[static_cast<size_t>(output)]);
      std::ranges::transform(of_output, sums.values<float>().begin() + output * rows,
                             [&](double sum) { return static_cast<float>(sum + base); });
    }
  });
  channels_to_last(sums.values<float>().data(), rows, outputs, rows, results.data());
}

void compute_sparse_rows(const Connections& connections, const std::vector<float>& bias, const Tensor& input,
                         std::span<float> results) {
  constexpr int64_t kFewRows = 4;
  const int64_t rows = std::ssize(results) / connections.outputs();
  rows <= kFewRows ? compute_few_rows(connections, bias, input, results)
                   : compute_many_rows(connections, bias, input, rows, results);
}

WindowDimension dimension_of(const Node& layer, size_t i, size_t dims, const Shape& input,
                             const Shape& result) {
  const Shape& weight = layer.find_parameter("weight")->tensor.shape();
  const auto attribute = [&](const char* name) { return integers_attribute(layer, name, dims)[i]; };
  return {input[i + 2],        result[i + 2],        weight[i + 2],
          attribute("stride"), attribute("padding"), attribute("dilation")};
}

void compute_windows(const Connections& connections, const std::vector<float>& bias, const Planes& planes,
                     const float* values, std::span<float> results, int64_t samples) {
  const int64_t positions = planes.positions();
  const int64_t outputs = connections.outputs();
  parallel_for(samples * outputs, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> sums(static_cast<size_t>(positions));
    for (int64_t plane = begin; plane < end; ++plane) {
      const int64_t output = plane % outputs;
      const int64_t first =
          plane / outputs * planes.channels + output / planes.group_outputs * planes.group_inputs;
      std::ranges::fill(sums, 0.0);
      add_plane(connections.of(output), planes, values + first * planes.down.size * planes.across.size,
                sums.data());
      const auto base = static_cast<double>(bias[static_cast<size_t>(output)]);
      std::ranges::transform(sums, results.begin() + plane * positions,
                             [&](double sum) { return static_cast<float>(sum + base); });
    }
  });
}

}  // namespace

Tensor sparse_sums(const Node& layer, const Connections& connections, const Tensor& values,
                   const std::optional<Tensor>& bias) {
  const size_t dims = trait<WeightedSum>(layer)->spatial_dims;
  if (dims == 0) {
    Shape shape = values.shape();
    shape.back() = connections.outputs();
    Tensor result = result_tensor(shape);
    if (result.numel() != 0)
      compute_sparse_rows(connections, biases(connections, bias), values, result.values<float>());
    return result;
  }
  const Operand operand{values.shape(), Value()};
  Tensor result = result_tensor(infer_results(layer, std::span(&operand, 1)).front().shape);
  if (result.numel() == 0) return result;
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
