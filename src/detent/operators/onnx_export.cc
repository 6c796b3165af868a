#include "detent/operators/onnx_export.h"

#include <map>

#include "detent/core/error.h"

namespace detent {
namespace {

using Exporters = std::map<std::string_view, OnnxNodeExporter>;

const Exporters& all_exporters() {
  static const Exporters exporters = [] {
    Exporters joined;
    for (const OnnxExporterList& list :
         {layer_exporters(), normalization_exporters(), pooling_exporters(), elementwise_exporters(),
          activation_exporters(), reduction_exporters(), shape_exporters(), indexing_exporters(),
          quantized_exporters(), recurrent_exporters(), resize_exporters(), table_exporters(),
          control_flow_exporters(), same_operator_exporters()}) {
      for (const auto& [name, exporter] : list)
        DETENT_CHECK(joined.emplace(name, exporter).second, "two exporters for {}", name);
    }
    return joined;
  }();
  return exporters;
}

}  // namespace

OnnxNodeExporter find_onnx_exporter(std::string_view op) {
  const auto found = all_exporters().find(op);
  return found == all_exporters().end() ? nullptr : found->second;
}

}  // namespace detent
