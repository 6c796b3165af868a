#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/tensor_type.h"

namespace detent {

/// `path`, or, where it is a folder, the graph in it or the config.json of a language model.
std::filesystem::path graph_file(const std::filesystem::path& path);

/// The network in a file, which is a graph, an ONNX model or the folder of a language model. `shapes` are
/// those of inputs whose sizes it leaves open, of which all but the batch are fixed then. Throws Error where
/// the file holds no network.
Graph read_network(const std::filesystem::path& path, const InputShapes& shapes = {});

/// Whether its inputs take the shapes that are given for them, the first size apart where `takes_any_batch`.
bool takes_shapes(const Graph& graph, const InputShapes& shapes, bool takes_any_batch = false);

/// Whether its quantizers were trained, or put there for a simulation, and it is not ready for integers yet.
bool brings_quantizers(const Graph& graph);

/// The two parts of "NAME=value"; the name may hold "=" where the value does not. `value` is what an error
/// says there should be. Throws UsageError naming the option.
std::pair<std::string, std::string> named_value(std::string_view option, std::string_view value,
                                                const std::string& text);

/// Parses the option --shape: "NAME=1,3,224,224" each. Throws UsageError where it says something else.
InputShapes named_shapes(std::span<const std::string> texts);
/// The same of one text with ";" between shapes; "" lists none.
InputShapes listed_shapes(const std::string& text);

/// Array for an input, by its name or its node's.
struct GivenArray {
  std::string name;
  std::string file;
  Tensor tensor;
};
struct GivenInputs {
  InputShapes shapes;
  std::vector<GivenArray> arrays;
};

/// .npy, or a tensor of ONNX (.pb).
Tensor read_array(const std::filesystem::path& file);
/// Parses and reads the options --input, "NAME=FILE" or a .npz file of arrays by name each, and --shape.
/// Throws Error or UsageError.
GivenInputs given_inputs(std::span<const std::string> inputs, std::span<const std::string> shapes);
/// The network, at the sizes of the given arrays alone where it takes none of the usual ones.
Graph read_network(const std::filesystem::path& path, const GivenInputs& given);
/// Sizes of the network's open dimensions, as far as shapes and arrays say them. Throws Error where these do
/// not fit, or are for no input.
NamedSizes given_sizes(const Graph& graph, const GivenInputs& given);
/// The inputs in their order; those that are not given are zeros, but for the mask of a language model ones
/// (every token may be seen), or what `fill` makes of those of float32. Throws Error where types differ.
std::vector<Tensor> input_tensors(const Graph& graph, const GivenInputs& given, const NamedSizes& sizes,
                                  const std::function<void(std::span<float>)>& fill = {});

}  // namespace detent
