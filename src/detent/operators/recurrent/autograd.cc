#include <ATen/TensorOperators.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "detent/core/error.h"
#include "detent/graph/operator_arguments.h"
#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

constexpr double kSoftplusThreshold = 20;

at::Tensor activated(const RecurrentActivation& activation, const at::Tensor& x) {
  using Function = RecurrentActivation::Function;
  const double alpha = activation.alpha;
  const double beta = activation.beta;
  switch (activation.function) {
    case Function::kSigmoid:
      return at::sigmoid(x);
    case Function::kTanh:
      return at::tanh(x);
    case Function::kRelu:
      return at::relu(x);
    case Function::kAffine:
      return x * alpha + beta;
    case Function::kLeakyRelu:
      return at::leaky_relu(x, alpha);
    case Function::kThresholdedRelu:
      return at::where(x.ge(alpha), x, at::zeros({}, x.options()));
    case Function::kScaledTanh:
      return at::tanh(x * beta) * alpha;
    case Function::kHardSigmoid:
      return (x * alpha + beta).clamp(0, 1);
    case Function::kElu:
      return at::elu(x, alpha);
    case Function::kSoftsign:
      return x / (1 + x.abs());
    case Function::kSoftplus:
      return at::softplus(x, 1, kSoftplusThreshold);
  }
  DETENT_CHECK(false, "function {}", static_cast<int>(activation.function));
  return x;
}

/// One direction of a layer: what all kinds have, and the state after each step.
class Direction {
 public:
  /// `functions` of each direction; `gates` are rows of the weights.
  Direction(const Evaluation& e, int64_t index, int64_t gates, size_t functions)
      : hidden_(integer_attribute(e.node, "hidden_size")), gates_(gates) {
    const auto all =
        recurrent_activations(e.node, functions * static_cast<size_t>(recurrent_directions(e.node)));
    const auto first = all.begin() + index * static_cast<int64_t>(functions);
    functions_.assign(first, first + static_cast<int64_t>(functions));
    clips_ = !e.node.attributes.find("clip")->is_na();
    if (clips_) clip_ = number_attribute(e.node, "clip");
    weight_ = e.tensor(1).select(0, index);
    recurrence_ = e.tensor(2).select(0, index);
    if (e.is_absent(3)) return;
    const at::Tensor biases = e.tensor(3).select(0, index);
    bias_ = biases.narrow(0, 0, gates * hidden_);
    recurrent_bias_ = biases.narrow(0, gates * hidden_, gates * hidden_);
  }

  /// W x + Wb of all steps.
  at::Tensor inputs(const at::Tensor& x) const { return at::linear(x, weight_, bias_); }
  /// R h + Rb of all gates, or of some.
  at::Tensor recurrence(const at::Tensor& h) const { return recurrence(h, 0, gates_); }
  at::Tensor recurrence(const at::Tensor& h, int64_t first, int64_t count) const {
    const auto rows = [&](const at::Tensor& t) {
      return t.defined() ? t.narrow(0, first * hidden_, count * hidden_) : t;
    };
    return at::linear(h, rows(recurrence_), rows(recurrent_bias_));
  }
  at::Tensor gate(const at::Tensor& of_all, int64_t gate) const {
    return of_all.narrow(-1, gate * hidden_, hidden_);
  }
  /// A gate's function, of a clipped sum where the layer clips.
  at::Tensor function(size_t index, const at::Tensor& x) const {
    return function_of_cell(index, clips_ ? x.clamp(-clip_, clip_) : x);
  }
  at::Tensor function_of_cell(size_t index, const at::Tensor& x) const {
    return activated(functions_[index], x);
  }

 private:
  int64_t hidden_;
  int64_t gates_;
  std::vector<RecurrentActivation> functions_;
  bool clips_ = false;
  double clip_ = 0;
  at::Tensor weight_;
  at::Tensor recurrence_;
  at::Tensor bias_;
  at::Tensor recurrent_bias_;
};

constexpr size_t kFirstState = 5;

/// State of a layer: h, and of some kinds c.
using State = std::vector<at::Tensor>;

/// The state after one step, from W x + Wb and the state before.
using Step = State (*)(const Evaluation& e, const Direction& direction, int64_t index, const at::Tensor& x,
                       const State& before);

struct Kind {
  int64_t gates;
  size_t functions;
  Step step;
  size_t states = 1;
};

State rnn_step(const Evaluation&, const Direction& d, int64_t, const at::Tensor& x, const State& before) {
  return {d.function(0, x + d.recurrence(before[0]))};
}

State gru_step(const Evaluation& e, const Direction& d, int64_t, const at::Tensor& x, const State& before) {
  const at::Tensor& h = before[0];
  const bool linear_before_reset = boolean_attribute(e.node, "linear_before_reset");
  const at::Tensor gates = x.narrow(-1, 0, 2 * h.size(-1)) + d.recurrence(h, 0, 2);
  const at::Tensor z = d.function(0, d.gate(gates, 0));
  const at::Tensor r = d.function(0, d.gate(gates, 1));
  const at::Tensor recurrent = linear_before_reset ? r * d.recurrence(h, 2, 1) : d.recurrence(r * h, 2, 1);
  return {(1 - z) * d.function(1, d.gate(x, 2) + recurrent) + z * h};
}

