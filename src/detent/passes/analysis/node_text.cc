#include "detent/passes/analysis/node_text.h"

#include "detent/core/error.h"

namespace detent {

std::string fx_opcode(const Node& node) {
  switch (node.mase_type) {
    case MaseType::kPlaceholder:
    case MaseType::kOutput:
    case MaseType::kGetAttr:
      return std::string(mase_type_name(node.mase_type));
    case MaseType::kImplicitFunc:
      return "call_method";
    default:
      return node.target.empty() ? "call_function" : "call_module";
  }
}

const CommonMetadata& common_metadata(const Node& node, const PassContext& context) {
  if (!node.metadata.common) {
    fail("{}: node \"{}\" has no common metadata; run add_common_metadata first", context.where, node.name);
  }
  return *node.metadata.common;
}

}  // namespace detent
