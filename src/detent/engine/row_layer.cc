#include "detent/engine/row_layer.h"

#include <span>
#include <utility>
#include <vector>

#include "detent/engine/packed_blocks.h"
#include "detent/engine/packed_float_sums.h"
#include "detent/engine/packed_sums.h"
#include "detent/engine/program_plan.h"
#include "detent/engine/single_step.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

class SumRows final : public RowLayer {
 public:
  SumRows(const SumForm& form, std::shared_ptr<const PackedSums> packed)
      : RowLayer(packed->outputs), input_(form.input), output_(form.output), packed_(std::move(packed)) {}

  Flow results(const Tensor& codes) const override {
    return last_.run(std::span(&codes, 1), [&] {
      return std::make_unique<SingleStep>(
          std::vector<SingleStep::Value>{{codes.shape(), input_}},
          SingleStep::Value{{codes.dim(0), outputs()}, output_},
          sums_step(
              {.packed = packed_, .finish = packed_->finish, .input = 0, .output = 1, .follow_ups = {}}));
    });
  }
  int64_t weight_bytes() const override { return packed_->weight_bytes(); }

 private:
  CodeType input_;
  std::optional<CodeType> output_;
  std::shared_ptr<const PackedSums> packed_;
  mutable LastStep last_;
};

class BlockRows final : public RowLayer {
 public:
  BlockRows(const BlockSumForm& form, std::shared_ptr<const PackedBlocks> packed)
      : RowLayer(packed->outputs), input_(form.input), output_(form.output), packed_(std::move(packed)) {}

  Flow results(const Tensor& codes) const override {
    return last_.run(std::span(&codes, 1), [&] {
      return std::make_unique<SingleStep>(
          std::vector<SingleStep::Value>{{codes.shape(), input_}},
          SingleStep::Value{{codes.dim(0), outputs()}, output_, packed_->unit == 0 ? 1 : packed_->unit},
          block_sums_step(packed_, packed_->finish, 0, 1));
    });
  }
  int64_t weight_bytes() const override { return packed_->byte_size(); }

 private:
  CodeType input_;
  std::optional<CodeType> output_;
  std::shared_ptr<const PackedBlocks> packed_;
  mutable LastStep last_;
};

class ValueRows final : public RowLayer {
 public:
  explicit ValueRows(std::shared_ptr<const PackedFloatSums> packed)
      : RowLayer(packed->outputs), packed_(std::move(packed)) {}

  Flow results(const Tensor& values) const override {
    return last_.run(std::span(&values, 1), [&] {
      return std::make_unique<SingleStep>(
          std::vector<SingleStep::Value>{{values.shape(), std::nullopt}},
          SingleStep::Value{{values.dim(0), outputs()}, std::nullopt},
          float_sums_step(
              {.packed = packed_, .window = packed_->window, .follow_ups = {}, .input = 0, .output = 1}));
    });
  }
  int64_t weight_bytes() const override { return static_cast<int64_t>(packed_->weights.byte_size()); }

 private:
  std::shared_ptr<const PackedFloatSums> packed_;
  mutable LastStep last_;
};

Tensor without_codes(const Tensor& weight) {
  return Tensor::borrow(weight.dtype(), weight.shape(), nullptr, nullptr);
}

}  // namespace

std::unique_ptr<const RowLayer> take_row_layer(ReferenceStep& step) {
  const auto* sum = trait<WeightedSum>(*step.node);
  if (sum == nullptr || sum->spatial_dims != 0 || sum->transposed || !step.form) return nullptr;
  if (auto* form = std::get_if<SumForm>(&*step.form);
      form != nullptr && why_not_packed(*form, *step.node).empty()) {
    PackedSums packed = packed_sums(*form, *step.node, kernel_set());
    form->weight = without_codes(form->weight);
    return std::make_unique<const SumRows>(*form, std::make_shared<const PackedSums>(std::move(packed)));
  }
  if (auto* form = std::get_if<BlockSumForm>(&*step.form);
      form != nullptr && why_not_packed(*form, *step.node).empty()) {
    PackedBlocks packed = packed_blocks(*form, *step.node, kernel_set());
    form->weight = without_codes(form->weight);
    return std::make_unique<const BlockRows>(*form, std::make_shared<const PackedBlocks>(std::move(packed)));
  }
  return nullptr;
}

std::shared_ptr<const RowLayer> packed_row_layer(const ReferenceStep& step, const ProgramWeights& weights) {
  const std::string& name = step.node->name;
  const auto* sum = trait<WeightedSum>(*step.node);
  if (sum == nullptr || sum->spatial_dims != 0 || sum->transposed) return nullptr;
  if (const auto found = weights.float_layers.find(name); found != weights.float_layers.end()) {
    if (!found->second->is_linear || step.inputs[0] || step.outputs[0]) return nullptr;
    return std::make_shared<const ValueRows>(found->second);
  }
  if (const auto found = weights.layers.find(name); found != weights.layers.end())
    return std::make_shared<const SumRows>(std::get<SumForm>(*step.form), found->second);
  if (const auto found = weights.block_layers.find(name); found != weights.block_layers.end())
    return std::make_shared<const BlockRows>(std::get<BlockSumForm>(*step.form), found->second);
  return nullptr;
}

}  // namespace detent