State lstm_step(const Evaluation& e, const Direction& d, int64_t index, const at::Tensor& x,
                const State& before) {
  const at::Tensor& c = before[1];
  const at::Tensor gates = x + d.recurrence(before[0]);
  /// Peephole of the cell for a gate: i, o, f have the 0th, 1st, 2nd part of the weights.
  const auto peephole = [&](const at::Tensor& gate, int64_t part, const at::Tensor& cell) {
    constexpr size_t kPeepholes = 7;
    if (e.is_absent(kPeepholes)) return gate;
    return gate + d.gate(e.tensor(kPeepholes).select(0, index), part) * cell;
  };
  const at::Tensor i = d.function(0, peephole(d.gate(gates, 0), 0, c));
  const at::Tensor f =
      boolean_attribute(e.node, "input_forget") ? 1 - i : d.function(0, peephole(d.gate(gates, 2), 2, c));
  const at::Tensor next = f * c + i * d.function(1, d.gate(gates, 3));
  const at::Tensor o = d.function(0, peephole(d.gate(gates, 1), 1, next));
  return {o * d.function_of_cell(2, next), next};
}

/// The state of each sample before its first step, [samples, hidden].
State first_state(const Evaluation& e, size_t states, int64_t index, int64_t batch) {
  const bool batch_first = boolean_attribute(e.node, "batch_first");
  State state;
  for (size_t i = 0; i < states; ++i) {
    const int64_t hidden = integer_attribute(e.node, "hidden_size");
    state.push_back(
        e.is_absent(kFirstState + i)
            ? at::zeros({batch, hidden}, e.tensor(0).options())
            : e.tensor(kFirstState + i).select(batch_first ? 1 : 0, index).expand({batch, hidden}));
  }
  return state;
}

struct DirectionResult {
  at::Tensor all;  // [steps, samples, hidden]
  State last;
};

/// Samples that are shorter than others keep their state after their last step, where the result is 0; in
/// reverse they begin at it.
DirectionResult run_direction(const Evaluation& e, const Kind& kind, const at::Tensor& x, int64_t index) {
  const Direction direction(e, index, kind.gates, kind.functions);
  const bool reverse = index == 1 || choice_attribute(e.node, "direction") == "reverse";
  const int64_t steps = x.size(0);
  State state = first_state(e, kind.states, index, x.size(1));
  const at::Tensor inputs = direction.inputs(x);
  constexpr size_t kLengths = 4;
  const at::Tensor lengths =
      e.is_absent(kLengths) ? at::Tensor() : e.tensor(kLengths).to(at::kLong).unsqueeze(-1);
  std::vector<at::Tensor> all(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t at = reverse ? steps - 1 - i : i;
    State next = kind.step(e, direction, index, inputs.select(0, at), state);
    at::Tensor& result = all[static_cast<size_t>(at)] = next[0];
    if (lengths.defined()) {
      const at::Tensor is_there = lengths.gt(at);
      for (size_t s = 0; s < next.size(); ++s) next[s] = at::where(is_there, next[s], state[s]);
      result = at::where(is_there, result, at::zeros({}, result.options()));
    }
    state = std::move(next);
  }
  const at::Tensor none = at::zeros({0, x.size(1), integer_attribute(e.node, "hidden_size")}, x.options());
  return {all.empty() ? none : at::stack(all), std::move(state)};
}

Results run(const Evaluation& e, const Kind& kind) {
  const bool batch_first = boolean_attribute(e.node, "batch_first");
  at::Tensor x = batch_first ? e.tensor(0).transpose(0, 1) : e.tensor(0);
  for (size_t s = 0; s < kind.states && x.size(1) == 1; ++s) {
    if (e.is_absent(kFirstState + s)) continue;
    x = x.expand({x.size(0), e.tensor(kFirstState + s).size(batch_first ? 0 : 1), x.size(2)});
  }
  std::vector<at::Tensor> all;
  std::vector<std::vector<at::Tensor>> last(kind.states);
  for (int64_t index = 0; index < recurrent_directions(e.node); ++index) {
    DirectionResult result = run_direction(e, kind, x, index);
    all.push_back(result.all);
    for (size_t s = 0; s < kind.states; ++s) last[s].push_back(result.last[s]);
  }
  const at::Tensor joined = at::stack(all, 1);  // [steps, directions, samples, hidden]
  std::vector<at::Tensor> results = {batch_first ? joined.permute({2, 0, 1, 3}) : joined};
  for (const std::vector<at::Tensor>& state : last) results.push_back(at::stack(state, batch_first ? 1 : 0));
  return Results(results);
}

Results evaluate_rnn(const Evaluation& e) { return run(e, {1, 1, rnn_step}); }
Results evaluate_gru(const Evaluation& e) { return run(e, {3, 2, gru_step}); }
Results evaluate_lstm(const Evaluation& e) { return run(e, {4, 3, lstm_step, 2}); }

}  // namespace

EvaluatorList recurrent_evaluators() {
  return {{"rnn", evaluate_rnn}, {"gru", evaluate_gru}, {"lstm", evaluate_lstm}};
}

}  // namespace detent
