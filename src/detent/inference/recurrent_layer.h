#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/inference/recurrent_gates.h"
#include "detent/kernels/packed_linear.h"

namespace detent {

enum class RecurrentKind { kRnn, kGru, kLstm };

/// Operand indices of a recurrent node.
namespace recurrent_operands {
inline constexpr size_t kInputs = 0;
inline constexpr size_t kWeights = 1;  // W and R
inline constexpr size_t kStateWeights = 2;
inline constexpr size_t kBiases = 3;
inline constexpr size_t kLengths = 4;
inline constexpr size_t kFirstStates = 5;  // and of an LSTM 6
inline constexpr size_t kPeepholes = 7;
}  // namespace recurrent_operands

/// As rounded by the node's quantizers.
struct RecurrentWeights {
  Tensor inputs;
  Tensor states;
  std::optional<Tensor> biases;
  std::optional<Tensor> peepholes;
  // Scales of the directions whose weights are codes of 8 bits times these; empty: none.
  std::vector<float> input_scales = {};
  std::vector<float> state_scales = {};
};

/// Inputs and outputs of a layer: tensors of the node's operands and results.
struct RecurrentRun {
  int64_t steps;
  int64_t samples;
  bool one_input = false;  // of all samples
  const float* inputs;
  std::vector<int64_t> lengths = {};  // of samples; empty: all steps
  struct FirstState {
    const float* values = nullptr;  // none: zeros
    bool is_shared = false;         // by all samples
  };
  std::array<FirstState, 2> first = {};
  std::array<float*, 3> results = {};  // all states, and the last of each kind
};

/// A recurrent layer, its weights packed once. Sums are those of linear_sums, functions those of
/// recurrent_gates.h, and all else is one operation, rounded, after the other.
class RecurrentLayer {
 public:
  RecurrentLayer(RecurrentKind kind, const Node& node, const RecurrentWeights& weights);

  /// h, and of an LSTM c.
  size_t states() const { return kind_ == RecurrentKind::kLstm ? 2 : 1; }
  bool batch_first() const { return batch_first_; }
  int64_t byte_size() const;
  /// Products that one sample takes at one step.
  int64_t products() const;

  /// A thread computes some samples in one direction through all steps.
  void run(const RecurrentRun& run) const;

 private:
  struct Direction {
    bool is_reverse;
    PackedLinear inputs;                    // W x + Wb, of all gates
    std::vector<PackedLinear> recurrences;  // R h + Rb; two where the last gate of a GRU sums r h
    RecurrentCell cell;
    RecurrentGates before = nullptr;  // the second recurrence
    RecurrentGates last = nullptr;
  };
  struct Block;

  void add_direction(const Node& node, const RecurrentWeights& weights, int64_t index);
  void choose_gates(Direction& direction) const;
  void run_block(const RecurrentRun& run, int64_t direction, const Tensor& sums, int64_t first,
                 int64_t samples) const;
  void step(const RecurrentRun& run, const Direction& direction, Block& block, const float* inputs,
            int64_t step) const;

  // Where rows begin.
  int64_t of_input(const RecurrentRun& run, int64_t step, int64_t sample) const;
  int64_t of_state(const RecurrentRun& run, int64_t direction, int64_t sample) const;
  int64_t of_result(const RecurrentRun& run, int64_t step, int64_t direction, int64_t sample) const;

  RecurrentKind kind_;
  bool batch_first_;
  int64_t hidden_;
  std::vector<Direction> directions_;
};

}  // namespace detent
