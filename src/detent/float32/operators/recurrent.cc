#include "detent/graph/recurrent.h"

#include <algorithm>
#include <numeric>

#include "detent/core/parallel.h"
#include "detent/float32/float_node.h"
#include "detent/float32/recurrent_steps.h"
#include "detent/float32/result_tensor.h"
#include "detent/float32/sums.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// Samples that a thread takes at once, through all steps.
constexpr int64_t kSamples = 8;

constexpr size_t kBiases = 3;
constexpr size_t kLengths = 4;
constexpr size_t kFirstState = 5;
constexpr size_t kPeepholes = 7;

struct CellKind {
  std::vector<int64_t> recurrences;  // gates of each
  size_t functions;                  // of a direction
  RecurrentStep step;
  size_t states = 1;

  int64_t gates() const { return std::accumulate(recurrences.begin(), recurrences.end(), int64_t{0}); }
};

/// Where rows of a layer's tensors begin.
struct CellRows {
  bool batch_first;
  int64_t steps;
  int64_t samples;
  bool one_input;  // of all samples
  int64_t directions;
  int64_t hidden;

  CellRows(const FloatNode& n, const Shape& last_state)
      : batch_first(boolean_attribute(n.node, "batch_first")),
        steps(n.tensor(0).dim(batch_first ? 1 : 0)),
        samples(last_state[batch_first ? 0 : 1]),
        one_input(n.tensor(0).dim(batch_first ? 0 : 1) == 1),
        directions(recurrent_directions(n.node)),
        hidden(integer_attribute(n.node, "hidden_size")) {}

  int64_t of_input(int64_t step, int64_t sample) const {
    if (one_input) return step;
    return batch_first ? sample * steps + step : step * samples + sample;
  }
  int64_t input_stride() const { return one_input ? 0 : batch_first ? steps : 1; }
  /// Where a sample's state begins among the states of `given` samples: one may be that of all.
  int64_t of_first_state(int64_t direction, int64_t sample, int64_t given) const {
    if (given == 1) return direction * hidden;
    return of_state(direction, sample);
  }
  int64_t of_state(int64_t direction, int64_t sample) const {
    return (batch_first ? sample * directions + direction : direction * samples + sample) * hidden;
  }
  int64_t of_result(int64_t step, int64_t direction, int64_t sample) const {
    const int64_t row = batch_first ? (sample * steps + step) * directions + direction
                                    : (step * directions + direction) * samples + sample;
    return row * hidden;
  }
};

/// Part `index` of dimension 0, without that.
Tensor part(const Tensor& tensor, int64_t index) {
  return tensor.rows(index, index + 1).reshaped({tensor.shape().begin() + 1, tensor.shape().end()});
}

/// A layer that is about to run.
struct Layer {
  const CellKind& kind;
  const FloatNode& n;
  CellRows rows;
  std::vector<int64_t> lengths;  // of samples; empty: all steps
  std::vector<RecurrentDirection> directions;
  std::vector<Tensor> inputs;  // W x + Wb, of each direction
  std::vector<Tensor> results;
};

std::optional<Tensor> biases(const FloatNode& n, int64_t direction, int64_t begin, int64_t end) {
  if (n.is_absent(kBiases)) return std::nullopt;
  return part(n.tensor(kBiases), direction).rows(begin, end);
}

RecurrentDirection direction_of(const CellKind& kind, const FloatNode& n, const CellRows& rows,
                                int64_t index) {
  RecurrentDirection d{.hidden = rows.hidden, .recurrences = {}, .functions = {}};
  const Tensor weight = part(n.tensor(2), index);
  const int64_t all = kind.gates() * rows.hidden;
  int64_t begin = 0;
  for (const int64_t gates : kind.recurrences) {
    const int64_t end = begin + gates * rows.hidden;
    d.recurrences.emplace_back(weight.rows(begin, end), biases(n, index, all + begin, all + end));
    begin = end;
  }
  const auto functions = recurrent_activations(n.node, kind.functions * static_cast<size_t>(rows.directions));
  const auto first = functions.begin() + index * static_cast<int64_t>(kind.functions);
  d.functions.assign(first, first + static_cast<int64_t>(kind.functions));
  if (!n.node.attributes.find("clip")->is_na()) d.clip = number_attribute(n.node, "clip");
  const auto is_set = [&](const char* name) {
    return n.node.attributes.find(name) != nullptr && boolean_attribute(n.node, name);
  };
  d.linear_before_reset = is_set("linear_before_reset");
  d.input_forget = is_set("input_forget");
  if (!n.is_absent(kPeepholes)) {
    const auto count = static_cast<size_t>(3 * rows.hidden);
    d.peepholes = n.tensor(kPeepholes).values<float>().subspan(static_cast<size_t>(index) * count, count);
  }
  return d;
}

