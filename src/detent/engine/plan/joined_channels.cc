#include "detent/engine/plan/plan_builder.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace detent {
namespace {

bool are_alike(const Place& a, const Place& b) {
  return a.is_values == b.is_values && (a.is_values || a.type == b.type);
}

class InPlaceJoiner {
 public:
  InPlaceJoiner(ProgramPlan& plan, const KernelSet& kernels, PlaceUsers users)
      : plan_(plan), kernels_(kernels), users_(std::move(users)) {}

  void join(std::vector<JoinedChannels> joins) {
    for (size_t i = 0; i < joins.size(); ++i) {
      JoinedChannels left = joins[i];
      for (size_t earlier = i; earlier-- > 0;) take_earlier(joins[earlier], left);
      std::erase_if(left.inputs, [&](const JoinedInput& input) { return make_slice(left, input); });
      set_step(left);
    }
    for (Place& place : plan_.places) {
      if (place.is_slice()) place.halo = plan_.places[*place.part_of].halo;
      place.measure();
    }
    erase_steps();
  }

 private:
  /// Inputs that `earlier` joined already, in its order, are its result.
  void take_earlier(const JoinedChannels& earlier, JoinedChannels& join) {
    const auto is_same = [](const JoinedInput& a, const JoinedInput& b) {
      return a.place == b.place && a.table.empty() && b.table.empty();
    };
    const auto found = std::search(join.inputs.begin(), join.inputs.end(), earlier.inputs.begin(),
                                   earlier.inputs.end(), is_same);
    if (found == join.inputs.end() || !are_alike(plan_.places[earlier.to], plan_.places[join.to])) return;
    const JoinedInput whole{.place = earlier.to, .begin = found->begin};
    const auto after = join.inputs.erase(found, found + std::ssize(earlier.inputs));
    join.inputs.insert(after, whole);
    note_user(earlier.to, join.step);
  }

  void note_user(size_t place, size_t step) {
    users_[place].push_back(step);
    Place& at = plan_.places[place];
    at.last_step = std::max(at.last_step, step);
    if (!at.part_of) return;
    Place& whole = plan_.places[*at.part_of];
    whole.last_step = std::max(whole.last_step, step);
  }

  /// Whether the input, converted by the steps that write it if need be, is a part of the result now.
  bool make_slice(const JoinedChannels& join, const JoinedInput& input) {
    Place& from = plan_.places[input.place];
    Place& to = plan_.places[join.to];
    if (from.part_of || from.is_shared || from.is_values != to.is_values) return false;
    if (to.is_shared && !from.halo.empty()) return false;
    std::set<size_t> users(users_[input.place].begin(), users_[input.place].end());
    users.erase(join.step);
    const bool converts = !input.table.empty();
    for (const size_t user : users) {
      const EngineStep& step = *plan_.steps[user];
      if (!step.takes_slice(input.place, from) || (converts && !step.takes_table(input.place))) return false;
    }
    if (!converts && !are_alike(from, to)) return false;
    if (converts) {
      for (const size_t user : users) plan_.steps[user]->add_table(input.table);
      from.type = to.type;
    }
    to.halo.cover(from.halo);
    to.first_step = std::min(to.first_step, from.first_step);
    to.last_step = std::max(to.last_step, from.last_step);
    const int64_t begin = input.begin * to.element_bytes();
    for (Place& part : plan_.places) {
      if (part.part_of == input.place) put(part, part.part_begin + begin, join.to);
    }
    put(from, begin, join.to);
    return true;
  }

  void put(Place& part, int64_t begin, size_t whole) {
    part.part_of = whole;
    part.part_begin = begin;
    part.slice_pitch = plan_.places[whole].channels();
  }

  void set_step(JoinedChannels& join) {
    std::unique_ptr<EngineStep>& step = plan_.steps[join.step];
    if (join.inputs.empty()) {
      erased_.insert(join.step);
      return;
    }
    auto copies = join_step(kernels_, std::move(join.inputs), 1, join.to);
    copies->nodes = step->nodes;
    copies->kernel = step->kernel;
    copies->why = step->why;
    copies->dropped_flows = step->dropped_flows;
    step = std::move(copies);
  }

  void erase_steps() {
    if (erased_.empty()) return;
    const auto moved = [&](size_t step) {
      return step - static_cast<size_t>(std::distance(erased_.begin(), erased_.lower_bound(step)));
    };
    for (Place& place : plan_.places) {
      place.first_step = moved(place.first_step);
      place.last_step = moved(place.last_step);
    }
    size_t index = 0;
    std::erase_if(plan_.steps, [&](const auto&) { return erased_.contains(index++); });
  }

  ProgramPlan& plan_;
  const KernelSet& kernels_;
  PlaceUsers users_;
  std::set<size_t> erased_;
};

}  // namespace

void join_in_place(ProgramPlan& plan, const KernelSet& kernels, PlaceUsers users,
                   std::vector<JoinedChannels> joins) {
  if (!joins.empty()) InPlaceJoiner(plan, kernels, std::move(users)).join(std::move(joins));
}

}  // namespace detent
