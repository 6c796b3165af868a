#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "graph_writer.h"

namespace detent {

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

}  // namespace detent
