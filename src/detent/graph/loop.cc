#include "detent/graph/loop.h"

#include <algorithm>

#include "detent/core/error.h"

namespace detent {
namespace {

/// Type of an input of the body that is given `given`, with the sizes that it declares.
Operand taken_by(const TensorType& declared, const Operand& given, size_t index) {
  const bool is_like =
      given.is_tensor() && given.dtype == declared.dtype && given.shape.size() == declared.shape.size();
  Operand taken = given;
  bool fits = is_like;
  for (size_t d = 0; is_like && d < taken.shape.size(); ++d) {
    const auto& dim = declared.shape[d];
    if (dim.is_named()) continue;
    fits = fits && (taken.shape[d] == dim.size || taken.shape[d] == kOpenSize);
    taken.shape[d] = dim.size;
  }
  if (!fits) {
    fail("input {} is {} {}, expected {} as its body declares", index,
         given.is_tensor() ? dtype_name(given.dtype) : "a number", shape_text(given.shape),
         tensor_type_text(declared));
  }
  return taken;
}

std::vector<TensorType> declared_inputs(const Graph& body) {
  std::vector<TensorType> types;
  for (const std::string& name : body.input_names()) types.push_back(body.input_types().find(name)->second);
  return types;
}

/// In the first iteration.
std::vector<Operand> first_inputs(const Node& loop, std::span<const Operand> inputs) {
  const std::vector<TensorType> declared = declared_inputs(*loop.body);
  const size_t carried = carried_count(loop);
  const size_t outputs = loop.body->nodes().back().inputs.size();
  if (declared.size() != inputs.size() || kLoopControls + carried > inputs.size() || outputs < 1 + carried ||
      outputs < 2) {
    fail("got {} inputs, of which {} are carried, and a body of {} inputs and {} outputs", inputs.size(),
         carried, declared.size(), outputs);
  }
  std::vector<Operand> taken = {taken_by(declared[0], {{}, Value(), DType::kInt64}, 0),
                                taken_by(declared[1], {{}, Value(), DType::kBool}, 1)};
  for (size_t i = kLoopControls; i < inputs.size(); ++i) {
    taken.push_back(taken_by(declared[i], inputs[i], i));
    if (i < kLoopControls + carried) taken.back().elements.reset();
  }
  return taken;
}

/// Opens the sizes of a carried value that an iteration changes. Returns whether there are any.
bool open_changed(const TensorType& declared, const Operand& after, size_t index, Operand& carried) {
  if (after.dtype != carried.dtype || after.shape.size() != carried.shape.size() || !after.is_tensor()) {
    fail("input {} is {} {}, and {} {} after an iteration", index, dtype_name(carried.dtype),
         shape_text(carried.shape), dtype_name(after.dtype), shape_text(after.shape));
  }
  bool any = false;
  for (size_t d = 0; d < carried.shape.size(); ++d) {
    int64_t& size = carried.shape[d];
    if (size == kOpenSize || size == after.shape[d]) continue;
    if (!declared.shape[d].is_named()) {
      if (after.shape[d] == kOpenSize) continue;
      fail("input {} has the shape {}, and {} after an iteration", index, shape_text(carried.shape),
           shape_text(after.shape));
    }
    size = kOpenSize;
    any = true;
  }
  return any;
}

}  // namespace

size_t carried_count(const Node& loop) {
  return static_cast<size_t>(std::max<int64_t>(integer_attribute(loop, "carried"), 0));
}

bool holds_quantizers(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return !node.quantization.empty() || (node.body != nullptr && holds_quantizers(*node.body));
  });
}

/// From the types of the first iteration on: a size that differs after one is open in all, which may change
/// others, until none does.
ValueTypes loop_body_types(const Node& loop, std::span<const Operand> inputs) {
  constexpr int kMostRounds = 4;
  std::vector<Operand> given = first_inputs(loop, inputs);
  const std::vector<TensorType> declared = declared_inputs(*loop.body);
  const std::vector<NodeInput>& outputs = loop.body->nodes().back().inputs;
  const size_t carried = carried_count(loop);
  for (int round = 0;; ++round) {
    const ValueTypes types = infer_shapes_of(*loop.body, given);
    bool any = false;
    for (size_t k = 0; k < carried; ++k) {
      const size_t index = kLoopControls + k;
      const bool changes =
          open_changed(declared[index], types.at(value_name(outputs[1 + k])), index, given[index]);
      any = any || changes;
    }
    if (!any) return types;
    if (round < kMostRounds) continue;
    for (size_t i = kLoopControls; i < kLoopControls + carried; ++i) {
      for (size_t d = 0; d < given[i].shape.size(); ++d)
        if (declared[i].shape[d].is_named()) given[i].shape[d] = kOpenSize;
    }
  }
}

}  // namespace detent
