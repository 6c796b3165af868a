#include "detent/engine/single_step.h"

#include <algorithm>
#include <utility>

#include "detent/core/parallel.h"

namespace detent {
namespace {

/// Values, or codes as places have them: bytes, or the values of codes of more than 8 bits.
void put(const Tensor& codes, const CodeType& type, std::byte* to) {
  if (codes.dtype() == DType::kFloat32) {
    std::ranges::copy(codes.values<float>(), reinterpret_cast<float*>(to));
    return;
  }
  const auto from = codes.values<int32_t>();
  if (fits_bytes(type)) {
    std::ranges::transform(from, reinterpret_cast<uint8_t*>(to),
                           [&](int32_t code) { return static_cast<uint8_t>(code - type.low); });
  } else {
    std::ranges::transform(from, reinterpret_cast<float*>(to),
                           [&](int32_t code) { return type.value(code); });
  }
}

/// Contents of a place: bytes, or values in units of `unit`, which the codes of more than 8 bits are rounded
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

}  // namespace

SingleStep::SingleStep(const std::vector<Value>& inputs, Value result, std::unique_ptr<EngineStep> step)
    : result_(std::move(result)), step_(std::move(step)) {
  constexpr int64_t kLine = 64;
  const auto add = [&](const Value& value) {
    const std::optional<CodeType>& type = value.type;
    Place place{
        .shape = value.shape, .type = type.value_or(CodeType()), .is_values = !type || is_wide(*type)};
    place.measure();
    place.offset = bytes_;
    bytes_ += (place.bytes() + kLine - 1) / kLine * kLine;
    places_.push_back(std::move(place));
  };
  for (const Value& input : inputs) add(input);
  add(result_);
  step_->prepare(places_);
}

bool SingleStep::is_for(std::span<const Tensor> inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].shape() != places_[i].shape) return false;
  }
  return true;
}

Flow SingleStep::run(std::span<const Tensor> inputs) const {
  Tensor arena(DType::kUInt8, {bytes_});
  RunState state{
      .places = places_, .arena = arena.bytes().data(), .threads = in_parallel_for() ? 1 : thread_count()};
  for (size_t i = 0; i < inputs.size(); ++i) put(inputs[i], places_[i].type, state.arena + places_[i].offset);
  step_->run(state);
  return taken_flow(state.arena + places_.back().offset, result_.shape, result_.type, result_.unit);
}

Flow LastStep::run(std::span<const Tensor> inputs, const std::function<std::unique_ptr<SingleStep>()>& make) {
  std::shared_ptr<const SingleStep> step;
  {
    const std::lock_guard lock(mutex_);
    if (last_ == nullptr || !last_->is_for(inputs)) last_ = make();
    step = last_;
  }
  return step->run(inputs);
}

}  // namespace detent
