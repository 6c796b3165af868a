#include <algorithm>

#include "detent/core/error.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/operators.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"

#include "memory_file.h"

// A model in ONNX's format. What import_onnx() accepts is run, by the reference and
// the engine, if it is small. Nothing but detent::Error may come of it.

namespace detent {
namespace {

bool is_small(const Graph& graph) {
  constexpr int64_t kMostElements = 1 << 12;
  return std::ranges::all_of(infer_shapes(graph), [](const auto& result) {
    const Shape& shape = result.second.shape;
    return std::ranges::find(shape, kOpenSize) == shape.end() && element_count(shape) <= kMostElements;
  });
}

std::vector<Tensor> some_inputs(const Graph& graph) {
  std::vector<Tensor> inputs;
  float next = 0;
  for (const std::string& name : graph.input_names()) {
    const TensorType& type = graph.input_types().find(name)->second;
    Tensor& input = inputs.emplace_back(type.dtype, type.concrete());
    if (type.dtype != DType::kFloat32) continue;
    for (float& value : input.values<float>()) value = next = 1 - 1.25F * next;
  }
  return inputs;
}

void import_and_run(const std::filesystem::path& path) {
  const Graph graph = import_onnx(path);
  if (!is_small(graph)) return;
  const std::vector<Tensor> inputs = some_inputs(graph);
  IntegerProgram(graph).run(inputs);
  FastProgram(graph).run(inputs);
}

}  // namespace
}  // namespace detent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const detent::MemoryFile file(data, size);
  try {
    detent::import_and_run(file.path());
  } catch (const detent::Error&) {
  }
  return 0;
}
