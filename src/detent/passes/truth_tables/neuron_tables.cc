#include "detent/passes/truth_tables/neuron_tables.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/operators.h"
#include "detent/graph/table_layer.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

int64_t bits_for(size_t values) {
  return std::max<int64_t>(1, static_cast<int64_t>(std::bit_width(values - 1)));
}

Tensor rounded_parameter(const Node& layer, const char* name) {
  const Tensor& tensor = layer.find_parameter(name)->tensor;
  const std::optional<QuantSpec> spec = layer.rounding(name);
  return spec ? fake_quantize(*spec, tensor) : tensor;
}

size_t spatial_dims(const Node& layer) { return trait<WeightedSum>(layer)->spatial_dims; }

bool is_padded(const Node& layer) {
  const size_t dims = spatial_dims(layer);
  return dims > 0 && std::ranges::any_of(integers_attribute(layer, "padding", dims),
                                         [](int64_t zeros) { return zeros > 0; });
}

/// Elements of a kernel's window, a channel.
int64_t kernel_elements(const Node& layer) {
  const Shape& weight = layer.find_parameter("weight")->tensor.shape();
  return element_count({weight.begin() + 2, weight.end()});
}

int64_t group_count(const Node& layer) {
  return spatial_dims(layer) == 0 ? 1 : integer_attribute(layer, "groups");
}

int64_t input_channels(const Node& layer) {
  return layer.find_parameter("weight")->tensor.dim(1) * group_count(layer);
}

/// The element of a window [channels, kernel...] that a weight of `output` meets.
int64_t window_index(const Node& layer, int64_t output, int64_t index) {
  const Tensor& weight = layer.find_parameter("weight")->tensor;
  const int64_t group = output / (weight.dim(0) / group_count(layer));
  return group * (weight.numel() / weight.dim(0)) + index;
}

/// The nodes in their order, of an input [rows, channels, 1...]; what the last gives is rounded with
/// `rounding`, if there is one.
Graph element_graph(const Graph& graph, const std::vector<std::string>& names, size_t dims, int64_t channels,
                    const Quantizer* rounding) {
  Graph elements("elements");
  Shape shape(dims + 2, 1);
  shape[1] = channels;
  elements.add_input("values", shape);
  std::string last = "values";
  for (const std::string& name : names) {
    Node node = graph.node(name);
    node.inputs = {NodeInput::of(last)};
    node.quantization.erase("data_in_0");
    node.quantization.erase("data_out_0");
    last = node.name;
    elements.add(std::move(node));
  }
  Node output{
      .name = "result", .op = "output", .mase_type = MaseType::kOutput, .inputs = {NodeInput::of(last)}};
  if (rounding != nullptr) output.quantization["data_in_0"] = *rounding;
  elements.add(std::move(output));
  return elements;
}

Shape rows_shape(size_t dims, int64_t rows, int64_t channels) {
  Shape shape(dims + 2, 1);
  shape[0] = rows;
  shape[1] = channels;
  return shape;
}

/// Inputs of the layer for each value, [values, channels].
Tensor layer_inputs(const Graph& graph, const TableChain& chain, const ValueList& values,
                    Executor& executor) {
  const Node& layer = graph.node(chain.layer);
  const int64_t channels = input_channels(layer);
  Tensor rows(DType::kFloat32, rows_shape(spatial_dims(layer), std::ssize(values), channels));
  for (size_t i = 0; i < rows.values<float>().size(); ++i)
    rows.values<float>()[i] = values[i / static_cast<size_t>(channels)];
  if (chain.head.empty()) return rows;
  const Graph head = element_graph(graph, chain.head, spatial_dims(layer), channels, nullptr);
  return executor.run(head, std::span(&rows, 1)).clone();
}

/// Enumerates a layer's tables.
class NeuronTables {
 public:
  NeuronTables(const Graph& graph, const TableChain& chain, Executor& executor)
      : graph_(graph),
        chain_(chain),
        layer_(graph.node(chain.layer)),
        connections_(connections_of(layer_)),
        values_(table_inputs(graph, chain)),
        size_(table_size(graph, chain)),
        layer_inputs_(layer_inputs(graph, chain, values_, executor)),
        executor_(executor) {
    if (layer_.find_parameter("bias") != nullptr) bias_ = rounded_parameter(layer_, "bias");
    check_padding();
  }

  Node node() const {
    Node tables = layer_;
    const size_t dims = spatial_dims(layer_);
    tables.op = dims == 0 ? "lut" : fmt::format("lut_conv{}d", dims);
    tables.attributes = {{"scale", 1.0}};
    if (dims > 0) {
      List kernel;
      const Shape& weight = layer_.find_parameter("weight")->tensor.shape();
      for (size_t i = 0; i < dims; ++i) kernel.emplace_back(weight[i + 2]);
      tables.attributes["kernel_size"] = std::move(kernel);
      for (const char* name : {"stride", "padding", "dilation"})
        tables.attributes[name] = *layer_.attributes.find(name);
    }
    const auto constant = [](Tensor tensor) { return ParameterRef(Parameter{std::move(tensor), false}); };
    tables.parameters = {
        {"inputs", constant(inputs())},
        {"tables", constant(entries())},
        {"input_values", constant(Tensor::from({std::ssize(values_)}, values_))},
        {"output_values", constant(Tensor::from({std::ssize(chain_.results)}, chain_.results))}};
    tables.quantization.clear();
    tables.statistics = {};
    return tables;
  }

