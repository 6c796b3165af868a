#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "detent/core/tensor.h"
#include "detent/engine/steps/place_rows.h"
#include "detent/graph/accumulator.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

class TableStep final : public EngineStep {
 public:
  TableStep(const KernelSet& kernels, std::vector<uint8_t> table, size_t from, size_t to)
      : kernels_(kernels), table_(std::move(table)), from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    fill_halo(out, state.bytes(to_));
    for_each_row(out, state, [&](int64_t n, int64_t y) {
      for_each_run(in, out, n, y, [&](int64_t first, int64_t result, int64_t count) {
        kernels_.look_up(table_.data(), state.bytes(from_) + first, state.bytes(to_) + result, count);
      });
    });
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }
  bool takes_table(size_t index) const override { return index == to_; }
  void add_table(std::span<const uint8_t> table) override {
    for (uint8_t& byte : table_) byte = table[byte];
  }

  std::optional<size_t> row_results() const override { return to_; }
  bool maps_rows_of(size_t place, std::span<const Place> /*places*/) const override { return place == from_; }
  bool compute_rows(RunState& state, const MatrixRows& rows) const override {
    kernels_.look_up(table_.data(), reinterpret_cast<const uint8_t*>(rows.from),
                     reinterpret_cast<uint8_t*>(rows.to), rows.count * state.places[to_].shape.back());
    return false;
  }

 private:
  const KernelSet& kernels_;
  std::vector<uint8_t> table_;
  size_t from_;
  size_t to_;
};

/// Calls `visit(element, place element)` for each element of the value in row-major order of its shape.
template <class Visit>
void for_each_element(const Place& place, int64_t n, const Visit& visit) {
  const int64_t step = place.channel_step();
  for (int64_t y = 0; y < place.height(); ++y) {
    for (int64_t x = 0; x < place.width(); ++x) {
      const int64_t at = place.at(n, y, x);
      const int64_t first = place.element(n, y, x);
      for (int64_t c = 0; c < place.channels(); ++c) visit(first + c * step, at + c);
    }
  }
}

class CopyStep final : public EngineStep {
 public:
  CopyStep(size_t from, size_t to) : from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    if (!in.has_positions() && !out.has_positions()) {
      std::memcpy(state.bytes(to_), state.bytes(from_),
                  static_cast<size_t>(element_count(in.shape) * in.element_bytes()));
      return;
    }
    fill_halo(out, state.bytes(to_));
    in.is_values ? copy(state, in, state.values(from_), out, state.values(to_))
                 : copy(state, in, state.bytes(from_), out, state.bytes(to_));
  }

 private:
  template <class T>
  static void copy(RunState& state, const Place& in, const T* from, const Place& out, T* to) {
    if (!in.has_positions()) {
      for_each_line(out, state, [&](int64_t at, int64_t element, int64_t count) {
        copy_line<true>(out, count, from + element, to + at);
      });
      return;
    }
    if (!out.has_positions()) {
      for_each_line(in, state, [&](int64_t at, int64_t element, int64_t count) {
        copy_line<false>(in, count, from + at, to + element);
      });
      return;
    }
    if (in.shape == out.shape) {
      for_each_row(out, state, [&](int64_t n, int64_t y) {
        std::copy_n(from + in.at(n, y, 0), out.width() * out.channels(), to + out.at(n, y, 0));
      });
      return;
    }
    std::vector<T> elements(static_cast<size_t>(element_count(in.shape)));
    for (int64_t n = 0; n < in.images(); ++n)
      for_each_element(in, n, [&](int64_t i, int64_t at) { elements[static_cast<size_t>(i)] = from[at]; });
    for (int64_t n = 0; n < out.images(); ++n)
      for_each_element(out, n, [&](int64_t i, int64_t at) { to[at] = elements[static_cast<size_t>(i)]; });
  }

  /// Elements in row-major order to adjacent positions of a place, or back from there.
  template <bool kToPlace, class T>
  static void copy_line(const Place& place, int64_t count, const T* from, T* to) {
    const int64_t channels = place.channels();
    const int64_t step = place.channel_step();
    if constexpr (std::is_same_v<T, float>) {
      kToPlace ? channels_to_last(from, step, channels, count, to)
               : channels_to_front(from, channels, count, to, step);
    } else {
      kToPlace ? transpose_bytes(from, step, count, channels, to, channels)
               : transpose_bytes(from, channels, channels, count, to, step);
    }
  }

  size_t from_;
  size_t to_;
};

class BytesOfFlow final : public EngineStep {
 public:
  BytesOfFlow(const KernelSet& kernels, const Node& node, size_t flow, size_t place)
      : kernels_(kernels), node_(node), flow_(flow), place_(place) {}

