#include <algorithm>
#include <iterator>
#include <map>

#include <fuzzer/FuzzedDataProvider.h>

#include "detent/core/error.h"
#include "detent/engine/fast_executor.h"
#include "detent/files/json.h"
#include "detent/files/safetensors.h"
#include "detent/formats/packing/encode.h"
#include "detent/graph/operators.h"
#include "detent/graph_files/graph_file.h"
#include "detent/inference/integer_executor.h"

#include "memory_file.h"

// Bytes become the file of a graph: operators, attributes, types and shapes that nearly fit each other. What
// `read_graph` accepts is executed, if it is small, by the reference and the engine. Nothing but
// detent::Error may come of it.

namespace detent {
namespace {

constexpr int64_t kMostElements = 1 << 12;

class GraphFileMaker {
 public:
  GraphFileMaker(const uint8_t* data, size_t size) : data_(data, size) {}

  void write(const std::filesystem::path& path) {
    const auto nodes = data_.ConsumeIntegralInRange<size_t>(1, 8);
    for (size_t i = 0; i < nodes; ++i) add_node(i, i == 0, i + 1 == nodes);
    Table graph{{"name", "fuzz"}, {"nodes", std::move(nodes_)}, {"quantizers", std::move(quantizers_)}};
    if (!often()) return write_file(path, graph);
    graph["requantization"] = data_.ConsumeBool() ? "float" : "fixed_point";
    write_file(path, graph);
  }

 private:
  void write_file(const std::filesystem::path& path, const Table& graph) const {
    std::map<std::string, std::string> metadata = packed_;
    metadata["format"] = "detent.graph";
    metadata["version"] = "4";
    metadata["graph"] = json_text(graph);
    write_safetensors(path, tensors_, metadata);
  }

  bool often() { return data_.ConsumeIntegralInRange(0, 15) != 0; }

  int64_t number() {
    if (often()) return data_.ConsumeIntegralInRange<int64_t>(-1, 5);
    return data_.ConsumeIntegral<int64_t>() >> data_.ConsumeIntegralInRange(0, 63);
  }

  Shape shape(size_t rank) {
    Shape result;
    for (size_t i = 0; i < rank; ++i)
      result.push_back(data_.ConsumeIntegralInRange<int64_t>(often() ? 1 : 0, 4));
    return result;
  }

  std::string name(size_t index) const { return "n" + std::to_string(index); }

  Value attribute_value(const AttributeSchema& attribute) {
    switch (attribute.kind) {
      case AttributeKind::kInteger:
        return number();
      case AttributeKind::kNumber:
        return data_.ConsumeFloatingPointInRange(-2.0, 2.0);
      case AttributeKind::kBoolean:
        return data_.ConsumeBool();
      case AttributeKind::kIntegers: {
        if (data_.ConsumeBool()) return number();
        List list;
        for (auto i = data_.ConsumeIntegralInRange(0, 4); i > 0; --i) list.push_back(number());
        return list;
      }
      case AttributeKind::kChoice:
        return attribute.choices[data_.ConsumeIntegralInRange<size_t>(0, attribute.choices.size() - 1)];
      case AttributeKind::kText:
        return data_.ConsumeRandomLengthString(20);
    }
    return {};
  }

  Table attributes(const OperatorSchema& schema) {
    Table table;
    for (const AttributeSchema& attribute : schema.attributes) {
      const bool keep = !attribute.default_value.is_na() || attribute.optional;
      table[attribute.name] =
          keep && data_.ConsumeBool() ? attribute.default_value : attribute_value(attribute);
    }
    return table;
  }

  List parameters(const OperatorSchema& schema) {
    List list;
    for (const ParameterSchema& parameter : schema.parameters) {
      if (!parameter.required && data_.ConsumeBool()) continue;
      const std::string key = "t" + std::to_string(list.size()) + "_" + std::to_string(tensors_.size());
      if (!often() && !tensors_.empty()) {  // another's, if it fits
        const size_t other = data_.ConsumeIntegralInRange<size_t>(0, tensors_.size() - 1);
        list.push_back(
            Table{{"name", parameter.name}, {"tensor", tensors_[other].first}, {"trainable", true}});
        continue;
      }
      list.push_back(Table{{"name", parameter.name}, {"tensor", key}, {"trainable", often()}});
      if (data_.ConsumeBool()) {
        add_codes(key);
        continue;
      }
      const DType dtype = often() ? DType::kFloat32 : static_cast<DType>(data_.ConsumeIntegralInRange(1, 9));
      Tensor tensor(dtype, shape(data_.ConsumeIntegralInRange<size_t>(0, 4)));
      if (dtype == DType::kFloat32) {
        for (float& value : tensor.values<float>()) {
          value =
              often() ? data_.ConsumeFloatingPointInRange(-2.0F, 2.0F) : data_.ConsumeFloatingPoint<float>();
        }
      }
      tensors_.emplace_back(key, std::move(tensor));
    }
    return list;
  }