 private:
  void check_padding() const {
    if (!is_padded(layer_)) return;
    const auto zero = std::ranges::find(values_, 0.0F) - values_.begin();
    const int64_t channels = input_channels(layer_);
    for (int64_t c = 0; c < channels; ++c) {
      const float taken = layer_inputs_.values<float>()[static_cast<size_t>(zero * channels + c)];
      if (taken != 0)
        fail("node \"{}\" ({}): its padding is 0, which \"{}\" in front of it makes {} of in channel {}",
             layer_.name, layer_.op, chain_.first(), taken, c);
    }
  }

  /// Outputs with fewer connections repeat their first, whose further digits do not matter.
  Tensor inputs() const {
    Tensor tensor(DType::kInt64, {size_.outputs, 1, size_.fan_in});
    const auto indices = tensor.values<int64_t>();
    for (int64_t o = 0; o < size_.outputs; ++o) {
      const auto own = connections_.of(o);
      for (int64_t k = 0; k < size_.fan_in; ++k) {
        const int64_t index = own.empty() ? 0 : own[static_cast<size_t>(k < std::ssize(own) ? k : 0)].index;
        indices[static_cast<size_t>(o * size_.fan_in + k)] = window_index(layer_, o, index);
      }
    }
    return tensor;
  }

  /// The layer's sum at an address, as Connections::sum adds it up.
  float sum_at(int64_t output, int64_t address) const {
    const int64_t channels = input_channels(layer_);
    const int64_t kernel = kernel_elements(layer_);
    const float bias = bias_ ? bias_->values<float>()[static_cast<size_t>(output)] : 0.0F;
    return connections_.sum(output, bias, [&](int64_t index) {
      const int64_t level = address % size_.levels;
      address /= size_.levels;
      const int64_t channel = window_index(layer_, output, index) / kernel;
      return layer_inputs_.values<float>()[static_cast<size_t>(level * channels + channel)];
    });
  }

  Tensor entries() const {
    constexpr int64_t kRows = 4096;
    const auto count = static_cast<int64_t>(size_.entries);
    Tensor tables(DType::kInt32, {size_.outputs, 1, count});
    const size_t dims = spatial_dims(layer_);
    const auto program =
        executor_.compile(element_graph(graph_, chain_.tail, dims, size_.outputs, &chain_.result));
    for (int64_t first = 0; first < count; first += kRows) {
      const int64_t rows = std::min(kRows, count - first);
      Tensor sums(DType::kFloat32, rows_shape(dims, rows, size_.outputs));
      parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row) {
          for (int64_t o = 0; o < size_.outputs; ++o)
            sums.values<float>()[static_cast<size_t>(row * size_.outputs + o)] = sum_at(o, first + row);
        }
      });
      const Tensor results = program->run(std::span(&sums, 1)).front();
      for (int64_t i = 0; i < results.numel(); ++i) {
        const int64_t entry = i % size_.outputs * count + first + i / size_.outputs;
        tables.values<int32_t>()[static_cast<size_t>(entry)] =
            result_code(results.values<float>()[static_cast<size_t>(i)]);
      }
    }
    return tables;
  }

  int32_t result_code(float value) const {
    const auto found = std::ranges::lower_bound(chain_.results, value);
    if (found == chain_.results.end() || *found != value)
      fail("node \"{}\" ({}): got the result {}, which its format has not", layer_.name, layer_.op, value);
    return static_cast<int32_t>(found - chain_.results.begin());
  }

  const Graph& graph_;
  const TableChain& chain_;
  const Node& layer_;
  Connections connections_;
  ValueList values_;
  TableSize size_;
  Tensor layer_inputs_;
  std::optional<Tensor> bias_;
  Executor& executor_;
};

}  // namespace

Connections connections_of(const Node& layer) { return Connections(rounded_parameter(layer, "weight")); }

ValueList table_inputs(const Graph& graph, const TableChain& chain) {
  ValueList values = chain.inputs;
  if (!is_padded(graph.node(chain.layer))) return values;
  const auto place = std::ranges::lower_bound(values, 0.0F);
  if (place == values.end() || *place != 0) values.insert(place, 0.0F);
  return values;
}

TableSize table_size(const Graph& graph, const TableChain& chain) {
  const Connections connections = connections_of(graph.node(chain.layer));
  const ValueList values = table_inputs(graph, chain);
  TableSize size{.outputs = connections.outputs(),
                 .connections = connections.total(),
                 .fan_in = std::max<int64_t>(1, connections.most()),
                 .levels = std::ssize(values),
                 .level_bits = bits_for(values.size()),
                 .result_bits = bits_for(chain.results.size())};
  size.entries = std::pow(static_cast<double>(size.levels), static_cast<double>(size.fan_in));
  return size;
}

Node table_node(const Graph& graph, const TableChain& chain, Executor& executor) {
  return NeuronTables(graph, chain, executor).node();
}

double lut6_bound(int64_t address_bits) {
  constexpr int64_t kInputs = 6;
  if (address_bits <= kInputs) return 1;
  const double sign = address_bits % 2 == 0 ? 1 : -1;
  return (std::pow(2.0, static_cast<double>(address_bits - 4)) - sign) / 3;
}

}  // namespace detent
