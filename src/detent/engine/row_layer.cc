#include "detent/engine/row_layer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "detent/core/parallel.h"
#include "detent/engine/packed_blocks.h"
#include "detent/engine/packed_sums.h"
#include "detent/engine/step.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Codes as places have them: bytes, or the values of codes of more than 8 bits.
void put_codes(const Tensor& codes, const CodeType& type, std::byte* to) {
  const auto from = codes.values<int32_t>();
  if (fits_bytes(type)) {
    std::ranges::transform(from, reinterpret_cast<uint8_t*>(to),
                           [&](int32_t code) { return static_cast<uint8_t>(code - type.low); });
  } else {
    std::ranges::transform(from, reinterpret_cast<float*>(to),
                           [&](int32_t code) { return type.value(code); });
  }
}

/// What a place has: bytes, or values in units of `unit`, which the codes of more than 8 bits are rounded
/// from.
Flow taken_flow(const std::byte* from, Shape shape, const std::optional<CodeType>& type, float unit) {
  const auto* const values = reinterpret_cast<const float*>(from);
  if (!type) {
    Tensor result(DType::kFloat32, std::move(shape));
    std::ranges::copy(std::span(values, result.values<float>().size()), result.values<float>().begin());
    return {std::move(result)};
  }
  Tensor result(DType::kInt32, std::move(shape));
  const auto codes = result.values<int32_t>();
  if (fits_bytes(*type)) {
    std::ranges::transform(std::span(reinterpret_cast<const uint8_t*>(from), codes.size()), codes.begin(),
                           [&](uint8_t byte) { return int32_t{byte} + type->low; });
  } else {
    std::ranges::transform(std::span(values, codes.size()), codes.begin(),
                           [&](float x) { return type->at(x / unit); });
  }
  return {std::move(result), type};
}

/// Runs one step of a program between two places.
template <class MakeStep>
Flow step_results(const Tensor& codes, const CodeType& input, int64_t outputs,
                  const std::optional<CodeType>& output, float unit, const MakeStep& make_step) {
  const int64_t rows = codes.dim(0);
  std::array<Place, 2> places;
  places[0] = {.shape = codes.shape(), .type = input, .is_values = is_wide(input)};
  places[1] = {.shape = {rows, outputs},
               .type = output.value_or(CodeType()),
               .is_values = !output || is_wide(*output)};
  for (Place& place : places) place.measure();
  constexpr int64_t kLine = 64;
  places[1].offset = (places[0].bytes() + kLine - 1) / kLine * kLine;
  Tensor arena(DType::kUInt8, {places[1].offset + places[1].bytes()});
  RunState state{
      .places = places, .arena = arena.bytes().data(), .threads = in_parallel_for() ? 1 : thread_count()};
  put_codes(codes, input, state.arena);
  const std::unique_ptr<EngineStep> step = make_step();
  step->prepare(places);
  step->run(state);
  return taken_flow(state.arena + places[1].offset, places[1].shape, output, unit);
}

class SumRows final : public RowLayer {
 public:
  SumRows(SumForm form, PackedSums packed)
      : RowLayer(packed.outputs),
        input_(form.input),
        output_(std::move(form.output)),
        packed_(std::make_shared<const PackedSums>(std::move(packed))) {}

  Flow results(const Tensor& codes) const override {
    return step_results(codes, input_, outputs(), output_, 1, [&] {
      return sums_step(
          {.packed = packed_, .finish = packed_->finish, .input = 0, .output = 1, .follow_ups = {}});
    });
  }
  int64_t weight_bytes() const override { return static_cast<int64_t>(packed_->weights.byte_size()); }

 private:
  CodeType input_;
  std::optional<CodeType> output_;
  std::shared_ptr<const PackedSums> packed_;
};

class BlockRows final : public RowLayer {
 public:
  BlockRows(const BlockSumForm& form, PackedBlocks packed)
      : RowLayer(packed.outputs),
        input_(form.input),
        output_(form.output),
        packed_(std::make_shared<const PackedBlocks>(std::move(packed))) {}

  Flow results(const Tensor& codes) const override {
    const float unit = packed_->unit == 0 ? 1 : packed_->unit;
    return step_results(codes, input_, outputs(), output_, unit,
                        [&] { return block_sums_step(packed_, packed_->finish, 0, 1); });
  }
  int64_t weight_bytes() const override { return packed_->byte_size(); }

 private:
  CodeType input_;
  std::optional<CodeType> output_;
  std::shared_ptr<const PackedBlocks> packed_;
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
    return std::make_unique<const SumRows>(*form, std::move(packed));
  }
  if (auto* form = std::get_if<BlockSumForm>(&*step.form);
      form != nullptr && why_not_packed(*form, *step.node).empty()) {
    PackedBlocks packed = packed_blocks(*form, *step.node, kernel_set());
    form->weight = without_codes(form->weight);
    return std::make_unique<const BlockRows>(*form, std::move(packed));
  }
  return nullptr;
}

}  // namespace detent
