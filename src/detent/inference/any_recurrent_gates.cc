#include <algorithm>
#include <span>

#include "detent/inference/recurrent_gates.h"

namespace detent {
namespace {

void apply(const RecurrentCell& cell, size_t function, float* gate) {
  apply_recurrent_function(cell.functions[function], cell.clip, {gate, static_cast<size_t>(cell.hidden)});
}

/// gate += inputs, of `gates` that lie one after the other.
void add_inputs(const RecurrentCell& cell, const float* inputs, int64_t gates, float* gate) {
  for (int64_t i = 0; i < gates * cell.hidden; ++i) gate[i] = inputs[i] + gate[i];
}

/// Adds the peephole of the memory to a gate: i, o, f have the 0th, 1st, 2nd part of the weights.
void add_peephole(const RecurrentCell& cell, int64_t part, const float* memory, float* gate) {
  if (cell.peepholes.empty()) return;
  const float* const weights = cell.peepholes.data() + part * cell.hidden;
  for (int64_t i = 0; i < cell.hidden; ++i) gate[i] += weights[i] * memory[i];
}

/// h = (1 - z) candidate + z h
void mix(const RecurrentCell& cell, const float* z, const float* candidate, float* h) {
  for (int64_t i = 0; i < cell.hidden; ++i) h[i] = (1 - z[i]) * candidate[i] + z[i] * h[i];
}

}  // namespace

bool RecurrentCell::is_plain() const {
  using Function = RecurrentActivation::Function;
  if (clip || !peepholes.empty() || input_forget) return false;
  for (size_t i = 0; i < functions.size(); ++i) {
    const bool is_first_of_several = i == 0 && functions.size() > 1;
    if (functions[i].function != (is_first_of_several ? Function::kSigmoid : Function::kTanh)) return false;
  }
  return true;
}

void any_rnn_gates(const RecurrentCell& cell, const RecurrentSample& s) {
  add_inputs(cell, s.inputs, 1, s.sums);
  apply(cell, 0, s.sums);
  std::copy_n(s.sums, cell.hidden, s.state);
}

void any_gru_gates(const RecurrentCell& cell, const RecurrentSample& s) {
  float* const z = s.sums;
  const float* const r = s.sums + cell.hidden;
  add_inputs(cell, s.inputs, 2, s.sums);
  apply(cell, 0, s.sums);
  apply(cell, 0, s.sums + cell.hidden);
  for (int64_t i = 0; i < cell.hidden; ++i) s.candidate[i] = r[i] * s.candidate[i];
  add_inputs(cell, s.inputs + 2 * cell.hidden, 1, s.candidate);
  apply(cell, 1, s.candidate);
  mix(cell, z, s.candidate, s.state);
}

void any_gru_reset_gates(const RecurrentCell& cell, const RecurrentSample& s) {
  const float* const r = s.sums + cell.hidden;
  add_inputs(cell, s.inputs, 2, s.sums);
  apply(cell, 0, s.sums);
  apply(cell, 0, s.sums + cell.hidden);
  for (int64_t i = 0; i < cell.hidden; ++i) s.reset[i] = r[i] * s.state[i];
}

void any_gru_last_gate(const RecurrentCell& cell, const RecurrentSample& s) {
  add_inputs(cell, s.inputs + 2 * cell.hidden, 1, s.candidate);
  apply(cell, 1, s.candidate);
  mix(cell, s.sums, s.candidate, s.state);
}

void any_lstm_gates(const RecurrentCell& cell, const RecurrentSample& s) {
  const int64_t hidden = cell.hidden;
  float* const i = s.sums;
  float* const o = i + hidden;
  float* const f = o + hidden;
  float* const g = f + hidden;
  float* const c = s.cell;
  add_inputs(cell, s.inputs, 4, s.sums);
  add_peephole(cell, 0, c, i);
  apply(cell, 0, i);
  if (cell.input_forget) {
    for (int64_t k = 0; k < hidden; ++k) f[k] = 1 - i[k];
  } else {
    add_peephole(cell, 2, c, f);
    apply(cell, 0, f);
  }
  apply(cell, 1, g);
  for (int64_t k = 0; k < hidden; ++k) c[k] = f[k] * c[k] + i[k] * g[k];
  add_peephole(cell, 1, c, o);
  apply(cell, 0, o);
  float* const h = s.state;
  std::copy_n(c, hidden, h);
  apply_recurrent_function(cell.functions[2], std::nullopt, {h, static_cast<size_t>(hidden)});
  for (int64_t k = 0; k < hidden; ++k) h[k] = o[k] * h[k];
}

}  // namespace detent
