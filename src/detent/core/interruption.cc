#include "detent/core/interruption.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

namespace detent {

namespace {

using InterruptionClock = std::chrono::steady_clock;
constexpr auto kBetweenQuestions = std::chrono::milliseconds(50);

}  // namespace

struct Interruptible::State {
  std::function<bool()> asked;
  std::thread::id owner = std::this_thread::get_id();
  InterruptionClock::time_point next = InterruptionClock::now() + kBetweenQuestions;  // of the owner alone
  std::atomic<bool> is_stopped = false;
};

namespace {

thread_local Interruptible::State* current_interruption = nullptr;

}  // namespace

Interruptible::Interruptible(std::function<bool()> asked)
    : state_(std::make_unique<State>()), before_(current_interruption) {
  state_->asked = std::move(asked);
  current_interruption = state_.get();
}

Interruptible::~Interruptible() { current_interruption = before_; }

Interruptible::State* interruption_of_this_thread() { return current_interruption; }

ShareInterruption::ShareInterruption(Interruptible::State* state)
    : before_(std::exchange(current_interruption, state)) {}

ShareInterruption::~ShareInterruption() { current_interruption = before_; }

bool is_interrupted(Interruptible::State* state) {
  if (!state->is_stopped && state->owner == std::this_thread::get_id()) {
    const auto now = InterruptionClock::now();
    if (now >= state->next) {
      state->next = now + kBetweenQuestions;
      if (state->asked()) state->is_stopped = true;
    }
  }
  return state->is_stopped;
}

void check_interruption() {
  Interruptible::State* const state = current_interruption;
  if (state != nullptr && is_interrupted(state)) throw Interrupted(SIGINT, "interrupted");
}

}  // namespace detent
