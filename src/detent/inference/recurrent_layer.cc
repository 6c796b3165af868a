#include "detent/inference/recurrent_layer.h"

#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

/// Samples that a thread takes at once, through all steps.
constexpr int64_t kSamples = 8;

int64_t gates_of(RecurrentKind kind) {
  if (kind == RecurrentKind::kRnn) return 1;
  return kind == RecurrentKind::kGru ? 3 : 4;
}

size_t functions_of(RecurrentKind kind) {
  if (kind == RecurrentKind::kRnn) return 1;
  return kind == RecurrentKind::kGru ? 2 : 3;
}

bool is_set(const Node& node, const char* name) {
  return node.attributes.find(name) != nullptr && boolean_attribute(node, name);
}

/// Part `index` of dimension 0, without that.
Tensor part(const Tensor& tensor, int64_t index) {
  return tensor.rows(index, index + 1).reshaped({tensor.shape().begin() + 1, tensor.shape().end()});
}

/// Rows [begin, end) of the biases of a direction.
std::optional<Tensor> biases(const RecurrentWeights& weights, int64_t direction, int64_t begin, int64_t end) {
  if (!weights.biases) return std::nullopt;
  return part(*weights.biases, direction).rows(begin, end);
}

/// The scale of a direction's weights, whose rows have so many.
WeightScales scale_of(const std::vector<float>& scales, int64_t direction, const Tensor& weights) {
  if (scales.empty()) return {};
  return {.scales = {scales[static_cast<size_t>(direction)]}, .group = weights.dim(-1)};
}

RecurrentCell cell_of(RecurrentKind kind, const Node& node, const RecurrentWeights& weights, int64_t index) {
  RecurrentCell cell{.hidden = integer_attribute(node, "hidden_size"), .functions = {}};
  const size_t count = functions_of(kind);
  const auto functions = recurrent_activations(node, count * static_cast<size_t>(recurrent_directions(node)));
  const auto first = functions.begin() + index * static_cast<int64_t>(count);
  cell.functions.assign(first, first + static_cast<int64_t>(count));
  if (!node.attributes.find("clip")->is_na()) cell.clip = number_attribute(node, "clip");
  if (weights.peepholes) {
    const Tensor peepholes = part(*weights.peepholes, index);
    cell.peepholes.assign(peepholes.values<float>().begin(), peepholes.values<float>().end());
  }
  cell.input_forget = is_set(node, "input_forget");
  return cell;
}

}  // namespace

/// State of some samples, and buffers of a step.
struct RecurrentLayer::Block {
  int64_t index;  // of the direction
  int64_t first;
  int64_t samples;
  int64_t inputs_stride;  // between samples
  bool is_zero;           // the state
  std::vector<float> memory;
  float* states[2];  // [samples, hidden] each
  float* reset;
  float* sums;  // of a recurrence, [samples, its stride]
  float* last_sums;

  Block(const Direction& d, int64_t of_direction, int64_t first_sample, int64_t count)
      : index(of_direction), first(first_sample), samples(count) {
    const int64_t hidden = d.cell.hidden;
    const int64_t row = 3 * hidden + d.recurrences.front().stride() + d.recurrences.back().stride();
    memory.resize(static_cast<size_t>(count * row));
    states[0] = memory.data();
    states[1] = states[0] + count * hidden;
    reset = states[1] + count * hidden;
    sums = reset + count * hidden;
    last_sums = sums + count * d.recurrences.front().stride();
  }

  RecurrentSample sample(const Direction& d, const float* inputs, int64_t i) const {
    const int64_t hidden = d.cell.hidden;
    float* const of_sample = sums + i * d.recurrences.front().stride();
    const bool has_two = d.recurrences.size() == 2;
    return {.inputs = inputs + i * inputs_stride,
            .sums = of_sample,
            .candidate = has_two ? last_sums + i * d.recurrences.back().stride() : of_sample + 2 * hidden,
            .state = states[0] + i * hidden,
            .cell = states[1] + i * hidden,
            .reset = reset + i * hidden};
  }
};

RecurrentLayer::RecurrentLayer(RecurrentKind kind, const Node& node, const RecurrentWeights& weights)
    : kind_(kind),
      batch_first_(boolean_attribute(node, "batch_first")),
      hidden_(integer_attribute(node, "hidden_size")) {
  for (int64_t index = 0; index < recurrent_directions(node); ++index) add_direction(node, weights, index);
}

void RecurrentLayer::add_direction(const Node& node, const RecurrentWeights& weights, int64_t index) {
  const int64_t all = gates_of(kind_) * hidden_;
  Direction direction{.is_reverse = index == 1 || choice_attribute(node, "direction") == "reverse",
                      .inputs = PackedLinear(part(weights.inputs, index), biases(weights, index, 0, all),
                                             scale_of(weights.input_scales, index, weights.inputs)),
                      .recurrences = {},
                      .cell = cell_of(kind_, node, weights, index)};
  const bool has_two = kind_ == RecurrentKind::kGru && !is_set(node, "linear_before_reset");
  const Tensor states = part(weights.states, index);
  const int64_t cut = has_two ? 2 * hidden_ : all;
  const WeightScales scale = scale_of(weights.state_scales, index, states);
  direction.recurrences.emplace_back(states.rows(0, cut), biases(weights, index, all, all + cut), scale);
  if (has_two)
    direction.recurrences.emplace_back(states.rows(cut, all), biases(weights, index, all + cut, 2 * all),
                                       scale);
  choose_gates(direction);
  directions_.push_back(std::move(direction));
}

