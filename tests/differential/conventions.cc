#include "verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "detent/core/convert.h"

namespace detent {
namespace {

/// A node with what is known of its inputs.
struct NodeFacts {
  const onnx::NodeProto& proto;
  std::vector<GeneratedValue> inputs;
  int64_t opset;

  const onnx::AttributeProto* find(std::string_view name) const {
    for (const onnx::AttributeProto& attribute : proto.attribute()) {
      if (attribute.name() == name) return &attribute;
    }
    return nullptr;
  }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  std::string text(std::string_view name) const { return has(name) ? find(name)->s() : ""; }
  bool has_input(size_t index) const { return index < inputs.size() && !inputs[index].name.empty(); }
  bool is_wild(size_t index) const { return has_input(index) && inputs[index].numbers.is_wild; }
};

/// Whether a convolution's auto_pad asks for a border below 0.
bool cuts_off(const NodeFacts& node) {
  if (!node.text("auto_pad").starts_with("SAME") || !node.has("strides")) return false;
  const auto strides = node.find("strides")->ints();
  for (size_t d = 2; d < node.inputs[0].shape.size(); ++d) {
    const int64_t size = node.inputs[0].shape[d];
    const int64_t stride = strides.at(static_cast<int>(d) - 2);
    const int64_t windows = (size + stride - 1) / stride;
    if ((windows - 1) * stride + node.inputs[1].shape[d] < size) return true;
  }
  return false;
}

/// Which differences a convention explains.
enum class Explains {
  kAll,
  kNotFinite
};  // any; those of elements of which one is NaN or infinite, or the end of float32

struct Convention {
  std::vector<std::string_view> ops;
  bool (*applies)(const NodeFacts&);
  Explains explains;
  const char* reason;
};

/// Conventions of NaN and infinities.
const std::vector<Convention>& conventions_of_numbers() {
  static const std::vector<Convention> all = {
      {{"MaxPool", "GlobalMaxPool"},
       [](const NodeFacts& node) { return node.is_wild(0); },
       Explains::kNotFinite,
       "ONNX Runtime begins a window with the lowest float32 and drops NaN; NumPy keeps NaN, and -infinity "
       "is the largest "
       "of itself"},
      {{"ReduceMax", "ReduceMin"},
       [](const NodeFacts& node) { return node.is_wild(0); },
       Explains::kNotFinite,
       "ONNX Runtime drops NaN, or does not, by its place; NumPy keeps it"},
      {{"MeanVarianceNormalization"},
       [](const NodeFacts&) { return true; },
       Explains::kNotFinite,
       "ONNX adds 1e-9 to the deviation, ONNX Runtime nothing: 0 / 0 where all elements are equal"},
      {{"Sign"},
       [](const NodeFacts& node) { return node.is_wild(0) && node.inputs[0].dtype == DType::kFloat16; },
       Explains::kNotFinite,
       "ONNX Runtime gives 0 for NaN of float16, and NaN for that of float32"},
      {{"Gelu", "BiasGelu", "FastGelu"},
       [](const NodeFacts& node) { return node.is_wild(0); },
       Explains::kNotFinite,
       "of -infinity ONNX's formula is 0 times infinity, NaN; here it is the limit, 0"},
      {{"Clip"},
       [](const NodeFacts& node) { return node.is_wild(0); },
       Explains::kNotFinite,
       "from 0 without an upper bound is a rectifier, which leaves infinity where ONNX has the largest "
       "float32"},
      {{"Where", "If"},
       [](const NodeFacts&) { return true; },
       Explains::kNotFinite,
       "ONNX Runtime's Where, which an If becomes, makes 0 of a chosen -0: quotients by it change their "
       "sign"},
  };
  return all;
}

const std::vector<Convention>& other_conventions() {
  static const std::vector<Convention> all = {
      {{"MaxPool", "AveragePool", "LpPool"},
       [](const NodeFacts& node) {
         return node.text("auto_pad").starts_with("SAME") && node.has("dilations");
       },
       Explains::kAll,
       "ONNX Runtime pads as if there were no dilation; ONNX has ceil(size / stride) windows"},
      {{"Slice"},
       [](const NodeFacts& node) { return node.opset >= 10 && node.has_input(4) && node.is_wild(2); },
       Explains::kAll,
       "with a step below 0 ONNX Runtime takes an end of INT64_MAX or INT32_MAX for the beginning; ONNX "
       "clamps it"},
      {{"Squeeze"},
       [](const NodeFacts& node) { return !node.has("axes") && !node.has_input(1); },
       Explains::kAll,
       "without axes Detent keeps open dimensions where they are 1 too, and says so"},
      {{"LSTM"},
       [](const NodeFacts& node) { return node.has("clip"); },
       Explains::kAll,
       "ONNX clips what activations read, ONNX Runtime that of the gates alone, not the cell's"},
      {{"ReduceSum"},
       [](const NodeFacts& node) { return std::ranges::count(node.inputs[0].shape, 0) > 0; },
       Explains::kAll,
       "a sum over a dimension without elements is 0; some versions of ONNX Runtime give no result"},
      {{"MatMul", "Gemm"},
       [](const NodeFacts& node) { return std::ranges::count(node.inputs[1].shape, 0) > 0; },
       Explains::kAll,
       "sums of no products are 0; ONNX Runtime leaves what its memory holds"},
      {{"Conv"},
       cuts_off,
       Explains::kAll,
       "where strides are larger than the kernel, so that auto_pad cuts off, ONNX Runtime begins one "
       "position before "
       "that of the formula, which its LpPool takes"},
      {{"QLinearAveragePool"},
       [](const NodeFacts& node) { return node.has("ceil_mode") && node.has("count_include_pad"); },
       Explains::kAll,
       "of a last window that ends beyond the border ONNX Runtime divides by all places; ONNX leaves out "
       "what "
       "lies beyond the border"},
      {{"Hardmax"},
       [](const NodeFacts& node) {
         return std::ranges::find(node.inputs[0].shape, 0) != node.inputs[0].shape.end();
       },
       Explains::kAll,
       "the export has ArgMax, which ONNX Runtime gives another shape where there are no elements"},
      {{"ReduceSumSquare", "ReduceProd"},
       [](const NodeFacts& node) {
         const GeneratedValue& input = node.inputs[0];
         const auto count = static_cast<double>(element_count(input.shape));
         const double most = node.proto.op_type() == "ReduceProd"
                                 ? std::pow(input.numbers.magnitude, count)
                                 : input.numbers.magnitude * input.numbers.magnitude * count;
         return input.dtype == DType::kInt32 && most >= 0x1p31;
       },
       Explains::kAll,
       "ONNX Runtime converts a sum or product beyond 32 bits from another type; ONNX does not say what it "
       "is"},
  };
  return all;
}

NodeFacts facts_of(const Case& generated, const onnx::NodeProto& node) {
  NodeFacts facts{node, {}, 0};
  for (const std::string& name : node.input()) {
    const auto found = std::ranges::find(generated.values, name, &GeneratedValue::name);
    facts.inputs.push_back(found == generated.values.end() ? GeneratedValue{} : *found);
  }
  for (const auto& import : generated.model.opset_import()) {
    if (import.domain() == node.domain()) facts.opset = import.version();
  }
  return facts;
}

/// Whether the tensors are as near as they should be where both are finite, or their types and shapes differ.
bool differ_where_not_finite(const GeneratedValue& output, const Tensor& expected, const Tensor& actual) {
  if (expected.dtype() != actual.dtype()) return false;
  if (expected.shape() != actual.shape()) return !output.has_known_shape;  // as many as were not finite
  if (!is_floating_point(expected.dtype())) return true;  // what is compared or cast was not finite
  Tensor theirs = to_dtype(expected, DType::kFloat32).clone();
  Tensor ours = to_dtype(actual, DType::kFloat32).clone();
  constexpr float kEnd = 3e38F;
  for (size_t i = 0; i < ours.values<float>().size(); ++i) {
    float& a = ours.values<float>()[i];
    float& b = theirs.values<float>()[i];
    if (!(std::fabs(a) < kEnd && std::fabs(b) < kEnd)) a = b = 0;
  }
  return difference(theirs, ours, output.numbers).empty();
}

/// ONNX Runtime writes the running statistics of a training normalization over its inputs 3 and 4: what else
/// reads them, possibly the normalization itself, has the one or the other.
bool reads_overwritten_statistics(const onnx::GraphProto& graph, const std::set<std::string>& names) {
  std::map<std::string, int> readers;
  for (const onnx::NodeProto& node : graph.node()) {
    for (const std::string& input : node.input()) ++readers[input];
  }
  return std::ranges::any_of(graph.node(), [&](const onnx::NodeProto& node) {
    if (node.op_type() != "BatchNormalization" || node.output_size() < 3) return false;
    const auto is_shared = [&](int i) { return names.contains(node.input(i)) && readers[node.input(i)] > 1; };
    return is_shared(3) || is_shared(4);
  });
}

}  // namespace

std::string allowed_difference(const Case& generated, const GeneratedValue& output, const Tensor& expected,
                               const Tensor& actual) {
  std::set<std::string> needed = {output.name};
  const bool is_not_finite = differ_where_not_finite(output, expected, actual);
  const onnx::GraphProto& graph = generated.plain;
  for (int i = graph.node_size(); i-- > 0;) {
    const onnx::NodeProto& node = graph.node(i);
    if (std::ranges::none_of(node.output(), [&](const std::string& name) { return needed.contains(name); }))
      continue;
    insert_reads(node, needed);
    const NodeFacts facts = facts_of(generated, node);
    for (const auto* list : {&conventions_of_numbers(), &other_conventions()}) {
      for (const Convention& convention : *list) {
        const bool is_its = std::ranges::find(convention.ops, node.op_type()) != convention.ops.end();
        if (!is_its || !convention.applies(facts)) continue;
        if (convention.explains == Explains::kAll || is_not_finite)
          return fmt::format("{}: {}", node.op_type(), convention.reason);
      }
    }
  }
  if (reads_overwritten_statistics(graph, needed))
    return "BatchNormalization: in training ONNX Runtime writes running statistics over its inputs";
  return "";
}

}  // namespace detent
