#pragma once

#include <string>
#include <vector>

#include "graph_writer.h"

namespace detent {

/// Writes one node of an operator, with attributes and operands that are allowed in the graph's opset.
struct OperatorGenerator {
  const char* op;
  int64_t since;  // the first opset that has it
  void (*write)(GraphWriter&, const std::string& op);
  int64_t until = 99;
};

// One list a file; all_operator_generators() joins them.
std::vector<OperatorGenerator> function_generators();
std::vector<OperatorGenerator> pair_generators();
std::vector<OperatorGenerator> reduction_generators();
std::vector<OperatorGenerator> shape_generators();
std::vector<OperatorGenerator> index_generators();
std::vector<OperatorGenerator> layer_generators();
std::vector<OperatorGenerator> pooling_generators();
std::vector<OperatorGenerator> normalization_generators();
std::vector<OperatorGenerator> recurrent_generators();
std::vector<OperatorGenerator> code_generators();
std::vector<OperatorGenerator> feature_generators();
std::vector<OperatorGenerator> microsoft_generators();
std::vector<OperatorGenerator> quantized_generators();
std::vector<OperatorGenerator> pattern_generators();
std::vector<OperatorGenerator> subgraph_generators();

const std::vector<OperatorGenerator>& all_operator_generators();

}  // namespace detent
