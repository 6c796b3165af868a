#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/graph/loop.h"
#include "detent/inference/flow.h"
#include "detent/inference/reference_step.h"

namespace detent {
namespace {

/// A result that grows by a row each iteration.
class CollectedRows {
 public:
  void add(const Tensor& row) {
    if (count_++ == 0) {
      row_ = row.shape();
      dtype_ = row.dtype();
    }
    if (row.shape() != row_)
      fail("gives a row of shape {} after others of shape {}", shape_text(row.shape()), shape_text(row_));
    bytes_->insert(bytes_->end(), row.bytes().begin(), row.bytes().end());
  }

  Tensor joined() const {
    Shape shape = row_;
    shape.insert(shape.begin(), count_);
    return Tensor::borrow(dtype_, std::move(shape), bytes_->data(), bytes_);
  }

 private:
  DType dtype_ = DType::kFloat32;
  Shape row_;
  int64_t count_ = 0;
  std::shared_ptr<std::vector<std::byte>> bytes_ = std::make_shared<std::vector<std::byte>>();
};

int64_t most_iterations(const Flow& flow) {
  if (flow.is_absent) return std::numeric_limits<int64_t>::max();
  if (const auto* number = flow.number.get_if<int64_t>()) return *number;
  if (flow.tensor.numel() != 1)
    fail("input 0 has shape {}, expected one number", shape_text(flow.tensor.shape()));
  return flow.tensor.values<int64_t>()[0];
}

bool holds(const Tensor& condition) {
  if (condition.numel() != 1)
    fail("its condition has shape {}, expected one bool", shape_text(condition.shape()));
  return condition.values<bool>()[0];
}

template <class T>
Tensor scalar(T value) {
  Tensor tensor(DTypeOf<T>::value, {});
  tensor.template values<T>()[0] = value;
  return tensor;
}

/// A collected result of no iterations.
Tensor no_rows(const Node& loop, std::span<const Flow> inputs, size_t result) {
  std::vector<Operand> operands;
  for (const Flow& input : inputs) operands.push_back(operand_of(input));
  Operand type = infer_types(loop, operands)[result];
  std::ranges::replace(type.shape, kOpenSize, 0);
  return Tensor(type.dtype, std::move(type.shape));
}

}  // namespace

std::vector<Tensor> run_loop(const Node& loop, const Program& body, std::span<const Flow> inputs,
                             const Observation& observation) {
  const size_t carried = carried_count(loop);
  std::vector<CollectedRows> collected(result_count(loop) - carried);
  const int64_t most = most_iterations(inputs[0]);
  bool has_run = false;
  bool runs = inputs[1].is_absent || holds(inputs[1].tensor);
  std::vector<Tensor> values = {scalar(int64_t{0}), scalar(true)};
  for (size_t i = kLoopControls; i < inputs.size(); ++i) values.push_back(as_values(inputs[i]));
  for (int64_t i = 0; runs && i < most; ++i) {
    has_run = true;
    values[0] = scalar(i);
    try {
      std::vector<Tensor> results = body.run(values, observation);
      runs = holds(results[0]);
      for (size_t k = 0; k < collected.size(); ++k) collected[k].add(results[1 + carried + k]);
      std::move(results.begin() + 1, results.begin() + 1 + static_cast<int64_t>(carried),
                values.begin() + kLoopControls);
    } catch (const Error& error) {
      throw with_fields(error, fmt::format("iteration {}: {}", i, error.what()), {.node = loop.name});
    } catch (const std::bad_alloc&) {
      fail("iteration {}: out of memory", i);
    }
  }
  std::vector<Tensor> results(values.begin() + kLoopControls,
                              values.begin() + kLoopControls + static_cast<int64_t>(carried));
  for (const CollectedRows& rows : collected)
    results.push_back(has_run ? rows.joined() : no_rows(loop, inputs, results.size()));
  return results;
}

}  // namespace detent
