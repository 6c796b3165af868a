#pragma once

#include "detent/passes/pass.h"

namespace detent {

// One function a pass, in the file of its name under analysis/ or transform/; passes/registry.cc lists them.
PassInfo init_metadata_pass();
PassInfo add_common_metadata_pass();
PassInfo add_software_metadata_pass();
PassInfo verify_common_metadata_pass();
PassInfo profile_statistics_pass();
PassInfo report_graph_pass();
PassInfo report_node_type_pass();
PassInfo report_node_shape_pass();
PassInfo report_node_meta_param_pass();
PassInfo summarize_quantization_pass();
PassInfo account_quantization_pass();  // analysis/quantization_account.cc
PassInfo calculate_avg_bits_pass();
PassInfo quantize_pass();
PassInfo gptq_pass();
PassInfo adaround_pass();
PassInfo bias_correction_pass();
PassInfo equalize_pass();
PassInfo smooth_quant_pass();
PassInfo static_quantize_pass();
PassInfo fuse_batch_norm_pass();
PassInfo remove_dead_nodes_pass();  // transform/simplify.cc
PassInfo fold_constants_pass();     // transform/simplify.cc
PassInfo save_node_meta_param_pass();
PassInfo load_node_meta_param_pass();
PassInfo save_mase_graph_pass();
PassInfo load_mase_graph_pass();

/// A pass whose options are the fields of `Options`: they are read and checked before `body` runs.
template <class Options>
PassInfo make_pass(std::string name, PassKind kind, std::string help,
                   void (*body)(Graph& graph, const Options& options, PassContext& context)) {
  return {std::move(name), kind, std::move(help), describe_fields<Options>(),
          [body](Graph& graph, const Table& table, PassContext& context) {
            Options options;
            read_fields(options, table, context.where);
            body(graph, options, context);
          },
          [](const Table& table, const std::string& where) {
            Options options;
            read_fields(options, table, where);
          }};
}

/// Options of a pass that has none.
struct NoOptions {
  template <class Self, class Visitor>
  static void fields(Self&, Visitor&) {}
};

}  // namespace detent
