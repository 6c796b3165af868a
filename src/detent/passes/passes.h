#pragma once

#include "detent/passes/pass.h"

namespace detent {

// One function a pass, in the file of its name under analysis/ or transform/; passes/registry.cc lists them.
PassInfo init_metadata_pass();
PassInfo add_common_metadata_pass();
PassInfo add_software_metadata_pass();
PassInfo verify_common_metadata_pass();
PassInfo profile_statistics_pass();
PassInfo report_accuracy_pass();
PassInfo report_graph_pass();
PassInfo report_node_type_pass();
PassInfo report_node_shape_pass();
PassInfo report_node_meta_param_pass();
PassInfo summarize_quantization_pass();
PassInfo layerwise_error_analysis_pass();  // analysis/layerwise_error.cc
PassInfo calculate_avg_bits_pass();
PassInfo quantize_pass();
PassInfo prepare_qat_pass();
PassInfo lutnet_pass();
PassInfo finish_lutnet_pass();
PassInfo gptq_pass();
PassInfo gptaq_pass();   // transform/gptq.cc
PassInfo qronos_pass();  // transform/gptq.cc
PassInfo axe_pass();     // transform/gptq.cc
PassInfo adaround_pass();
PassInfo signround_pass();  // transform/adaround.cc
PassInfo bias_correction_pass();
PassInfo equalize_pass();
PassInfo hadamard_pass();
PassInfo scale_search_pass();
PassInfo smooth_quant_pass();
PassInfo static_quantize_pass();
PassInfo finish_qat_pass();
PassInfo fuse_batch_norm_pass();
PassInfo logicnets_fusion_pass();
PassInfo remove_dead_nodes_pass();  // transform/simplify.cc
PassInfo fold_constants_pass();     // transform/simplify.cc
PassInfo save_node_meta_param_pass();
PassInfo load_node_meta_param_pass();
PassInfo save_mase_graph_pass();
PassInfo load_mase_graph_pass();

/// The options of a pass: a struct with `fields`, which are read by read_fields, or, where a table holds more
/// than these, with `static Options parse(const Table&, const std::string& where)` and `static
/// std::vector<FieldDescription> describe()`. Optional members:
///
///     // relations between fields, regular expressions, names that do not depend on a graph
///     void check(const std::string& where) const;
///     // files that the options name
///     std::vector<PassFile> files() const;
///     // see ParsedPass::check
///     void check_graph(const Graph&, const EarlierPasses&, const std::string& where) const;
template <class Options>
Options parse_options(const Table& table, const std::string& where) {
  Options options;
  if constexpr (requires { Options::parse(table, where); }) {
    options = Options::parse(table, where);
  } else {
    read_fields(options, table, where);
  }
  if constexpr (requires { options.check(where); }) options.check(where);
  return options;
}

template <class Options>
PassInfo make_pass(std::string name, PassKind kind, std::string help,
                   void (*body)(Graph& graph, const Options& options, PassContext& context),
                   PassStage stage = PassStage::kAny) {
  PassInfo pass;
  pass.name = std::move(name);
  pass.kind = kind;
  pass.stage = stage;
  pass.help = std::move(help);
  if constexpr (requires { Options::describe(); }) {
    pass.options = Options::describe();
  } else {
    pass.options = describe_fields<Options>();
  }
  pass.parse = [body](const Table& table, const std::string& where) {
    const auto options = std::make_shared<const Options>(parse_options<Options>(table, where));
    ParsedPass parsed;
    parsed.run = [body, options](Graph& graph, PassContext& context) { body(graph, *options, context); };
    parsed.check = [options, where](const Graph& graph, const EarlierPasses& earlier) {
      if constexpr (requires { options->check_graph(graph, earlier, where); }) {
        options->check_graph(graph, earlier, where);
      }
    };
    if constexpr (requires { options->files(); }) parsed.files = options->files();
    return parsed;
  };
  return pass;
}

/// Options of a pass without any.
struct NoOptions {
  template <class Self, class Visitor>
  static void fields(Self&, Visitor&) {}
};

}  // namespace detent