  void run(RunState& state) const override {
    const Place& place = state.places[place_];
    fill_halo(place, state.bytes(place_));
    const Flow& flow = state.flows[flow_];
    flow.type || place.type.is_sign ? copy_codes(converted(node_, flow, place.type), state)
                                    : quantize(flow.tensor, state);
  }

 private:
  void copy_codes(const Flow& flow, RunState& state) const {
    const Place& place = state.places[place_];
    const auto codes = flow.tensor.values<int32_t>();
    uint8_t* to = state.bytes(place_);
    for (int64_t n = 0; n < place.images(); ++n) {
      for_each_element(place, n, [&](int64_t i, int64_t at) {
        to[at] = static_cast<uint8_t>(codes[static_cast<size_t>(i)] - place.type.low);
      });
    }
  }

  /// Adjacent positions, whose channels `from` has in planes.
  template <class QuantizeRun>
  void quantize_positions(const Place& place, const QuantizeRun& quantize_run, const float* from,
                          int64_t positions, uint8_t* to) const {
    constexpr int64_t kChunk = 256;
    constexpr int64_t kPlanes = 64;
    uint8_t codes[kPlanes * kChunk];
    const int64_t plane = place.channel_step();
    const int64_t channels = place.channels();
    for (int64_t x = 0; x < positions; x += kChunk) {
      const int64_t count = std::min(kChunk, positions - x);
      for (int64_t c = 0; c < channels; c += kPlanes) {
        const int64_t some = std::min(kPlanes, channels - c);
        for (int64_t i = 0; i < some; ++i)
          quantize_run(from + (c + i) * plane + x, codes + i * kChunk, count);
        uint8_t* const first = to + x * channels + c;
        if (channels == 3) {
          const uint8_t* planes[] = {codes, codes + kChunk, codes + 2 * kChunk};
          kernels_.interleave_three(planes, first, count);
        } else {
          transpose_bytes(codes, kChunk, count, some, first, channels);
        }
      }
    }
  }

  void quantize(const Tensor& values, RunState& state) const {
    const Place& place = state.places[place_];
    const SumFinish finish = finish_for(place.type);
    const ByteQuantization way{place.type.scale, finish.least, finish.most, finish.zero};
    const float* from = values.values<float>().data();
    uint8_t* to = state.bytes(place_);
    std::atomic<bool> found_nan = false;
    const auto quantize_run = [&](const float* run, uint8_t* codes, int64_t count) {
      if (kernels_.quantize(way, run, codes, count)) found_nan = true;
    };
    if (!place.has_positions() || place.channels() == 1) {
      for_each_row(place, state, [&](int64_t n, int64_t y) {
        const int64_t at = place.at(n, y, 0);
        const int64_t first = place.has_positions() ? place.element(n, y, 0) : at;
        quantize_run(from + first, to + at, place.width() * place.channels());
      });
    } else {
      for_each_line(place, state, [&](int64_t at, int64_t element, int64_t count) {
        quantize_positions(place, quantize_run, from + element, count, to + at);
      });
    }
    if (found_nan) static_cast<void>(converted(node_, {values}, place.type));  // says where
  }

  const KernelSet& kernels_;
  const Node& node_;
  size_t flow_;
  size_t place_;
};

class ValuesOfFlow final : public EngineStep {
 public:
  ValuesOfFlow(const KernelSet& kernels, const Node& node, std::optional<CodeType> type, size_t flow,
               size_t place)
      : kernels_(kernels), node_(node), type_(type), flow_(flow), place_(place) {}

  void run(RunState& state) const override {
    const Place& place = state.places[place_];
    const Flow& flow = state.flows[flow_];
    fill_halo(place, state.bytes(place_));
    const bool rounds = type_ && !flow.type && !type_->is_sign;
    copy(as_values(rounds ? flow : converted(node_, flow, type_)), state);
    if (rounds && round(state)) static_cast<void>(converted(node_, flow, type_));  // says where
  }

 private:
  void copy(const Tensor& values, RunState& state) const {
    const Place& place = state.places[place_];
    const float* const from = values.values<float>().data();
    float* const to = state.values(place_);
    for_each_row(place, state, [&](int64_t n, int64_t y) {
      const int64_t step = place.channel_step();
      const int64_t channels = place.channels();
      const float* const first = from + place.element(n, y, 0);
      float* const row = to + place.at(n, y, 0);
      if (!place.has_positions()) {
        std::copy_n(first, place.width() * channels, row);
        return;
      }
      channels_to_last(first, step, channels, place.width(), row);
    });
  }

