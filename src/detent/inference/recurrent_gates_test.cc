#include "detent/inference/recurrent_gates.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "detent/formats/every_target_test.h"
#include "detent/kernels/functions.h"

namespace detent {
namespace {

using Function = RecurrentActivation::Function;
using Values = std::vector<float>;

class RecurrentGatesTest : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(RecurrentGatesTest);

/// The buffers of a sample.
struct Buffers {
  Values inputs;
  Values sums;
  Values candidate;
  Values state;
  Values cell;
  Values reset;

  RecurrentSample sample() {
    return {.inputs = inputs.data(),
            .sums = sums.data(),
            .candidate = candidate.data(),
            .state = state.data(),
            .cell = cell.data(),
            .reset = reset.data()};
  }
};

/// Numbers of all sizes, and some that are none.
Values random_values(std::mt19937& engine, int64_t count, bool has_special = true) {
  constexpr float kSpecial[] = {0, -0.0F, NAN, HUGE_VALF, -HUGE_VALF, 1e-40F, 700, -700, 1e38F};
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<size_t> draw(0, 150);
  Values values(static_cast<size_t>(count));
  for (float& value : values) {
    const size_t which = draw(engine);
    value = has_special && which < std::size(kSpecial) ? kSpecial[which] : normal(engine) * 4;
  }
  return values;
}

Buffers random_buffers(int64_t hidden) {
  std::mt19937 engine(static_cast<unsigned>(hidden));
  const auto draw = [&](int64_t gates) { return random_values(engine, gates * hidden); };
  return {draw(4), draw(4), draw(1), draw(1), draw(1), draw(1)};
}

void expect_same_bits(const Values& a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const bool same = std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]);
    ASSERT_TRUE(same || (std::isnan(a[i]) && std::isnan(b[i]))) << i << ": " << a[i] << " " << b[i];
  }
}

void expect_same_states(RecurrentGates gates, RecurrentGates reference,
                        const std::vector<RecurrentActivation>& functions) {
  for (const int64_t hidden : {1, 3, 8, 16, 31, 64, 100, 257}) {
    SCOPED_TRACE(hidden);
    const RecurrentCell cell{.hidden = hidden, .functions = functions};
    ASSERT_TRUE(cell.is_plain());
    Buffers fast = random_buffers(hidden);
    Buffers slow = fast;
    gates(cell, fast.sample());
    reference(cell, slow.sample());
    expect_same_bits(fast.state, slow.state);
    expect_same_bits(fast.cell, slow.cell);
    expect_same_bits(fast.reset, slow.reset);
  }
}

TEST_P(RecurrentGatesTest, AreThoseOfPassesOverEachGate) {
  const RecurrentActivation sigmoid = {Function::kSigmoid};
  const RecurrentActivation tanh = {Function::kTanh};
  expect_same_states(rnn_gates, any_rnn_gates, {tanh});
  expect_same_states(gru_gates, any_gru_gates, {sigmoid, tanh});
  expect_same_states(gru_reset_gates, any_gru_reset_gates, {sigmoid, tanh});
  expect_same_states(gru_last_gate, any_gru_last_gate, {sigmoid, tanh});
  expect_same_states(lstm_gates, any_lstm_gates, {sigmoid, tanh, tanh});
}

/// As it is defined, for one unit.
TEST_P(RecurrentGatesTest, OfAnLstmAreItsEquations) {
  constexpr int64_t kHidden = 75;
  std::mt19937 engine(3);
  Buffers buffers = random_buffers(kHidden);
  for (Values* values : {&buffers.inputs, &buffers.sums, &buffers.cell})
    *values = random_values(engine, std::ssize(*values), false);
  const Buffers before = buffers;
  lstm_gates({.hidden = kHidden, .functions = {}}, buffers.sample());
  for (size_t k = 0; k < kHidden; ++k) {
    const auto gate = [&](size_t index, ElementFunction::Kind kind) {
      const size_t at = index * kHidden + k;
      return function_reference({kind}, before.inputs[at] + before.sums[at]);
    };
    const float i = gate(0, ElementFunction::Kind::kSigmoid);
    const float o = gate(1, ElementFunction::Kind::kSigmoid);
    const float f = gate(2, ElementFunction::Kind::kSigmoid);
    const float g = gate(3, ElementFunction::Kind::kTanh);
    const float kept = f * before.cell[k];
    const float added = i * g;
    const float cell = kept + added;
    EXPECT_EQ(buffers.cell[k], cell);
    EXPECT_EQ(buffers.state[k], o * function_reference({ElementFunction::Kind::kTanh}, cell));
  }
}

TEST(RecurrentCell, IsPlainWithoutOtherFunctionsClipAndPeepholes) {
  const RecurrentCell lstm{.hidden = 1,
                           .functions = {{Function::kSigmoid}, {Function::kTanh}, {Function::kTanh}}};
  EXPECT_TRUE(lstm.is_plain());
  RecurrentCell other = lstm;
  other.functions[2] = {Function::kRelu};
  EXPECT_FALSE(other.is_plain());
  other = lstm;
  other.clip = 3;
  EXPECT_FALSE(other.is_plain());
  other = lstm;
  other.peepholes = {1, 2, 3};
  EXPECT_FALSE(other.is_plain());
  other = lstm;
  other.input_forget = true;
  EXPECT_FALSE(other.is_plain());
}

}  // namespace
}  // namespace detent
