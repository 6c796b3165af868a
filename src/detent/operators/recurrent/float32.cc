#include "detent/inference/recurrent_layer.h"

#include "detent/inference/float_node.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

namespace operands = recurrent_operands;

std::optional<Tensor> optional_tensor(const FloatNode& n, size_t index) {
  return n.is_absent(index) ? std::nullopt : std::optional(n.tensor(index));
}

/// Shape inference has checked that the operands fit.
std::vector<Tensor> run(const FloatNode& n, RecurrentKind kind) {
  std::vector<Tensor> results;
  for (const Operand& result : n.inferred()) results.push_back(result_tensor(result.shape));
  const RecurrentLayer layer(kind, n.node,
                             {.inputs = n.tensor(operands::kWeights),
                              .states = n.tensor(operands::kStateWeights),
                              .biases = optional_tensor(n, operands::kBiases),
                              .peepholes = optional_tensor(n, operands::kPeepholes)});
  const Tensor& inputs = n.tensor(operands::kInputs);
  const int64_t samples_dim = layer.batch_first() ? 0 : 1;
  RecurrentRun run{.steps = inputs.dim(1 - samples_dim),
                   .samples = results[1].dim(samples_dim),
                   .one_input = inputs.dim(samples_dim) == 1,
                   .inputs = inputs.values<float>().data()};
  if (!n.is_absent(operands::kLengths)) run.lengths = n.integers(operands::kLengths);
  for (size_t s = 0; s < layer.states(); ++s) {
    if (n.is_absent(operands::kFirstStates + s)) continue;
    const Tensor& given = n.tensor(operands::kFirstStates + s);
    run.first[s] = {given.values<float>().data(), given.dim(samples_dim) == 1};
  }
  for (size_t i = 0; i < results.size(); ++i) run.results[i] = results[i].values<float>().data();
  layer.run(run);
  return results;
}

std::vector<Tensor> rnn(const FloatNode& n) { return run(n, RecurrentKind::kRnn); }
std::vector<Tensor> gru(const FloatNode& n) { return run(n, RecurrentKind::kGru); }
std::vector<Tensor> lstm(const FloatNode& n) { return run(n, RecurrentKind::kLstm); }

FloatOperator entry(std::string_view op, std::vector<Tensor> (*compute_all)(const FloatNode&),
                    RecurrentKind kind) {
  return {.op = op, .compute = nullptr, .compute_all = compute_all, .recurrent = kind};
}

}  // namespace

FloatOperators float_recurrent_operators() {
  return {entry("rnn", rnn, RecurrentKind::kRnn), entry("gru", gru, RecurrentKind::kGru),
          entry("lstm", lstm, RecurrentKind::kLstm)};
}

}  // namespace detent