  /// Whether a value is NaN.
  bool round(RunState& state) const {
    const Place& place = state.places[place_];
    const SumFinish finish = finish_for(*type_);
    const ValueRounding rounding{type_->scale, finish.least, finish.most, type_->scale};
    std::atomic<bool> found_nan = false;
    for_each_chunk(place, place, state, 1, [&](int64_t first, int64_t /*result*/, int64_t count) {
      float* const values = state.values(place_) + first;
      if (kernels_.round(rounding, values, values, count)) found_nan = true;
    });
    return found_nan;
  }

  const KernelSet& kernels_;
  const Node& node_;
  std::optional<CodeType> type_;
  size_t flow_;
  size_t place_;
};

class ConvertFlow final : public EngineStep {
 public:
  ConvertFlow(const Node& node, const CodeType& type, size_t from, size_t to)
      : node_(node), type_(type), from_(from), to_(to) {}

  void run(RunState& state) const override { state.flows[to_] = converted(node_, state.flows[from_], type_); }

 private:
  const Node& node_;
  CodeType type_;
  size_t from_;
  size_t to_;
};

void widen(const uint8_t* bytes, int64_t count, int32_t low, int32_t* codes) {
  for (int64_t i = 0; i < count; ++i) codes[i] = int32_t{bytes[i]} + low;
}

class FlowOfPlace final : public EngineStep {
 public:
  FlowOfPlace(size_t place, size_t flow) : place_(place), flow_(flow) {}

  void run(RunState& state) const override {
    const Place& place = state.places[place_];
    Flow& flow = state.flows[flow_];
    if (place.is_values) {
      flow = {unfilled_tensor(DType::kFloat32, place.shape)};
      float* const to = flow.tensor.values<float>().data();
      const float* const from = state.values(place_);
      if (!place.has_positions()) {
        std::copy_n(from, place.width() * place.channels(), to);
        return;
      }
      for_each_line(place, state, [&](int64_t at, int64_t element, int64_t count) {
        channels_to_front(from + at, place.pitch(), place.channels(), count, to + element,
                          place.channel_step());
      });
      return;
    }
    flow = {unfilled_tensor(DType::kInt32, place.shape), place.type};
    int32_t* const to = flow.tensor.values<int32_t>().data();
    const uint8_t* const from = state.bytes(place_);
    const int32_t low = place.type.low;
    if (!place.has_positions())
      return widen(from + place.at(0, 0, 0), place.width() * place.channels(), low, to);
    for_each_line(place, state, [&](int64_t at, int64_t element, int64_t count) {
      std::vector<uint8_t> planes(static_cast<size_t>(place.channels() * count));
      transpose_bytes(from + at, place.pitch(), place.channels(), count, planes.data(), count);
      for (int64_t c = 0; c < place.channels(); ++c)
        widen(planes.data() + c * count, count, low, to + element + c * place.channel_step());
    });
  }
  bool takes_slice(size_t /*index*/, const Place& /*place*/) const override { return true; }

 private:
  size_t place_;
  size_t flow_;
};

class KnownFlow final : public EngineStep {
 public:
  KnownFlow(Flow known, size_t flow) : known_(std::move(known)), flow_(flow) { is_known = true; }

  void run(RunState& state) const override { state.flows[flow_] = known_; }

 private:
  Flow known_;
  size_t flow_;
};

/// Inputs of the node among `flows`.
std::vector<Flow> inputs_of(const ReferenceStep& step, std::span<const size_t> flows, const RunState& state) {
  const Node& node = *step.node;
  std::vector<Flow> inputs;
  for (size_t i = 0; i < flows.size(); ++i) {
    inputs.push_back(flows[i] == kNoFlow ? constant_flow(node.inputs[i])
                                         : converted(node, state.flows[flows[i]], step.inputs[i]));
  }
  return inputs;
}

class ReferenceNode final : public EngineStep {
 public:
  ReferenceNode(std::shared_ptr<const ReferenceStep> step, const FloatNodes* in_float,
                std::vector<size_t> inputs, std::vector<size_t> results,
                std::optional<KnownMovement> movement)
      : step_(std::move(step)),
        in_float_(in_float),
        inputs_(std::move(inputs)),
        results_(std::move(results)),
        movement_(std::move(movement)),
        in_float_operator_(takes_values(*step_) ? find_float_operator(step_->node->op) : nullptr) {}

