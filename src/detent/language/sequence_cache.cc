#include "detent/language/sequence_cache.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/traits.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

/// Where a copy puts all elements of one input in their order.
bool is_whole(const std::vector<StridedCopy>& copies, const std::vector<Flow>& inputs) {
  if (copies.size() != 1) return false;
  const StridedCopy& copy = copies.front();
  return copy.from.offset == 0 && copy.to.offset == 0 && copy.from.is_contiguous() &&
         copy.to.is_contiguous() && element_count(copy.from.shape) == inputs[copy.input].tensor.numel();
}

std::vector<Tensor> tensors_of(const std::vector<Flow>& inputs) {
  std::vector<Tensor> tensors;
  for (const Flow& input : inputs) {
    if (input.is_tensor()) tensors.push_back(input.tensor);
  }
  return tensors;
}

/// Values or codes of one type, then constants.
bool may_be_noted(const Node& node, const std::vector<Flow>& inputs) {
  const auto end = std::ranges::find_if_not(inputs, &Flow::is_float);
  const auto first_constant = static_cast<size_t>(end - inputs.begin());
  if (first_constant == 0) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < first_constant ? inputs[i].type != inputs.front().type : !node.inputs[i].is_constant())
      return false;
  }
  return true;
}

}  // namespace

bool KnownMove::is_known(const std::vector<Flow>& inputs) const {
  if (inputs_.empty() || inputs.size() < inputs_.size()) return false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs[i].is_tensor() || inputs[i].tensor.shape() != inputs_[i].shape ||
        inputs[i].type != inputs_[i].type)
      return false;
  }
  return true;
}

std::optional<std::vector<Flow>> KnownMove::results(const std::vector<Flow>& inputs) const {
  if (!is_known(inputs)) return std::nullopt;
  std::vector<Flow> results;
  for (const Result& known : results_) {
    const size_t from = known.copies.empty() ? 0 : known.copies.front().input;
    Flow result{.tensor = {}, .type = known.value.type};
    result.tensor = known.copies.empty() || is_whole(known.copies, inputs)
                        ? inputs[from].tensor.reshaped(known.value.shape)
                        : copied_elements(tensors_of(inputs), known.copies, known.value.shape);
    results.push_back(std::move(result));
  }
  return results;
}

void KnownMove::note(const Node& node, const std::vector<Flow>& inputs, const std::vector<Flow>& results) {
  inputs_.clear();
  if (trait<Movement>(node) == nullptr || !may_be_noted(node, inputs)) return;
  std::vector<Shape> shapes;
  for (const Tensor& tensor : tensors_of(inputs)) shapes.push_back(tensor.shape());
  results_.clear();
  std::optional<CodeType> type = inputs.front().type;
  if (type) type = moved_type(node, *type);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].type != type) return;  // rounded afterwards
    const Shape& shape = results[i].tensor.shape();
    Result result{{shape, results[i].type}, movement_copies(node, shapes, shape, i)};
    int64_t copied = 0;
    for (const StridedCopy& copy : result.copies) copied += element_count(copy.to.shape);
    if (!is_view(node) && copied != results[i].tensor.numel()) return;
    results_.push_back(std::move(result));
  }
  for (size_t i = 0; i < shapes.size(); ++i) inputs_.push_back({shapes[i], inputs[i].type});
}

SequenceCache::SequenceCache(std::unique_ptr<Contents> contents) : contents_(std::move(contents)) {}
SequenceCache::~SequenceCache() = default;
SequenceCache::SequenceCache(SequenceCache&&) noexcept = default;
SequenceCache& SequenceCache::operator=(SequenceCache&&) noexcept = default;

int64_t SequenceCache::size() const { return contents_->size; }

int64_t SequenceCache::byte_size() const {
  int64_t bytes = 0;
  for (const CachedTensor& tensor : contents_->tensors) bytes += tensor.byte_size();
  return bytes;
}

void SequenceCache::truncate(int64_t size) {
  DETENT_CHECK(size >= 0 && size <= contents_->size, "{} of {} tokens", size, contents_->size);
  contents_->size = size;
  for (CachedTensor& tensor : contents_->tensors) tensor.truncate(size);
}

}  // namespace detent