  /// A packed parameter: any bytes for codes and scales that nearly fit each other.
  void add_codes(const std::string& name) {
    const char* const text = data_.PickValueInArray(
        {"affine:width=4,symmetric=true,granularity=channel", "affine:width=3,granularity=group,group_size=2",
         "fixed:width=5", "fp8_e4m3fn", "bf16", "mx:element=e2m1,block_size=2", "nvfp4",
         "ternary:scaling_factor=true", "binary_residual:levels=3"});
    const Shape of_codes = shape(data_.ConsumeIntegralInRange<size_t>(0, 4));
    Encoded encoded{parse_quant_spec_text(text), of_codes, often() ? Packing::kBits : Packing::kBase3, {}};
    for (StreamLayout& stream : encoded_layout(encoded.spec, of_codes, Packing::kBits)) {
      if (!often() && !stream.shape.empty())
        stream.shape.back() = data_.ConsumeIntegralInRange<int64_t>(0, 9);
      Tensor bytes(stream.dtype, stream.shape);
      for (std::byte& byte : bytes.bytes()) byte = static_cast<std::byte>(data_.ConsumeIntegral<uint8_t>());
      if (often() && stream.dtype == DType::kFloat32) std::ranges::fill(bytes.values<float>(), 0.25F);
      tensors_.emplace_back(name + "." + stream.name, std::move(bytes));
      streams_.push_back(tensors_.back().first);
    }
    packed_["detent.packed." + name] = json_text(Table{{"format", quant_spec_text(encoded.spec)},
                                                       {"shape", Value(often() ? of_codes : shape(2))},
                                                       {"packing", std::string(enum_name(encoded.packing))}});
  }

  /// The place of a quantizer: a new one, or one that another operand has.
  Value quantizer() {
    if (quantizers_.empty() || data_.ConsumeBool()) quantizers_.push_back(spec());
    return data_.ConsumeIntegralInRange<int64_t>(often() ? 0 : -1,
                                                 std::ssize(quantizers_) - (often() ? 1 : 0));
  }

  Table spec() {
    const int64_t width = data_.ConsumeIntegralInRange<int64_t>(2, often() ? 8 : 24);
    Table keys{{"width", width}};
    List scales;
    for (auto i = often() ? 1 : data_.ConsumeIntegralInRange(0, 3); i > 0; --i) {
      scales.push_back(often() ? data_.ConsumeFloatingPointInRange(0.01, 1.0)
                               : data_.ConsumeFloatingPoint<double>());
    }
    if (data_.ConsumeBool()) keys["zero_point"] = List(scales.size(), number());
    keys["scale"] = std::move(scales);
    if (!often() && !streams_.empty())
      keys["scale"] =
          Table{{"detent.tensor", streams_[data_.ConsumeIntegralInRange<size_t>(0, streams_.size() - 1)]}};
    if (!often()) {
      keys["granularity"] = "channel";
      keys["axis"] = number();
    }
    Table result{{"format", "affine"}, {"keys", std::move(keys)}};
    if (data_.ConsumeBool()) own_scale(result);
    return result;
  }

  /// A scale that is a tensor of the network.
  void own_scale(Table& quantizer) {
    if (often()) quantizer.table("keys")["scale_rule"] = "learned";
    const std::string key = "s" + std::to_string(tensors_.size());
    Tensor scale(often() ? DType::kFloat32 : DType::kInt32, often() ? Shape() : shape(1));
    if (scale.dtype() == DType::kFloat32)
      std::ranges::fill(scale.values<float>(), often() ? 0.25F : data_.ConsumeFloatingPoint<float>());
    tensors_.emplace_back(key, std::move(scale));
    quantizer["parameters"] = List{Table{
        {"name", often() ? "scale" : "zero_point"}, {"tensor", key}, {"trainable", data_.ConsumeBool()}}};
  }

