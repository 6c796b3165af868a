#include "detent/float32/recurrent_steps.h"

namespace detent {
namespace {

using Values = RecurrentBlock::Values;

const PackedLinear& recurrence(const RecurrentDirection& d, size_t index, const Values& h,
                               RecurrentBlock& b) {
  d.recurrences[index].sums(h.data(), b.samples, b.sums.data());
  return d.recurrences[index];
}

/// result = x + sums, of gate `gate` of x and `column` of the sums.
void add_gate(const RecurrentDirection& d, const RecurrentInputs& x, int64_t gate,
              const PackedLinear& recurrence, int64_t column, const RecurrentBlock& b, Values& result) {
  for (int64_t sample = 0; sample < b.samples; ++sample) {
    const float* const inputs = x.first + sample * x.stride + gate * d.hidden;
    const float* const sums = b.sums.data() + sample * recurrence.stride() + column * d.hidden;
    float* const to = result.data() + sample * d.hidden;
    for (int64_t i = 0; i < d.hidden; ++i) to[i] = inputs[i] + sums[i];
  }
}

/// Sums, in rows, times r.
void reset_sums(const RecurrentDirection& d, const Values& r, int64_t stride, RecurrentBlock& b) {
  for (int64_t sample = 0; sample < b.samples; ++sample) {
    const float* const factors = r.data() + sample * d.hidden;
    float* const sums = b.sums.data() + sample * stride;
    for (int64_t i = 0; i < d.hidden; ++i) sums[i] = factors[i] * sums[i];
  }
}

/// What the cell adds to a gate: of i, o, f the 0th, 1st, 2nd part of the weights.
void add_peephole(const RecurrentDirection& d, size_t part, const Values& cell, Values& gate) {
  if (d.peepholes.empty()) return;
  const auto hidden = static_cast<size_t>(d.hidden);
  const float* const weights = d.peepholes.data() + part * hidden;
  for (size_t first = 0; first < gate.size(); first += hidden) {
    for (size_t i = 0; i < hidden; ++i) gate[first + i] += weights[i] * cell[first + i];
  }
}

}  // namespace

void rnn_step(const RecurrentDirection& d, const RecurrentInputs& x, RecurrentBlock& b) {
  add_gate(d, x, 0, recurrence(d, 0, b.state[0], b), 0, b, b.next[0]);
  d.apply(0, b.next[0]);
}

void gru_step(const RecurrentDirection& d, const RecurrentInputs& x, RecurrentBlock& b) {
  const Values& h = b.state[0];
  Values& z = b.gates[0];
  Values& r = b.gates[1];
  Values& next = b.next[0];
  const PackedLinear& of_gates = recurrence(d, 0, h, b);
  add_gate(d, x, 0, of_gates, 0, b, z);
  add_gate(d, x, 1, of_gates, 1, b, r);
  d.apply(0, z);
  d.apply(0, r);
  if (d.linear_before_reset) {
    reset_sums(d, r, recurrence(d, 1, h, b).stride(), b);
  } else {
    for (size_t i = 0; i < h.size(); ++i) next[i] = r[i] * h[i];
    recurrence(d, 1, next, b);
  }
  add_gate(d, x, 2, d.recurrences[1], 0, b, next);
  d.apply(1, next);
  for (size_t i = 0; i < h.size(); ++i) next[i] = (1 - z[i]) * next[i] + z[i] * h[i];
}

void lstm_step(const RecurrentDirection& d, const RecurrentInputs& x, RecurrentBlock& b) {
  const Values& c = b.state[1];
  Values& i = b.gates[0];
  Values& o = b.gates[1];
  Values& f = b.gates[2];
  Values& g = b.gates[3];
  Values& next = b.next[1];
  const PackedLinear& of_gates = recurrence(d, 0, b.state[0], b);
  for (size_t gate = 0; gate < b.gates.size(); ++gate)
    add_gate(d, x, static_cast<int64_t>(gate), of_gates, static_cast<int64_t>(gate), b, b.gates[gate]);
  add_peephole(d, 0, c, i);
  d.apply(0, i);
  if (d.input_forget) {
    for (size_t k = 0; k < f.size(); ++k) f[k] = 1 - i[k];
  } else {
    add_peephole(d, 2, c, f);
    d.apply(0, f);
  }
  d.apply(1, g);
  for (size_t k = 0; k < c.size(); ++k) next[k] = f[k] * c[k] + i[k] * g[k];
  add_peephole(d, 1, next, o);
  d.apply(0, o);
  Values& h = b.next[0];
  h = next;
  apply_recurrent_function(d.functions[2], std::nullopt, h);
  for (size_t k = 0; k < h.size(); ++k) h[k] = o[k] * h[k];
}

}  // namespace detent
