#include <onnx/onnx_pb.h>

#include <algorithm>
#include <numeric>

#include "detent/core/error.h"
#include "detent/onnx/importer.h"
#include "detent/onnx/node_import.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// The order of dimensions that brings the last one after the first, or back.
std::vector<int64_t> moved_channels(size_t rank, bool to_last) {
  if (rank < 2) fail("a tensor of {} dimensions that has channels", rank);
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), int64_t{0});
  if (to_last) {
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
  } else {
    std::rotate(dims.begin() + 1, dims.end() - 1, dims.end());
  }
  return dims;
}

}  // namespace

void OnnxImporter::convert_channels_last(const onnx::NodeProto& node, ImportScope& scope) {
  onnx::NodeProto plain = node;
  plain.clear_domain();
  ImportScope inner{.outer = &scope, .prefix = scope.prefix, .attributes = scope.attributes};
  NodeImport import(*this, plain, opset(""));
  const auto moved = [&](ImportedValue& value, bool to_last) -> ImportedValue& {
    if (value.sequence) fail("a sequence of tensors, expected a tensor");
    const size_t rank = types_of(value).first.shape.size();
    const NodeInput source = operand(value, node.op_type());
    return own_result(import.add("permute", {source}, {{"dims", Value(moved_channels(rank, to_last))}}),
                      value);
  };
  const int with_channels = node.op_type() == "Conv" ? 2 : 1;
  for (int i = 0; i < std::min(node.input_size(), with_channels); ++i)
    inner.values[node.input(i)] = &moved(find(node.input(i), scope), false);
  scope_ = &inner;
  find_onnx_converter("", node.op_type())(import);
  scope_ = &scope;
  for (const std::string& output : node.output()) {
    const auto given = inner.values.find(output);
    if (output.empty() || given == inner.values.end()) continue;
    scope.values[output] = &moved(*given->second, true);
  }
}

}  // namespace detent