RecurrentBlock block_of(const Layer& layer, const RecurrentDirection& d, int64_t index, int64_t first,
                        int64_t samples) {
  const auto count = static_cast<size_t>(samples * d.hidden);
  int64_t stride = 0;
  for (const PackedLinear& recurrence : d.recurrences) stride = std::max(stride, recurrence.stride());
  const auto each = [&](size_t parts) { return std::vector(parts, RecurrentBlock::Values(count)); };
  RecurrentBlock block{.samples = samples,
                       .state = each(layer.kind.states),
                       .next = each(layer.kind.states),
                       .gates = each(static_cast<size_t>(layer.kind.gates())),
                       .sums = RecurrentBlock::Values(static_cast<size_t>(samples * stride))};
  for (size_t s = 0; s < layer.kind.states; ++s) {
    if (layer.n.is_absent(kFirstState + s)) continue;
    const Tensor& given = layer.n.tensor(kFirstState + s);
    const int64_t given_samples = given.dim(layer.rows.batch_first ? 0 : 1);
    for (int64_t i = 0; i < samples; ++i)
      std::copy_n(given.values<float>().data() + layer.rows.of_first_state(index, first + i, given_samples),
                  d.hidden, block.state[s].data() + i * d.hidden);
  }
  return block;
}

/// Writes the results of a step. Samples that are shorter than others keep their state after their last step,
/// where the result is 0.
void end_step(Layer& layer, RecurrentBlock& block, int64_t index, int64_t step, int64_t first) {
  const int64_t hidden = layer.rows.hidden;
  float* const results = layer.results[0].values<float>().data();
  for (int64_t i = 0; i < block.samples; ++i) {
    float* const to = results + layer.rows.of_result(step, index, first + i);
    if (layer.lengths.empty() || layer.lengths[static_cast<size_t>(first + i)] > step) {
      std::copy_n(block.next[0].data() + i * hidden, hidden, to);
      continue;
    }
    std::fill_n(to, hidden, 0.0F);
    for (size_t s = 0; s < block.state.size(); ++s)
      std::copy_n(block.state[s].data() + i * hidden, hidden, block.next[s].data() + i * hidden);
  }
  std::swap(block.state, block.next);
}

/// All steps of samples [first, first + samples) in one direction.
void run_block(Layer& layer, int64_t index, int64_t first, int64_t samples) {
  const CellRows& rows = layer.rows;
  const RecurrentDirection& direction = layer.directions[static_cast<size_t>(index)];
  const bool reverse = index == 1 || choice_attribute(layer.n.node, "direction") == "reverse";
  const Tensor& inputs = layer.inputs[static_cast<size_t>(index)];
  const int64_t width = inputs.dim(-1);
  RecurrentBlock block = block_of(layer, direction, index, first, samples);
  for (int64_t i = 0; i < rows.steps; ++i) {
    const int64_t step = reverse ? rows.steps - 1 - i : i;
    const RecurrentInputs x = {inputs.values<float>().data() + rows.of_input(step, first) * width,
                               rows.input_stride() * width};
    layer.kind.step(direction, x, block);
    end_step(layer, block, index, step, first);
  }
  for (size_t s = 0; s < block.state.size(); ++s) {
    float* const last = layer.results[s + 1].values<float>().data();
    for (int64_t i = 0; i < samples; ++i)
      std::copy_n(block.state[s].data() + i * rows.hidden, rows.hidden,
                  last + rows.of_state(index, first + i));
  }
}

std::vector<Tensor> run(const FloatNode& n, const CellKind& kind) {
  std::vector<Tensor> results;
  for (const Operand& result : n.inferred()) results.push_back(result_tensor(result.shape));
  const CellRows rows(n, results[1].shape());
  Layer layer{kind, n, rows, {}, {}, {}, std::move(results)};
  if (!n.is_absent(kLengths)) layer.lengths = n.integers(kLengths);
  const int64_t outputs = kind.gates() * layer.rows.hidden;
  for (int64_t index = 0; index < layer.rows.directions; ++index) {
    layer.directions.push_back(direction_of(kind, n, layer.rows, index));
    layer.inputs.push_back(linear_sums(n.tensor(0), part(n.tensor(1), index), biases(n, index, 0, outputs)));
  }
  const int64_t blocks = (layer.rows.samples + kSamples - 1) / kSamples;
  const auto run_blocks = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % blocks * kSamples;
      run_block(layer, i / blocks, first, std::min(kSamples, layer.rows.samples - first));
    }
  };
  // One block alone leaves the threads to its sums.
  if (blocks * layer.rows.directions == 1) {
    run_blocks(0, 1);
  } else {
    parallel_for(blocks * layer.rows.directions, 1, run_blocks);
  }
  return layer.results;
}

std::vector<Tensor> rnn(const FloatNode& n) { return run(n, {{1}, 1, rnn_step}); }
std::vector<Tensor> gru(const FloatNode& n) { return run(n, {{2, 1}, 2, gru_step}); }
std::vector<Tensor> lstm(const FloatNode& n) { return run(n, {{4}, 3, lstm_step, 2}); }

FloatOperator entry(std::string_view op, std::vector<Tensor> (*compute_all)(const FloatNode&)) {
  return {op, nullptr, false, nullptr, nullptr, compute_all};
}

}  // namespace

FloatOperators float_recurrent_operators() {
  return {entry("rnn", rnn), entry("gru", gru), entry("lstm", lstm)};
}

}  // namespace detent
