#include "detent/graph/loop.h"
#include "detent/onnx/exporters/exporters.h"

namespace detent {
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
