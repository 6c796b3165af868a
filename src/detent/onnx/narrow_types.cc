#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/onnx/importer.h"

namespace detent {
namespace {

// Operators on types of few bits, whose values another type holds.

constexpr std::string_view kKeeping[] = {"ArrayFeatureExtractor",
                                         "BitwiseAnd",
                                         "BitwiseOr",
                                         "BitwiseXor",
                                         "Concat",
                                         "Div",
                                         "Expand",
                                         "Flatten",
                                         "Gather",
                                         "GatherElements",
                                         "GatherND",
                                         "Identity",
                                         "Max",
                                         "Min",
                                         "Mod",
                                         "Pad",
                                         "Reshape",
                                         "Slice",
                                         "Split",
                                         "Squeeze",
                                         "Tile",
                                         "TopK",
                                         "Transpose",
                                         "Unsqueeze",
                                         "Where"};
constexpr std::string_view kWrapping[] = {"Add", "BitShift", "BitwiseNot", "Mul", "Pow", "Sub", "Sum"};
/// Operators that give another type, or say which one.
constexpr std::string_view kReading[] = {
    "BitCast",        "Cast",           "CastLike", "DequantizeLinear",     "Equal",
    "Greater",        "GreaterOrEqual", "Less",     "LessOrEqual",          "NonZero",
    "QuantizeLinear", "Shape",          "Size",     "GatherBlockQuantized", "LabelEncoder"};

bool is_among(std::span<const std::string_view> names, const onnx::NodeProto& node) {
  return std::ranges::find(names, node.op_type()) != names.end();
}

}  // namespace

void OnnxImporter::expect_known_types(const onnx::NodeProto& node, const ImportScope& scope) {
  if (is_among(kKeeping, node) || is_among(kReading, node)) return;
  for (const std::string& name : node.input()) {
    const ImportedValue* const value = name.empty() ? nullptr : find_any(name, scope);
    const NarrowType* const type = value == nullptr ? nullptr : value->narrow_type;
    if (type == nullptr) continue;
    const bool wraps = is_among(kWrapping, node) && !type->is_float();
    if (!wraps) fail("an input of {}, which is not supported for this operator", type->name);
  }
}

void OnnxImporter::inherit_narrow_type(const onnx::NodeProto& node, ImportScope& scope) {
  const bool wraps = is_among(kWrapping, node);
  if (!wraps && !is_among(kKeeping, node)) return;
  const NarrowType* type = nullptr;
  const int typed_inputs = node.op_type() == "Pow" ? 1 : node.input_size();  // a power has its base's type
  for (int i = 0; i < typed_inputs; ++i) {
    const ImportedValue* const value = node.input(i).empty() ? nullptr : find_any(node.input(i), scope);
    if (type == nullptr && value != nullptr) type = value->narrow_type;
  }
  if (type == nullptr) return;
  for (const std::string& name : node.output()) {
    if (node.op_type() == "TopK" && name != node.output(0)) continue;  // positions
    const auto found = scope.values.find(name);
    if (found == scope.values.end()) continue;
    if (wraps) {
      NodeImport import(*this, node, opset(node.domain()));
      const NodeInput wrapped = import.wrapped(operand(*found->second, name), *type);
      scope.values.erase(found);
      set_output(name, {.source = wrapped, .constant = std::nullopt});
    }
    scope.values.at(name)->narrow_type = type;
  }
}

/// Integers of 64 bits wrap as those do that hold them.
NodeInput NodeImport::wrapped(NodeInput x, const NarrowType& type) {
  constexpr int kWidest = 64;
  if (type.bits == kWidest) return x;
  const auto low = NodeImport::integer_of(static_cast<int64_t>(type.low()));
  if (type.is_signed) x = add("sub", {std::move(x), low});
  x = add("remainder", {std::move(x), NodeImport::integer_of(int64_t{1} << type.bits)});
  return type.is_signed ? add("add", {std::move(x), low}) : x;
}

const NarrowType* NodeImport::narrow_type(size_t index) const {
  return has_input(index) ? importer_.find(input_name(index), *importer_.scope_).narrow_type : nullptr;
}

void NodeImport::set_narrow_type(size_t output, const NarrowType* type) {
  const std::string& name = proto_.output(static_cast<int>(output));
  if (!name.empty()) importer_.scope_->values.at(name)->narrow_type = type;
}

}  // namespace detent
