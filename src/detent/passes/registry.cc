#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/log.h"
#include "detent/passes/passes.h"

namespace detent {

std::span<const PassInfo> all_passes() {
  static const std::vector<PassInfo> passes = {
      adaround_pass(),
      add_common_metadata_pass(),
      add_software_metadata_pass(),
      axe_pass(),
      bias_correction_pass(),
      calculate_avg_bits_pass(),
      equalize_pass(),
      finish_lutnet_pass(),
      finish_qat_pass(),
      fold_constants_pass(),
      fuse_batch_norm_pass(),
      gptaq_pass(),
      gptq_pass(),
      hadamard_pass(),
      init_metadata_pass(),
      layerwise_error_analysis_pass(),
      load_mase_graph_pass(),
      load_node_meta_param_pass(),
      logicnets_fusion_pass(),
      lutnet_pass(),
      prepare_qat_pass(),
      profile_statistics_pass(),
      qronos_pass(),
      quantize_pass(),
      remove_dead_nodes_pass(),
      report_accuracy_pass(),
      report_graph_pass(),
      report_node_meta_param_pass(),
      report_node_shape_pass(),
      report_node_type_pass(),
      save_mase_graph_pass(),
      save_node_meta_param_pass(),
      scale_search_pass(),
      signround_pass(),
      smooth_quant_pass(),
      static_quantize_pass(),
      summarize_quantization_pass(),
      verify_common_metadata_pass(),
  };
  return passes;
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const PassInfo& pass : all_passes()) names.push_back(pass.name);
  return names;
}

const PassInfo& find_pass(std::string_view name) {
  const auto passes = all_passes();
  auto it = std::ranges::find(passes, name, &PassInfo::name);
  if (it != passes.end()) return *it;
  if (!name.empty()) it = std::ranges::find(passes, name, &PassInfo::former_name);
  if (it == passes.end()) fail_unknown("", "pass", name, pass_names());
  warn_of_former_name("pass", name, it->name);
  return *it;
}

}  // namespace detent