  void run(RunState& state) const override {
    if (in_float_operator_ != nullptr && movement_ && is_as_known(state)) return run_movement(state);
    if (in_float_operator_ != nullptr) return run_on_values(state);
    const std::vector<Flow> inputs = inputs_of(*step_, inputs_, state);
    std::vector<Flow> results = step_->body == nullptr || state.observation == nullptr
                                    ? reference_results(*step_, inputs, in_float_)
                                    : reference_results(*step_, inputs, in_float_, *state.observation);
    for (size_t i = 0; i < results.size(); ++i) state.flows[results_[i]] = std::move(results[i]);
  }

 private:
  /// Whether all that is computed is the node, in float.
  static bool takes_values(const ReferenceStep& step) {
    const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
    return step.role == OperatorRole::kComputes && step.engine == NodeEngine::kFloat && !step.form &&
           step.rounds == nullptr && !accumulator_of(*step.node) &&
           std::ranges::none_of(step.inputs, is_set) && std::ranges::none_of(step.outputs, is_set);
  }

  bool is_as_known(const RunState& state) const {
    for (size_t i = 0; i < movement_->inputs.size(); ++i) {
      const Flow& flow = state.flows[inputs_[movement_->inputs[i]]];
      if (!flow.is_tensor() || flow.type || flow.tensor.shape() != movement_->shapes[i]) return false;
    }
    return true;
  }

  void run_movement(RunState& state) const {
    const auto moved = [&](size_t i) -> const Tensor& {
      return state.flows[inputs_[movement_->inputs[i]]].tensor;
    };
    Flow& result = state.flows[results_[0]];
    if (movement_->is_view) {
      result = {moved(0).reshaped(movement_->result)};
      return;
    }
    std::vector<Tensor> tensors;
    tensors.reserve(movement_->inputs.size());
    for (size_t i = 0; i < movement_->inputs.size(); ++i) tensors.push_back(moved(i));
    result = {copied_elements(tensors, movement_->copies, movement_->result)};
  }

  /// The same without a copy of what the node has itself.
  void run_on_values(RunState& state) const {
    std::vector<FloatFlow> inputs;
    inputs.reserve(inputs_.size());
    for (const size_t flow : inputs_)
      inputs.push_back(flow == kNoFlow ? FloatFlow() : float_flow(state.flows[flow]));
    std::vector<FloatFlow> results =
        FloatNodes::results(*in_float_operator_, *step_->node, constants(), inputs);
    for (size_t i = 0; i < results.size(); ++i) state.flows[results_[i]] = flow_of(std::move(results[i]));
  }

  const FloatNodes::Constants& constants() const {
    const FloatNodes::Constants* known = constants_.load(std::memory_order_acquire);
    if (known == nullptr) {
      known = &in_float_->constants_of(*step_->node);
      constants_.store(known, std::memory_order_release);
    }
    return *known;
  }

  std::shared_ptr<const ReferenceStep> step_;
  const FloatNodes* in_float_;
  mutable std::atomic<const FloatNodes::Constants*> constants_ = nullptr;  // of the node, once asked for
  std::vector<size_t> inputs_;
  std::vector<size_t> results_;
  std::optional<KnownMovement> movement_;
  const FloatOperator* in_float_operator_;  // where nothing else is computed
};

class RoundValues final : public EngineStep {
 public:
  RoundValues(FormatRounding rounding, size_t from, size_t to)
      : rounding_(std::move(rounding)), from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Shape& shape = state.places[from_].shape;
    auto* const first = reinterpret_cast<std::byte*>(state.values(from_));
    const Tensor values = Tensor::borrow(DType::kFloat32, shape, first, nullptr);
    if (!rounding_.spec) {
      std::ranges::copy(rounding_.rounded(values).values<float>(), state.values(to_));
      return;
    }
    auto* const first_result = reinterpret_cast<std::byte*>(state.values(to_));
    Tensor rounded = Tensor::borrow(DType::kFloat32, shape, first_result, nullptr);
    fake_quantize(*rounding_.spec, values, rounded, rounding_.seed);
  }

 private:
  FormatRounding rounding_;
  size_t from_;
  size_t to_;
};

class ShowFlow final : public EngineStep {
 public:
  ShowFlow(const Node& node, std::string operand, std::optional<CodeType> type, size_t flow)
      : node_(node), operand_(std::move(operand)), type_(type), flow_(flow) {}

  void run(RunState& state) const override {
    state.observation->see(node_, operand_, as_values(converted(node_, state.flows[flow_], type_)));
  }

 private:
  const Node& node_;
  std::string operand_;
  std::optional<CodeType> type_;
  size_t flow_;
};

/// In the order of the place.
class ShowPlace final : public EngineStep {
 public:
  ShowPlace(const Node& node, std::string operand, size_t place)
      : node_(node), operand_(std::move(operand)), place_(place) {}

