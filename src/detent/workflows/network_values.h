#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/executor.h"
#include "detent/graph/graph.h"
#include "detent/inference/code_type.h"

namespace detent {

/// An output or a value inside, as a run gives it.
struct NamedValue {
  std::string name;  // as the user, or the model, calls it
  NodeInput source;
  Tensor tensor = {};
};

/// The elements as the dtype that an input takes, where every number of theirs is one of its: integers of
/// more bits, other floats (rounded). Nothing for other dtypes.
std::optional<Tensor> as_input_dtype(const Tensor& given, DType dtype);

std::vector<NamedValue> output_values(const Graph& graph);

/// The value of a node, or what the model calls it. `option` (--value) asks for it. Throws Error that names
/// near ones.
NodeInput find_value(const Graph& graph, const std::string& name, const std::string& option);

/// The results of all nodes that compute, by the names of the nodes.
std::vector<NamedValue> node_values(const Graph& graph);

struct NetworkValueOptions {
  bool before_quantization = false;  // values inside, as nodes compute them
  bool as_integers = false;          // values that have quantized integers, as those
};

/// Runs the network once and fills in the tensors: of its outputs, which come first, and of values inside, as
/// further outputs, or, before they are quantized, as an observer sees them. `compile` makes the program.
void compute_values(Graph graph, std::span<const Tensor> inputs, std::vector<NamedValue>& values,
                    const NetworkValueOptions& options,
                    const std::function<std::unique_ptr<const Program>(Graph)>& compile);

/// The smallest dtype of NumPy's that holds all quantized integers of the type.
DType code_dtype(const CodeType& type);
/// int32 integers in a dtype that holds them.
Tensor as_dtype(const Tensor& codes, DType dtype);
/// The int32 integers that stand for float32 values.
Tensor codes_of(const Tensor& values, const CodeType& type);

}  // namespace detent
