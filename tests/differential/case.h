#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graph_writer.h"
#include "random.h"

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

/// A model with inputs, and what is known of its outputs.
struct Case {
  onnx::ModelProto model;
  std::vector<std::pair<std::string, Tensor>> inputs;
  std::vector<GeneratedValue> values;   // all
  std::vector<GeneratedValue> outputs;  // in the model's order
  onnx::GraphProto plain = {};  // the model's nodes, none of them in a function or branch of wrap_nodes
};

/// The same for the same seed and index.
Case generated_case(uint64_t seed, uint64_t index);

/// The case with these of the model's values as outputs, and nothing that they do not need.
Case reduced_case(const Case& whole, const std::vector<std::string>& outputs);

/// model.onnx, and an array `NAME.npy` for each input.
void write_case(const Case& generated, const std::filesystem::path& folder);

/// Moves some of the model's nodes into functions of its own, and into branches of which it is known that
/// they are taken. The values outside keep their names and numbers.
void wrap_nodes(Case& generated, Random& random);

}  // namespace detent