  Table quantization(const List& inputs, const List& parameters, bool last) {
    Table table;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (often()) table["data_in_" + std::to_string(i)] = quantizer();
    }
    for (const Value& parameter : parameters) {
      const auto& key = *parameter.get_if<Table>()->find("name")->get_if<std::string>();
      if (key == "weight") table[key] = quantizer();
    }
    if (!last && often()) table["data_out_0"] = quantizer();
    return table;
  }

  List inputs(const OperatorSchema& schema, size_t index) {
    List list;
    const size_t most = std::min<size_t>(schema.max_inputs, schema.min_inputs + 3);
    for (auto i = data_.ConsumeIntegralInRange(schema.min_inputs, most); i > 0; --i) {
      if (list.empty() || data_.ConsumeBool()) {
        Table value{{"node", name(data_.ConsumeIntegralInRange<size_t>(index < 2 || !often() ? 0 : index - 2,
                                                                       index == 0 ? 0 : index - 1))}};
        if (!often()) value["result"] = data_.ConsumeIntegralInRange<int64_t>(-1, 2);
        list.push_back(std::move(value));
      } else if (!often()) {
        list.push_back(Table());
      } else {
        list.push_back(Table{{"constant", number()}});
      }
    }
    return list;
  }

  const OperatorSchema& pick(bool first, bool last) {
    if (first && often()) return find_operator("placeholder");
    if (last && often()) return find_operator("output");
    const auto all = all_operators();
    return all[data_.ConsumeIntegralInRange<size_t>(0, all.size() - 1)];
  }

  void add_node(size_t index, bool first, bool last) {
    const OperatorSchema& schema = pick(first, last);
    List of_node = inputs(schema, index);
    List owned = parameters(schema);
    const bool plain = schema.name == "placeholder" || schema.name == "output";
    Table quantized = plain ? Table() : quantization(of_node, owned, last);
    Table node{{"name", name(index)},
               {"op", schema.name},
               {"mase_type",
                std::string(enum_name(often() ? schema.mase_type
                                              : static_cast<MaseType>(data_.ConsumeIntegralInRange(0, 6))))},
               {"inputs", std::move(of_node)},
               {"attributes", attributes(schema)},
               {"parameters", std::move(owned)},
               {"quantization", std::move(quantized)}};
    if (schema.name == "placeholder" || !often()) node["input_type"] = input_type();
    nodes_.push_back(std::move(node));
  }

  Table input_type() {
    List sizes;
    for (const int64_t size : shape(data_.ConsumeIntegralInRange<size_t>(1, 4))) sizes.emplace_back(size);
    if (often()) sizes[0] = "N";
    if (!often()) sizes.back() = "M";
    const auto dtype = often() ? DType::kFloat32 : static_cast<DType>(data_.ConsumeIntegralInRange(0, 11));
    return {{"dtype", std::string(dtype_name(dtype))}, {"shape", std::move(sizes)}};
  }

  FuzzedDataProvider data_;
  List nodes_;
  List quantizers_;
  std::map<std::string, std::string> packed_;
  std::vector<std::string> streams_;
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

bool is_small(const Graph& graph) {
  return std::ranges::all_of(infer_shapes(graph), [](const auto& result) {
    return !result.second.is_open() && element_count(result.second.shape) <= kMostElements;
  });
}

std::vector<Tensor> some_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  float next = 0;
  for (const std::string& name : graph.input_names()) {
    const TensorType& type = graph.input_types().find(name)->second;
    Tensor& input = inputs.emplace_back(type.dtype, type.concrete());
    if (type.dtype != DType::kFloat32) continue;
    for (float& value : input.values<float>()) value = next = 1 - 1.25F * next;
  }
  return inputs;
}

void execute(const Graph& graph) {
  if (!is_small(graph)) return;
  const std::vector<Tensor> inputs = some_inputs(graph);
  IntegerProgram(graph).run(inputs);
  FastProgram(graph).run(inputs);
}

}  // namespace
}  // namespace detent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::filesystem::path path = "/dev/shm/detent_graph_fuzz_" + std::to_string(getpid());
  try {
    detent::GraphFileMaker(data, size).write(path);
    detent::execute(detent::read_graph(path));
  } catch (const detent::Error&) {
  }
  std::filesystem::remove(path);
  return 0;
}
