#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/loop.h"
#include "detent/graph/node_names.h"
#include "detent/onnx/exporter.h"
#include "detent/operators/onnx_export.h"

// The body of a loop is a graph within its node, which reads captured values and parameters by the names that
// they have in the graph around.

namespace detent {

OnnxExporter::TriedSizes OnnxExporter::body_types(const Node& loop, const TriedSizes& around) {
  std::vector<Operand> inputs;
  for (const NodeInput& input : loop.inputs) {
    inputs.push_back(input.is_constant() ? constant_operand(input.constant)
                                         : around.types.find(value_name(input))->second);
  }
  return {loop_body_types(loop, inputs)};
}

OnnxExporter::OnnxExporter(OnnxExporter& around, const Node& loop)
    : graph_(*loop.body),
      options_(around.options_),
      loop_(&loop),
      writer_(around.writer_),
      opset_(around.opset_),
      quantizers_(writer_, options_, opset_) {
  refuse_formats();
  first_ = body_types(loop, around.first_);
  second_ = body_types(loop, around.second_);
}

std::shared_ptr<onnx::GraphProto> OnnxExporter::body_of(const Node& loop,
                                                        std::span<const std::string> captured) {
  OnnxExporter inner(*this, loop);
  const std::vector<std::string> inputs = loop.body->input_names();
  const size_t own = inputs.size() - captured.size();
  writer_.begin_body();
  for (size_t i = 0; i < own; ++i) {
    std::string& name = inner.names_[inputs[i]];
    name = writer_.new_value(source_name(*loop.body, NodeInput::of(inputs[i])));
    const TensorType& type = loop.body->input_types().find(inputs[i])->second;
    i < kLoopControls ? writer_.add_input(name, type) : writer_.add_input(name, type.dtype);
  }
  for (size_t i = own; i < inputs.size(); ++i) inner.names_[inputs[i]] = captured[i - own];
  inner.export_nodes();
  std::shared_ptr<onnx::GraphProto> body = writer_.end_body();
  needed_opset_ = std::max(needed_opset_, inner.needed_opset_);
  if (!inner.problems_.empty()) fail("in its body: {}", fmt::join(inner.problems_, "; "));
  return body;
}

/// Values that the graph around has are no outputs of a body. Where there is no iteration, the type of a
/// collected one says what shape none of them have.
void OnnxExporter::export_body_outputs(const Node& node) {
  if (!problems_.empty()) return;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string value = value_of(node, i);
    const std::string name = writer_.new_value(value + "_next");
    writer_.add_node(
        {.op = "Identity", .inputs = {value}, .outputs = {name}, .name = writer_.new_node_name(name)});
    const Operand& type = first_.types.find(value_name(node.inputs[i]))->second;
    const bool is_collected = i > carried_count(*loop_);
    const std::vector<std::string> open(type.shape.size(), "?");
    is_collected ? writer_.add_output(name, type_of(node.inputs[i], open))
                 : writer_.add_output(name, type.dtype);
  }
}

namespace {

void export_loop(NodeExport& node) {
  OnnxValues inputs = {node.has_input(0) ? node.scalar(0) : "", node.has_input(1) ? node.input(1) : ""};
  const size_t captured = kLoopControls + carried_count(node.node());
  OnnxValues read;
  for (size_t i = kLoopControls; i < node.input_count(); ++i)
    (i < captured ? inputs : read).push_back(node.input(i));
  node.emit_loop(std::move(inputs), read);
}

}  // namespace

OnnxExporterList control_flow_exporters() { return {{"loop", export_loop}}; }

}  // namespace detent
