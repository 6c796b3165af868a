#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "detent/graph/operator_arguments.h"

namespace detent {

// Gates of a recurrent layer, from the sums of a step: each operation is rounded, one after the other.

/// Gates of one direction.
struct RecurrentCell {
  int64_t hidden;
  std::vector<RecurrentActivation> functions;
  std::optional<double> clip = {};
  std::vector<float> peepholes = {};  // of i, o, f, [3 * hidden]; empty: none
  bool input_forget = false;

  /// Whether its functions are sigmoid and tanh, as unless given, of sums as they are.
  bool is_plain() const;
};

/// One sample at one step. Sums of gates lie one after the other.
struct RecurrentSample {
  const float* inputs;  // W x + Wb
  float* sums;          // R h + Rb; what they were is lost
  float* candidate;     // those of the last gate of a GRU
  float* state;         // h
  float* cell;          // c of an LSTM
  float* reset;         // r h of a GRU whose last gate sums these
};

/// From the states before the step to those after it.
using RecurrentGates = void (*)(const RecurrentCell& cell, const RecurrentSample& s);

void rnn_gates(const RecurrentCell& cell, const RecurrentSample& s);
void lstm_gates(const RecurrentCell& cell, const RecurrentSample& s);
/// The reset gate scales the sums of the last.
void gru_gates(const RecurrentCell& cell, const RecurrentSample& s);
/// It scales the state: the first half leaves z in the sums, and r h.
void gru_reset_gates(const RecurrentCell& cell, const RecurrentSample& s);
void gru_last_gate(const RecurrentCell& cell, const RecurrentSample& s);

// The same in passes over the gates, of cells with any functions. What is above computes plain ones, by
// vectors.
void any_rnn_gates(const RecurrentCell& cell, const RecurrentSample& s);
void any_lstm_gates(const RecurrentCell& cell, const RecurrentSample& s);
void any_gru_gates(const RecurrentCell& cell, const RecurrentSample& s);
void any_gru_reset_gates(const RecurrentCell& cell, const RecurrentSample& s);
void any_gru_last_gate(const RecurrentCell& cell, const RecurrentSample& s);

/// A function of a recurrent layer on each value, in place, after the values are clamped to [-clip, clip].
/// The bits do not depend on the processor: of sigmoid, tanh, elu and softplus those of ElementFunction
/// (kernels/functions.h), of the others those of operations of IEEE 754, each rounded.
void apply_recurrent_function(const RecurrentActivation& activation, std::optional<double> clip,
                              std::span<float> values);

}  // namespace detent