  void run(RunState& state) const override {
    const Place& place = state.places[place_];
    const float* const from = state.values(place_);
    if (place.halo.empty() && !place.is_slice()) {
      auto* const first = reinterpret_cast<std::byte*>(state.values(place_));
      state.observation->see(node_, operand_, Tensor::borrow(DType::kFloat32, place.shape, first, nullptr));
      return;
    }
    Tensor adjacent = unfilled_tensor(DType::kFloat32, place.shape);
    float* const to = adjacent.values<float>().data();
    for_each_row(place, state, [&](int64_t n, int64_t y) {
      const float* const row = from + place.at(n, y, 0);
      float* const first = to + (n * place.height() + y) * place.width() * place.channels();
      if (!place.is_slice()) {
        std::copy_n(row, place.width() * place.channels(), first);
        return;
      }
      for (int64_t x = 0; x < place.width(); ++x)
        std::copy_n(row + x * place.pitch(), place.channels(), first + x * place.channels());
    });
    state.observation->see(node_, operand_, adjacent);
  }
  bool takes_slice(size_t /*index*/, const Place& /*place*/) const override { return true; }

 private:
  const Node& node_;
  std::string operand_;
  size_t place_;
};

class ShowUnrounded final : public EngineStep {
 public:
  ShowUnrounded(std::shared_ptr<const ReferenceStep> step, const FloatNodes* in_float,
                std::vector<size_t> inputs, size_t result)
      : step_(std::move(step)), in_float_(in_float), inputs_(std::move(inputs)), result_(result) {}

  void run(RunState& state) const override {
    const std::vector<Flow> inputs = inputs_of(*step_, inputs_, state);
    state.observation->see(*step_->node, fmt::format("data_out_{}", result_),
                           unrounded_result(*step_, result_, inputs, in_float_));
  }

 private:
  std::shared_ptr<const ReferenceStep> step_;
  const FloatNodes* in_float_;
  std::vector<size_t> inputs_;
  size_t result_;
};

}  // namespace

std::unique_ptr<EngineStep> rounding_step(FormatRounding rounding, size_t from, size_t to) {
  return std::make_unique<RoundValues>(std::move(rounding), from, to);
}

std::unique_ptr<EngineStep> show_step(const Node& node, std::string operand, std::optional<CodeType> type,
                                      size_t flow) {
  return std::make_unique<ShowFlow>(node, std::move(operand), type, flow);
}

std::unique_ptr<EngineStep> show_place_step(const Node& node, std::string operand, size_t place) {
  return std::make_unique<ShowPlace>(node, std::move(operand), place);
}

std::unique_ptr<EngineStep> show_unrounded_step(std::shared_ptr<const ReferenceStep> step,
                                                const FloatNodes* in_float, std::vector<size_t> inputs,
                                                size_t result) {
  return std::make_unique<ShowUnrounded>(std::move(step), in_float, std::move(inputs), result);
}

std::unique_ptr<EngineStep> bytes_of_flow(const KernelSet& kernels, const Node& node, size_t flow,
                                          size_t place) {
  return std::make_unique<BytesOfFlow>(kernels, node, flow, place);
}

std::unique_ptr<EngineStep> values_of_flow(const KernelSet& kernels, const Node& node,
                                           std::optional<CodeType> type, size_t flow, size_t place) {
  return std::make_unique<ValuesOfFlow>(kernels, node, type, flow, place);
}

std::unique_ptr<EngineStep> convert_flow(const Node& node, const CodeType& type, size_t from, size_t to) {
  return std::make_unique<ConvertFlow>(node, type, from, to);
}

std::unique_ptr<EngineStep> flow_of_place(size_t place, size_t flow) {
  return std::make_unique<FlowOfPlace>(place, flow);
}

std::unique_ptr<EngineStep> known_flow(Flow known, size_t flow) {
  return std::make_unique<KnownFlow>(std::move(known), flow);
}

std::unique_ptr<EngineStep> copy_step(size_t from, size_t to) { return std::make_unique<CopyStep>(from, to); }

std::unique_ptr<EngineStep> table_step(const KernelSet& kernels, std::vector<uint8_t> table, size_t from,
                                       size_t to) {
  return std::make_unique<TableStep>(kernels, std::move(table), from, to);
}

std::unique_ptr<EngineStep> reference_step(std::shared_ptr<const ReferenceStep> step,
                                           const FloatNodes* in_float, std::vector<size_t> inputs,
                                           std::vector<size_t> results,
                                           std::optional<KnownMovement> movement) {
  return std::make_unique<ReferenceNode>(std::move(step), in_float, std::move(inputs), std::move(results),
                                         std::move(movement));
}

}  // namespace detent
