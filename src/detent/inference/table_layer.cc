#include "detent/inference/table_layer.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"
#include "detent/inference/windows.h"

namespace detent {
namespace {

[[noreturn]] void refuse(const Node& node, const TableLayerView& layer, float value) {
  constexpr size_t kMostShown = 8;
  const auto shown = layer.input_values.first(std::min(kMostShown, layer.input_values.size()));
  fail("node \"{}\" ({}): got the input {}, which its tables have no entry for; expected one of {}{}",
       node.name, node.op, value, fmt::join(shown, ", "),
       shown.size() < layer.input_values.size() ? fmt::format(", ..., {}", layer.input_values.back()) : "");
}

std::vector<int32_t> codes_of(const Node& node, const TableLayerView& layer, const Tensor& input) {
  constexpr int64_t kGrain = 4096;
  const auto values = input.values<float>();
  std::vector<int32_t> codes(values.size());
  parallel_for(input.numel(), kGrain, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const std::optional<int32_t> code = layer.code_of(values[i]);
      if (!code) refuse(node, layer, values[i]);
      codes[i] = *code;
    }
  });
  return codes;
}

/// The code of a result, of which `code_at(k)` gives the window's element k.
template <class CodeAt>
int32_t output_code(const TableLayerView& layer, int64_t output, CodeAt code_at) {
  int32_t sum = 0;
  for (int64_t term = 0; term < layer.terms; ++term) {
    const std::span<const int64_t> inputs = layer.inputs_of(output, term);
    int64_t address = 0;
    for (auto index = inputs.rbegin(); index != inputs.rend(); ++index)
      address = address * layer.levels() + code_at(*index);
    sum += layer.table_of(output, term)[static_cast<size_t>(address)];
  }
  return layer.output_code(output, sum);
}

void compute_rows(const TableLayerView& layer, std::span<const int32_t> codes, std::span<int32_t> results) {
  const auto outputs = static_cast<size_t>(layer.outputs);
  const size_t rows = results.size() / outputs;
  const size_t width = rows == 0 ? 0 : codes.size() / rows;
  parallel_for(static_cast<int64_t>(rows), 1, [&](int64_t begin, int64_t end) {
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      const int32_t* from = codes.data() + row * width;
      for (size_t o = 0; o < outputs; ++o)
        results[row * outputs + o] =
            output_code(layer, static_cast<int64_t>(o), [&](int64_t index) { return from[index]; });
    }
  });
}

/// A convolution's windows; of one dimension as of two whose first has one position.
struct Windows {
  WindowDimension down;
  WindowDimension across;
};

Windows windows_of(const Node& node, size_t dims, const Shape& input, const Shape& result) {
  const auto kernel = integers_attribute(node, "kernel_size", dims);
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  const auto dimension = [&](size_t i) {
    return WindowDimension{input[i + 2], result[i + 2], kernel[i], stride[i], padding[i], dilation[i]};
  };
  return {dims == 2 ? dimension(0) : WindowDimension(), dimension(dims - 1)};
}

void compute_windows(const TableLayerView& layer, const Windows& windows, int32_t zero,
                     std::span<const int32_t> codes, std::span<int32_t> results, int64_t samples) {
  const WindowDimension& down = windows.down;
  const WindowDimension& across = windows.across;
  const int64_t positions = down.count * across.count;
  const int64_t per_sample = samples == 0 ? 0 : static_cast<int64_t>(codes.size()) / samples;
  parallel_for(samples * layer.outputs, 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      const int32_t* from = codes.data() + plane / layer.outputs * per_sample;
      for (int64_t at = 0; at < positions; ++at) {
        const auto code_at = [&](int64_t index) {
          const int64_t y = down.place(at / across.count, index / across.kernel % down.kernel);
          const int64_t x = across.place(at % across.count, index % across.kernel);
          if (y < 0 || y >= down.size || x < 0 || x >= across.size) return zero;
          const int64_t channel = index / (across.kernel * down.kernel);
          return from[(channel * down.size + y) * across.size + x];
        };
        results[static_cast<size_t>(plane * positions + at)] =
            output_code(layer, plane % layer.outputs, code_at);
      }
    }
  });
}

}  // namespace

Tensor table_layer_codes(const Node& node, const Tensor& input) {
  const TableLayerView layer = table_layer_view(node);
  const Operand operand{input.shape(), Value()};
  const Shape shape = infer_results(node, std::span(&operand, 1)).front().shape;
  Tensor result(DType::kInt32, shape);
  const std::vector<int32_t> codes = codes_of(node, layer, input);
  const size_t dims = trait<TableLayer>(node)->spatial_dims;
  if (dims == 0) {
    compute_rows(layer, codes, result.values<int32_t>());
  } else {
    compute_windows(layer, windows_of(node, dims, input.shape(), shape), layer.code_of(0).value_or(0), codes,
                    result.values<int32_t>(), shape[0]);
  }
  return result;
}

Tensor table_layer_result(const Node& node, const Tensor& input) {
  const TableLayerView layer = table_layer_view(node);
  const Tensor codes = table_layer_codes(node, input);
  Tensor result(DType::kFloat32, codes.shape());
  std::ranges::transform(codes.values<int32_t>(), result.values<float>().begin(),
                         [&](int32_t code) { return layer.output_value(code); });
  return result;
}

}  // namespace detent
