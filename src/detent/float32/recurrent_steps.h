#pragma once

#include <optional>
#include <span>
#include <vector>

#include "detent/float32/packed_linear.h"
#include "detent/float32/recurrent_function.h"

namespace detent {

// One step of a recurrent layer in one direction, of some samples. Sums are those of linear_sums; all else is
// one operation, rounded, after the other.

/// One direction of a layer: what all steps read.
struct RecurrentDirection {
  int64_t hidden;
  std::vector<PackedLinear> recurrences;  // R h + Rb: of all gates, or of those that have one h
  std::vector<RecurrentActivation> functions;
  std::optional<double> clip = {};
  std::span<const float> peepholes = {};  // of i, o, f, [3 * hidden]; empty: none
  bool linear_before_reset = false;
  bool input_forget = false;

  /// On a gate.
  void apply(size_t function, std::span<float> values) const {
    apply_recurrent_function(functions[function], clip, values);
  }
};

/// What some samples remember, and where a step computes: [samples, hidden] each.
struct RecurrentBlock {
  using Values = std::vector<float>;

  int64_t samples;
  std::vector<Values> state;  // h, and of some kinds c
  std::vector<Values> next;
  std::vector<Values> gates;
  Values sums;  // of a recurrence, [samples, its stride]
};

/// W x + Wb of the samples at one step: the gates of a sample lie one after the other.
struct RecurrentInputs {
  const float* first;
  int64_t stride;  // between samples
};

/// From block.state to block.next.
using RecurrentStep = void (*)(const RecurrentDirection& d, const RecurrentInputs& x, RecurrentBlock& block);
void rnn_step(const RecurrentDirection& d, const RecurrentInputs& x, RecurrentBlock& b);
/// Two recurrences: of z and r, and of h. The sums of the block hold either.
void gru_step(const RecurrentDirection& d, const RecurrentInputs& x, RecurrentBlock& b);
void lstm_step(const RecurrentDirection& d, const RecurrentInputs& x, RecurrentBlock& b);

}  // namespace detent