void RecurrentLayer::choose_gates(Direction& direction) const {
  const bool is_plain = direction.cell.is_plain();
  if (kind_ == RecurrentKind::kRnn) {
    direction.last = is_plain ? rnn_gates : any_rnn_gates;
  } else if (kind_ == RecurrentKind::kLstm) {
    direction.last = is_plain ? lstm_gates : any_lstm_gates;
  } else if (direction.recurrences.size() == 1) {
    direction.last = is_plain ? gru_gates : any_gru_gates;
  } else {
    direction.before = is_plain ? gru_reset_gates : any_gru_reset_gates;
    direction.last = is_plain ? gru_last_gate : any_gru_last_gate;
  }
}

int64_t RecurrentLayer::byte_size() const {
  int64_t bytes = 0;
  for (const Direction& direction : directions_) {
    bytes += direction.inputs.byte_size();
    for (const PackedLinear& recurrence : direction.recurrences) bytes += recurrence.byte_size();
  }
  return bytes;
}

int64_t RecurrentLayer::products() const {
  int64_t products = 0;
  for (const Direction& direction : directions_)
    products += gates_of(kind_) * hidden_ * (direction.inputs.depth() + hidden_);
  return products;
}

int64_t RecurrentLayer::of_input(const RecurrentRun& run, int64_t step, int64_t sample) const {
  if (run.one_input) return step;
  return batch_first_ ? sample * run.steps + step : step * run.samples + sample;
}

int64_t RecurrentLayer::of_state(const RecurrentRun& run, int64_t direction, int64_t sample) const {
  const auto directions = std::ssize(directions_);
  return (batch_first_ ? sample * directions + direction : direction * run.samples + sample) * hidden_;
}

int64_t RecurrentLayer::of_result(const RecurrentRun& run, int64_t step, int64_t direction,
                                  int64_t sample) const {
  const auto directions = std::ssize(directions_);
  const int64_t row = batch_first_ ? (sample * run.steps + step) * directions + direction
                                   : (step * directions + direction) * run.samples + sample;
  return row * hidden_;
}

/// Samples that are shorter than others keep their state after their last step, where the result is 0.
void RecurrentLayer::step(const RecurrentRun& run, const Direction& direction, Block& block,
                          const float* inputs, int64_t step) const {
  const auto is_over = [&](int64_t i) {
    return !run.lengths.empty() && run.lengths[static_cast<size_t>(block.first + i)] <= step;
  };
  const bool backwards = step % 2 != 0;
  if (block.is_zero) {
    direction.recurrences[0].sums_of_zeros(block.samples, block.sums);
  } else {
    direction.recurrences[0].sums(block.states[0], block.samples, block.sums, backwards);
  }
  block.is_zero = false;
  if (direction.before != nullptr) {
    for (int64_t i = 0; i < block.samples; ++i) {
      if (!is_over(i)) direction.before(direction.cell, block.sample(direction, inputs, i));
    }
    direction.recurrences[1].sums(block.reset, block.samples, block.last_sums, backwards);
  }
  for (int64_t i = 0; i < block.samples; ++i) {
    float* const to = run.results[0] + of_result(run, step, block.index, block.first + i);
    if (is_over(i)) {
      std::fill_n(to, hidden_, 0.0F);
      continue;
    }
    direction.last(direction.cell, block.sample(direction, inputs, i));
    std::copy_n(block.states[0] + i * hidden_, hidden_, to);
  }
}

/// All steps of samples [first, first + samples) in one direction.
void RecurrentLayer::run_block(const RecurrentRun& run, int64_t index, const Tensor& sums, int64_t first,
                               int64_t samples) const {
  const Direction& direction = directions_[static_cast<size_t>(index)];
  const int64_t width = direction.inputs.stride();
  Block block(direction, index, first, samples);
  block.inputs_stride = run.one_input ? 0 : (batch_first_ ? run.steps : 1) * width;
  block.is_zero = run.first[0].values == nullptr;
  for (size_t s = 0; s < states(); ++s) {
    const auto& [values, is_shared] = run.first[s];
    for (int64_t i = 0; values != nullptr && i < samples; ++i)
      std::copy_n(values + (is_shared ? index * hidden_ : of_state(run, index, first + i)), hidden_,
                  block.states[s] + i * hidden_);
  }
  const float* const inputs = sums.values<float>().data();
  for (int64_t i = 0; i < run.steps; ++i) {
    const int64_t at = direction.is_reverse ? run.steps - 1 - i : i;
    step(run, direction, block, inputs + of_input(run, at, first) * width, at);
  }
  for (size_t s = 0; s < states(); ++s) {
    for (int64_t i = 0; i < samples; ++i)
      std::copy_n(block.states[s] + i * hidden_, hidden_,
                  run.results[s + 1] + of_state(run, index, first + i));
  }
}

void RecurrentLayer::run(const RecurrentRun& run) const {
  const int64_t rows = run.steps * (run.one_input ? 1 : run.samples);
  std::vector<Tensor> sums;
  for (const Direction& direction : directions_) {
    sums.push_back(result_tensor({rows, direction.inputs.stride()}));
    direction.inputs.sums(run.inputs, rows, sums.back().values<float>().data());
  }
  const int64_t blocks = (run.samples + kSamples - 1) / kSamples;
  const int64_t tasks = blocks * std::ssize(directions_);
  const auto run_blocks = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kSamples;
      run_block(run, i / blocks, sums[static_cast<size_t>(i / blocks)], first,
                std::min(kSamples, run.samples - first));
    }
  };
  // One block alone leaves the threads to its sums.
  if (tasks == 1) {
    run_blocks(0, 1);
  } else {
    parallel_for(tasks, 1, run_blocks);
  }
}

}  // namespace detent
