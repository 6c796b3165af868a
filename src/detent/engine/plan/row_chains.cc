#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "detent/engine/plan/plan_builder.h"

namespace detent {
namespace {

/// Steps from products of matrices to products of what became of their results, each reading what the one
/// before it wrote, and nothing else doing so.
struct RowChain {
  std::vector<size_t> steps;
  std::vector<size_t> between;  // places
};

class RowChainer {
 public:
  RowChainer(ProgramPlan& plan, PlaceUsers& users, std::vector<JoinedChannels>& joins)
      : plan_(plan), users_(users), joins_(joins) {}

  void chain() {
    for (const Place& place : plan_.places) {
      if (place.part_of) wholes_.insert(*place.part_of);
    }
    drop_unread();
    for (size_t step = 0; step < plan_.steps.size(); ++step) {
      if (plan_.steps[step] == nullptr || !plan_.steps[step]->multiplies_rows()) continue;
      const RowChain found = chain_from(step);
      if (!found.steps.empty()) join(found);
    }
    erase_steps();
  }

 private:
  /// Drops functions of single elements whose results nothing reads.
  void drop_unread() {
    for (size_t step = plan_.steps.size(); step-- > 0;) {
      const auto source = plan_.steps[step]->element_source();
      const auto result = plan_.steps[step]->row_results();
      if (!source || !result || !plan_.steps[step]->dropped_flows.empty()) continue;
      Place& place = plan_.places[*result];
      if (users_[*result].size() != 1 || place.part_of || place.is_shared || wholes_.contains(*result))
        continue;
      place.is_within_step = true;
      std::erase(users_[*source], step);
      plan_.steps[step] = nullptr;
      moved_.emplace(step, step + 1);
    }
  }

  /// The step that alone reads a place, whose rows lie adjacent.
  std::optional<size_t> only_reader(size_t index) const {
    const Place& place = plan_.places[index];
    const bool is_plain = place.layout == Layout::kRows && place.shape.size() > 1 && place.halo.empty() &&
                          !place.part_of && !place.is_shared && !wholes_.contains(index);
    if (!is_plain || users_[index].size() != 2) return std::nullopt;
    return users_[index][1];
  }

  RowChain chain_from(size_t first) const {
    RowChain chain{{first}, {}};
    while (true) {
      const size_t result = *plan_.steps[chain.steps.back()]->row_results();
      const Shape& shape = plan_.places[result].shape;
      if (!chain.between.empty() && shape != plan_.places[chain.between.front()].shape) return {};
      const std::optional<size_t> reader = only_reader(result);
      if (!reader || !plan_.steps[*reader]->maps_rows_of(result, plan_.places)) return {};
      chain.steps.push_back(*reader);
      chain.between.push_back(result);
      if (plan_.steps[*reader]->multiplies_rows()) return is_worth(chain) ? chain : RowChain();
    }
  }

  /// Whether what lies between the steps is more than stays near anyway.
  bool is_worth(const RowChain& chain) const {
    constexpr int64_t kNear = 256 << 10;
    int64_t bytes = 0;
    for (const size_t place : chain.between) bytes += plan_.places[place].bytes();
    return bytes > kNear;
  }

  /// Puts a step in the place of the last of the chain.
  void join(const RowChain& chain) {
    const size_t last = chain.steps.back();
    std::vector<std::unique_ptr<EngineStep>> steps;
    for (const size_t step : chain.steps) steps.push_back(std::move(plan_.steps[step]));
    std::string nodes;
    std::vector<size_t> dropped;
    double products = 0;
    for (const auto& step : steps) {
      if (!nodes.ends_with(step->nodes)) nodes += (nodes.empty() ? "" : ", ") + step->nodes;
      dropped.insert(dropped.end(), step->dropped_flows.begin(), step->dropped_flows.end());
      products += step->products;
    }
    const bool multiplies_floats = steps.front()->multiplies_floats;
    const std::string kernel = "tiled " + steps.front()->kernel;
    auto joined = row_chain_step(std::move(steps), chain.between);
    joined->nodes = std::move(nodes);
    joined->kernel = kernel;
    joined->products = products;
    joined->multiplies_floats = multiplies_floats;
    joined->dropped_flows = std::move(dropped);
    plan_.steps[last] = std::move(joined);
    for (const size_t place : chain.between) plan_.places[place].is_within_step = true;
    for (const size_t step : chain.steps) {
      if (step != last) moved_.emplace(step, last);
    }
  }

  void erase_steps() {
    if (moved_.empty()) return;
    std::vector<size_t> now(plan_.steps.size() + 1);
    size_t count = 0;
    for (size_t step = 0; step <= plan_.steps.size(); ++step) {
      now[step] = count;
      if (!moved_.contains(step)) ++count;
    }
    const auto number = [&](size_t step) {
      const auto found = moved_.find(step);
      return now[found == moved_.end() ? step : found->second];
    };
    for (size_t i = 0; i < plan_.places.size(); ++i) {
      Place& place = plan_.places[i];
      // Read by a step of a chain: until the chain has run.
      for (size_t& user : users_[i]) user = number(user);
      place.first_step = now[place.first_step];
      place.last_step = number(place.last_step);
      for (const size_t user : users_[i]) place.last_step = std::max(place.last_step, user);
    }
    for (const Place& place : plan_.places) {
      if (place.part_of)
        plan_.places[*place.part_of].last_step =
            std::max(plan_.places[*place.part_of].last_step, place.last_step);
    }
    for (JoinedChannels& join : joins_) join.step = now[join.step];
    std::erase(plan_.steps, nullptr);
  }

  ProgramPlan& plan_;
  PlaceUsers& users_;
  std::vector<JoinedChannels>& joins_;
  std::set<size_t> wholes_;
  std::map<size_t, size_t> moved_;  // steps of chains, to where these are
};

}  // namespace

void chain_rows(ProgramPlan& plan, PlaceUsers& users, std::vector<JoinedChannels>& joins) {
  RowChainer(plan, users, joins).chain();
}

}  // namespace detent
