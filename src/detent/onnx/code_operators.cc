#include "detent/onnx/exporter.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace detent {
namespace {

constexpr const char* kMicrosoft = "com.microsoft";

/// Integers and what gives their values: names of values of the model.
struct Codes {
  std::string codes;
  std::string scale;
  std::string zero_point;
  int32_t type = 0;         // onnx::TensorProto
  bool by_channel = false;  // a scale for each position of a dimension
};

bool is_op(const onnx::NodeProto& node, std::string_view op) {
  return node.domain().empty() && node.op_type() == op;
}

bool is_one_of(const std::string& op, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

const onnx::AttributeProto* attribute(const onnx::NodeProto& node, std::string_view name) {
  for (const onnx::AttributeProto& each : node.attribute()) {
    if (each.name() == name) return &each;
  }
  return nullptr;
}

bool is_byte(int32_t type) { return type == onnx::TensorProto::UINT8 || type == onnx::TensorProto::INT8; }

class CodeRewriter {
 public:
  explicit CodeRewriter(OnnxModelWriter& writer) : writer_(writer) {}

  void run() {
    std::vector<onnx::NodeProto> nodes = writer_.take_nodes();
    for (onnx::NodeProto& node : nodes) {
      rename_reads(node, [&](const std::string& input) {
        ++readers_[input];
        return input;
      });
    }
    for (const std::string& output : writer_.output_names()) ++readers_[output];
    for (const onnx::NodeProto& node : nodes) rewrite(node);
    for (const std::string& output : writer_.output_names()) provide(output);
    writer_.drop_unread_initializers();
  }

 private:
  void rewrite(const onnx::NodeProto& node) {
    // No operator of codes has a scale a block.
    if (is_op(node, "DequantizeLinear") && attribute(node, "block_size") == nullptr)
      return open_dequantized(node);
    if (is_op(node, "QuantizeLinear")) return quantize(node);
    if (moves(node)) return move(node);
    if (may_take_codes(node)) {
      open_[node.output(0)] = node;
      return;
    }
    write(node);
  }

  // Values that are written when something reads them.

  void open_dequantized(const onnx::NodeProto& node) {
    onnx::NodeProto pending = node;
    pending.set_input(0, resolved(node.input(0)));
    const bool has_zero_point = node.input_size() > 2;
    codes_[node.output(0)] = {.codes = pending.input(0),
                              .scale = node.input(1),
                              .zero_point = has_zero_point ? node.input(2) : "",
                              .type = writer_.element_type(has_zero_point ? node.input(2) : node.input(0)),
                              .by_channel = writer_.initializer_bytes(node.input(1)).size() > sizeof(float)};
    open_[node.output(0)] = std::move(pending);
  }

  /// Writes the node that computes a value, where it is open.
  void provide(const std::string& value) {
    const auto found = open_.find(value);
    if (found == open_.end()) return;
    const onnx::NodeProto open = std::move(found->second);
    open_.erase(found);
    write(open);
  }

  void write(onnx::NodeProto node) {
    rename_reads(node, [&](const std::string& input) {
      provide(resolved(input));
      return resolved(input);
    });
    writer_.add_node(std::move(node));
  }

  const std::string& resolved(const std::string& value) const {
    const auto found = same_.find(value);
    return found == same_.end() ? value : found->second;
  }

  const Codes* codes_of(const std::string& value) const {
    const auto found = codes_.find(value);
    return found == codes_.end() ? nullptr : &found->second;
  }

  /// Codes of 8 bits with one scale.
  const Codes* bytes_of(const std::string& value) const {
    const Codes* const codes = codes_of(value);
    return codes != nullptr && is_byte(codes->type) && !codes->by_channel ? codes : nullptr;
  }

  bool are_equal(const std::string& a, const std::string& b) const {
    return a == b || std::ranges::equal(writer_.initializer_bytes(a), writer_.initializer_bytes(b));
  }

  bool have_equal_types(const Codes& a, const Codes& b) const {
    return a.type == b.type && are_equal(a.scale, b.scale) && are_equal(a.zero_point, b.zero_point);
  }

  size_t reader_count(const std::string& value) const {
    const auto found = readers_.find(value);
    return found == readers_.end() ? 0 : found->second;
  }

  // Elements that are moved.

  bool moves(const onnx::NodeProto& node) const {
    if (!node.domain().empty() || node.input_size() == 0 || bytes_of(node.input(0)) == nullptr) return false;
    const std::string& op = node.op_type();
    if (is_one_of(op, {"Relu", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Gather",
                       "Identity", "Expand", "Tile", "Split"}))
      return true;
    if (op == "MaxPool") return node.output_size() == 1;
    if (op == "Pad") {
      const onnx::AttributeProto* const mode = attribute(node, "mode");
      const bool is_zero = node.input_size() < 3 || node.input(2).empty() || is_zero_float(node.input(2));
      return is_zero && (mode == nullptr || mode->s() == "constant");
    }
    if (op == "Concat") {
      const Codes& first = *bytes_of(node.input(0));
      return std::ranges::all_of(node.input(), [&](const std::string& input) {
        const Codes* const codes = bytes_of(input);
        return codes != nullptr && have_equal_types(*codes, first);
      });
    }
    return false;
  }

  bool is_zero_float(const std::string& initializer) const {
    const auto bytes = writer_.initializer_bytes(initializer);
    return bytes.size() == sizeof(float) &&
           std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
  }

  /// A rectifier compares codes: the value 0 has one.
  void move(const onnx::NodeProto& node) {
    const Codes codes = *bytes_of(node.input(0));
    const bool rectifies = is_op(node, "Relu");
    if (rectifies && is_lowest(codes.zero_point, codes.type)) return open_moved(node.output(0), codes);
    onnx::NodeProto moved = node;
    if (rectifies) {
      moved.set_op_type("Clip");
      moved.add_input(codes.zero_point);
    }
    const int inputs = is_op(node, "Concat") ? node.input_size() : 1;
    for (int i = 0; i < inputs; ++i) moved.set_input(i, codes_of(node.input(i))->codes);
    if (is_op(node, "Pad")) {
      while (moved.input_size() < 3) moved.add_input("");
      moved.set_input(2, codes.zero_point);
    }
    for (std::string& output : *moved.mutable_output()) {
      if (output.empty()) continue;
      const std::string value = output;
      output = writer_.new_value(value + "_codes");
      open_moved(value, {output, codes.scale, codes.zero_point, codes.type, false});
    }
    write(std::move(moved));
  }

  void open_moved(const std::string& value, const Codes& codes) {
    onnx::NodeProto dequantize;
    dequantize.set_op_type("DequantizeLinear");
    dequantize.set_name(writer_.new_node_name(value + "_DequantizeLinear"));
    for (const std::string& input : {codes.codes, codes.scale, codes.zero_point}) dequantize.add_input(input);
    dequantize.add_output(value);
    codes_[value] = codes;
    open_[value] = std::move(dequantize);
  }

  // Operators on codes.

  bool may_take_codes(const onnx::NodeProto& node) const {
    if (!node.domain().empty() || node.output_size() != 1 || reader_count(node.output(0)) != 1) return false;
    const std::string& op = node.op_type();
    if (is_one_of(op, {"Conv", "Gemm", "MatMul"}))
      return bytes_of(node.input(0)) != nullptr && codes_of(node.input(1)) != nullptr &&
             is_byte(codes_of(node.input(1))->type) && has_integer_bias(node);
    if (is_one_of(op, {"Add", "Sum", "Mul"}))
      return node.input_size() == 2 && bytes_of(node.input(0)) != nullptr &&
             bytes_of(node.input(1)) != nullptr;
    if (op == "Where") return bytes_of(node.input(1)) != nullptr && bytes_of(node.input(2)) != nullptr;
    if (op == "Concat")
      return std::ranges::all_of(node.input(),
                                 [&](const std::string& input) { return bytes_of(input) != nullptr; });
    if (op == "Clip" && !has_constant_bounds(node)) return false;
    return is_one_of(op, {"Clip", "Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool"}) &&
           bytes_of(node.input(0)) != nullptr;
  }

  bool has_integer_bias(const onnx::NodeProto& node) const {
    if (node.input_size() < 3 || node.input(2).empty()) return true;
    const Codes* const codes = codes_of(node.input(2));
    return codes != nullptr && codes->type == onnx::TensorProto::INT32;
  }

  bool has_constant_bounds(const onnx::NodeProto& node) const {
    for (int i = 1; i < node.input_size(); ++i) {
      if (!node.input(i).empty() && writer_.initializer_bytes(node.input(i)).size() != sizeof(float))
        return false;
    }
    return true;
  }

  void quantize(const onnx::NodeProto& node) {
    const Codes result{.codes = node.output(0),
                       .scale = node.input(1),
                       .zero_point = node.input(2),
                       .type = writer_.element_type(node.input(2)),
                       .by_channel = writer_.initializer_bytes(node.input(1)).size() > sizeof(float)};
    const Codes* const known = codes_of(node.input(0));
    if (known != nullptr && !result.by_channel && !known->by_channel && have_equal_types(*known, result)) {
      same_[result.codes] = known->codes;
      return;
    }
    const auto open = open_.find(node.input(0));
    const bool is_fused = open != open_.end() && known == nullptr && is_byte(result.type) &&
                          !result.by_channel && write_on_codes(open->second, result);
    if (is_fused) {
      open_.erase(node.input(0));
    } else {
      write(node);
    }
  }

  /// False where no operator computes the open node on codes of these types.
  bool write_on_codes(const onnx::NodeProto& open, const Codes& result) {
    const std::string& op = open.op_type();
    if (is_one_of(op, {"Conv", "Gemm", "MatMul"})) return write_layer(open, result);
    if (op == "Clip") return write_clamp(open, result);
    for (const std::string& input : open.input()) {
      const Codes* const codes = codes_of(input);
      if (codes != nullptr && codes->type != result.type) return false;
    }
    onnx::NodeProto node = operator_of(open, "QLinear" + (op == "Sum" ? "Add" : op), result);
    node.set_domain(kMicrosoft);
    if (op == "Concat") add_type(result, node);
    for (const std::string& input : open.input()) add_operand(input, node);
    if (op != "Concat") add_type(result, node);
    writer_.add_node(std::move(node));
    return true;
  }

  /// A node of the same name and attributes that gives `result`.
  static onnx::NodeProto operator_of(const onnx::NodeProto& node, const std::string& op,
                                     const Codes& result) {
    onnx::NodeProto made;
    made.set_op_type(op);
    made.set_name(node.name());
    *made.mutable_attribute() = node.attribute();
    made.add_output(result.codes);
    return made;
  }

  static void add_type(const Codes& codes, onnx::NodeProto& node) {
    node.add_input(codes.scale);
    node.add_input(codes.zero_point);
  }

  void add_operand(const std::string& value, onnx::NodeProto& node) {
    const Codes* const codes = codes_of(value);
    if (codes == nullptr) {
      provide(value);  // a condition
      node.add_input(value);
      return;
    }
    node.add_input(codes->codes);
    add_type(*codes, node);
  }

  /// Kernels take weights of either sign beside codes without one, and else equal types.
  bool write_layer(const onnx::NodeProto& open, const Codes& result) {
    const Codes& x = codes_.at(open.input(0));
    const Codes& weight = codes_.at(open.input(1));
    const bool has_kernel = x.type == result.type &&
                            (x.type == onnx::TensorProto::UINT8 || weight.type == onnx::TensorProto::INT8);
    if (!has_kernel) return false;
    const bool is_gemm = is_op(open, "Gemm");
    onnx::NodeProto node = operator_of(open, is_gemm ? "QGemm" : "QLinear" + open.op_type(), result);
    if (is_gemm) node.set_domain(kMicrosoft);
    add_operand(open.input(0), node);
    add_operand(open.input(1), node);
    const bool has_bias = open.input_size() > 2 && !open.input(2).empty();
    const std::string bias = has_bias ? codes_.at(open.input(2)).codes : "";
    if (is_gemm) node.add_input(bias);
    add_type(result, node);
    if (!is_gemm && has_bias) node.add_input(bias);
    writer_.add_node(std::move(node));
    return true;
  }

  /// Between equal types a function that clamps does so to codes.
  bool write_clamp(const onnx::NodeProto& clamp, const Codes& result) {
    const Codes& x = codes_.at(clamp.input(0));
    if (!have_equal_types(x, result)) return false;
    onnx::NodeProto node;
    node.set_op_type("Clip");
    node.set_name(clamp.name());
    node.add_input(x.codes);
    for (int i = 1; i < clamp.input_size(); ++i)
      node.add_input(clamp.input(i).empty() ? "" : bound(clamp.input(i), x));
    node.add_output(result.codes);
    writer_.add_node(std::move(node));
    return true;
  }

  bool is_lowest(const std::string& code, int32_t type) const {
    const std::byte lowest{static_cast<uint8_t>(type == onnx::TensorProto::INT8 ? INT8_MIN : 0)};
    return writer_.initializer_bytes(code).front() == lowest;
  }

  /// The code of a number, as QuantizeLinear gives it.
  std::string bound(const std::string& number, const Codes& type) {
    const auto zero = writer_.initializer_bytes(type.zero_point).front();
    const bool is_signed = type.type == onnx::TensorProto::INT8;
    const int zero_point = is_signed ? static_cast<int8_t>(zero) : static_cast<uint8_t>(zero);
    const float steps = float_of(number) / float_of(type.scale);
    const float low = is_signed ? INT8_MIN : 0;
    const float high = is_signed ? INT8_MAX : UINT8_MAX;
    const float code = std::clamp(std::nearbyint(steps) + static_cast<float>(zero_point), low, high);
    const std::string byte(1, static_cast<char>(static_cast<int>(code)));
    return writer_.add_initializer(number + "_code", type.type, {}, byte);
  }

  float float_of(const std::string& initializer) const {
    float value = 0;
    std::memcpy(&value, writer_.initializer_bytes(initializer).data(), sizeof(value));
    return value;
  }

  OnnxModelWriter& writer_;
  std::unordered_map<std::string, size_t> readers_;        // how often a value is read
  std::unordered_map<std::string, Codes> codes_;           // of values
  std::unordered_map<std::string, onnx::NodeProto> open_;  // by the value that it gives
  std::unordered_map<std::string, std::string> same_;      // codes that are others
};

}  // namespace

void compute_on_codes(OnnxModelWriter& writer) { CodeRewriter(writer).run(); }

}  // namespace detent
