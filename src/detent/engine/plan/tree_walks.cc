#include "detent/engine/plan/tree_walks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "detent/engine/fusion.h"
#include "detent/engine/step.h"
#include "detent/inference/flow.h"

namespace detent {

namespace {

/// The place after that one.
template <class Holds>
int32_t place_after(const WalkedTrees& trees, const float* row, int32_t at, const Holds& holds) {
  const WalkedTrees::Place& place = trees.places[static_cast<size_t>(at)];
  const float x = row[place.feature];
  bool is_next = holds(x, place.threshold);
  if (!trees.missing.empty()) is_next |= trees.missing[static_cast<size_t>(at)] != 0 && std::isnan(x);
  return place.next[is_next ? 1 : 0];
}

/// The place of one row in each tree after all steps. Several trees at once, for each step waits for the one
/// before.
template <class Holds>
void walk_row(const WalkedTrees& trees, const float* row, int64_t* leaves, const Holds& holds) {
  constexpr size_t kAtOnce = 8;
  const size_t count = trees.roots.size();
  std::array<int32_t, kAtOnce> at = {};
  for (size_t first = 0; first < count; first += kAtOnce) {
    const size_t size = std::min(kAtOnce, count - first);
    std::copy_n(trees.roots.begin() + static_cast<int64_t>(first), size, at.begin());
    bool moves = true;
    for (int64_t step = 0; moves && step < trees.depth; ++step) {
      moves = false;  // a place that stays once stays for good
      for (size_t i = 0; i < size; ++i) {
        const int32_t next = place_after(trees, row, at[i], holds);
        moves |= next != at[i];
        at[i] = next;
      }
    }
    std::copy_n(at.begin(), size, leaves + first);
  }
}

void walk_row(const WalkedTrees& trees, const float* row, int64_t* leaves) {
  switch (trees.test) {
    case TreeTest::kBelow:
      return walk_row(trees, row, leaves, std::less<>());
    case TreeTest::kNotAbove:
      return walk_row(trees, row, leaves, std::less_equal<>());
    case TreeTest::kAbove:
      return walk_row(trees, row, leaves, std::greater<>());
    case TreeTest::kNotBelow:
      return walk_row(trees, row, leaves, std::greater_equal<>());
    case TreeTest::kEqual:
      return walk_row(trees, row, leaves, std::equal_to<>());
  }
}

class TreeWalkStep final : public EngineStep {
 public:
  TreeWalkStep(std::shared_ptr<const WalkedTrees> trees, size_t from, size_t to)
      : trees_(std::move(trees)), from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Tensor rows = as_values(state.flows[from_]);
    const auto trees = static_cast<int64_t>(trees_->roots.size());
    Tensor leaves = unfilled_tensor(DType::kInt64, {rows.dim(0), trees});
    const float* const from = rows.values<float>().data();
    int64_t* const to = leaves.values<int64_t>().data();
    constexpr int64_t kGrain = 8192;  // comparisons
    parallel_for(rows.dim(0), std::max<int64_t>(1, kGrain / std::max<int64_t>(1, trees * trees_->depth)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t row = begin; row < end; ++row)
                     walk_row(*trees_, from + row * trees_->features, to + row * trees);
                 });
    state.flows[to_] = {std::move(leaves)};
  }

 private:
  std::shared_ptr<const WalkedTrees> trees_;
  size_t from_;
  size_t to_;
};

/// Operators that a walk is made of, beside comparisons.
enum class WalkPart { kNone, kTable, kColumns, kChoice, kEither, kBoth, kIsNan };

WalkPart walk_part(std::string_view op) {
  static const std::map<std::string_view, WalkPart> parts = {
      {"gather", WalkPart::kTable},     {"gather_elements", WalkPart::kColumns},
      {"where", WalkPart::kChoice},     {"logical_or", WalkPart::kEither},
      {"logical_and", WalkPart::kBoth}, {"isnan", WalkPart::kIsNan}};
  const auto found = parts.find(op);
  return found == parts.end() ? WalkPart::kNone : found->second;
}

std::optional<TreeTest> tree_test(std::string_view op) {
  constexpr std::array<std::pair<std::string_view, TreeTest>, 5> kTests = {{{"lt", TreeTest::kBelow},
                                                                            {"le", TreeTest::kNotAbove},
                                                                            {"gt", TreeTest::kAbove},
                                                                            {"ge", TreeTest::kNotBelow},
                                                                            {"eq", TreeTest::kEqual}}};
  const auto found = std::ranges::find(kTests, op, &std::pair<std::string_view, TreeTest>::first);
  return found == kTests.end() ? std::nullopt : std::optional(found->second);
}

/// Whether a tensor lists integers from 0 to below `end`.
bool are_places(const Tensor& list, int64_t end) {
  if (list.dtype() != DType::kInt64 || list.rank() != 1) return false;
  return std::ranges::all_of(list.values<int64_t>(), [&](int64_t at) { return at >= 0 && at < end; });
}

/// One level of all trees: the steps that lead from places to the next ones, and the tables that they read.
struct TreeLevel {
  std::vector<size_t> steps;  // the last one gives the next places
  std::string rows;
  TreeTest test = {};
  std::array<const Tensor*, 4> tables = {};  // features, thresholds, and the places where these hold or not
  const Tensor* missing = nullptr;
};

class WalkFinder {
 public:
  WalkFinder(std::span<const ReferenceStep> steps, const ValueTypes& values, const ShownValues& shown)
      : steps_(steps), values_(values), shown_(shown), readers_(readers_of(steps)) {
    for (size_t i = 0; i < steps.size(); ++i) index_.emplace(steps[i].node->name, i);
  }

  /// A walk whose first level ends with the step.
  std::optional<TreeWalk> walk_from(size_t first) const {
    const Node& node = *steps_[first].node;
    const Node* const given =
        walk_part(node.op) == WalkPart::kChoice ? giver(node.inputs[1], WalkPart::kTable) : nullptr;
    const Tensor* const roots = given == nullptr ? nullptr : constant(given->inputs[1]);
    std::optional<TreeLevel> level;
    if (roots != nullptr) level = level_of(first, given->inputs[1], WalkPart::kTable);
    if (!level) return std::nullopt;
    auto trees = trees_of(*level, *roots);
    if (trees == nullptr) return std::nullopt;
    TreeWalk walk{level->steps, level->rows, nullptr};
    for (trees->depth = 1;; ++trees->depth) {
      const std::optional<TreeLevel> next = level_after(walk.steps.back());
      if (!next || next->rows != walk.rows || next->test != level->test || next->tables != level->tables ||
          next->missing != level->missing)
        break;
      walk.steps.insert(walk.steps.end(), next->steps.begin(), next->steps.end());
    }
    walk.trees = std::move(trees);
    return walk;
  }

 private:
  /// The node of that operator that gives an input; nullptr where that is another.
  const Node* giver(const NodeInput& input, WalkPart part) const {
    const Node* const node = giver(input);
    return node != nullptr && walk_part(node->op) == part ? node : nullptr;
  }
  const Node* giver(const NodeInput& input) const {
    const auto found = input.is_constant() ? index_.end() : index_.find(input.node);
    return found == index_.end() ? nullptr : steps_[found->second].node;
  }

  const Tensor* constant(const NodeInput& input) const {
    const auto found = input.is_constant() ? index_.end() : index_.find(input.node);
    if (found == index_.end() || steps_[found->second].role != OperatorRole::kConstant) return nullptr;
    const Parameter* const value = steps_[found->second].node->find_parameter("value");
    return value == nullptr || !steps_[found->second].node->quantization.empty() ? nullptr : &value->tensor;
  }

  /// The input that a gather along that dimension takes by `places`; nullptr of another node.
  const NodeInput* gathered(const Node* node, const NodeInput& places, int64_t dim) const {
    if (node == nullptr || !(node->inputs[1] == places)) return nullptr;
    const Value* const along = node->attributes.find("dim");
    const auto* const given = along == nullptr ? nullptr : along->get_if<int64_t>();
    return given != nullptr && *given == dim ? &node->inputs[0] : nullptr;
  }

  /// The table of which `input` has the places; notes the step.
  const Tensor* table_of(const NodeInput& input, const NodeInput& places, TreeLevel& level) const {
    const Node* const node = giver(input, WalkPart::kTable);
    const NodeInput* const table = gathered(node, places, 0);
    if (table == nullptr) return nullptr;
    level.steps.push_back(index_.find(node->name)->second);
    return constant(*table);
  }

  /// The level that ends with a `where`, from `places` on, of which `of_rows` gathers what is compared.
  std::optional<TreeLevel> level_of(size_t last, const NodeInput& places, WalkPart of_rows) const {
    TreeLevel level;
    const Node& node = *steps_[last].node;
    const Node* const either = giver(node.inputs[0], WalkPart::kEither);
    const Node* const compared = giver(either == nullptr ? node.inputs[0] : either->inputs[0]);
    if (either != nullptr) level.steps.push_back(index_.find(either->name)->second);
    const auto test = compared == nullptr ? std::nullopt : tree_test(compared->op);
    if (!test) return std::nullopt;
    level.test = *test;
    const Node* const columns = giver(compared->inputs[0], of_rows);
    if (columns == nullptr) return std::nullopt;
    level.steps.push_back(index_.find(compared->name)->second);
    level.steps.push_back(index_.find(columns->name)->second);
    const NodeInput* const rows = gathered(columns, columns->inputs[1], 1);
    if (rows == nullptr || rows->is_constant()) return std::nullopt;
    level.rows = value_name(*rows);
    level.tables = {table_of(columns->inputs[1], places, level), table_of(compared->inputs[1], places, level),
                    table_of(node.inputs[1], places, level), table_of(node.inputs[2], places, level)};
    if (std::ranges::count(level.tables, nullptr) > 0) return std::nullopt;
    if (either != nullptr && !note_missing(either->inputs[1], compared->inputs[0], places, level))
      return std::nullopt;
    level.steps.push_back(last);
    return is_closed(level, places) ? std::optional(level) : std::nullopt;
  }

  /// Whether `input` says where `columns` is NaN and a table says 1.
  bool note_missing(const NodeInput& input, const NodeInput& columns, const NodeInput& places,
                    TreeLevel& level) const {
    const Node* const both = giver(input, WalkPart::kBoth);
    const Node* const is_nan = both == nullptr ? nullptr : giver(both->inputs[0], WalkPart::kIsNan);
    const Node* const marks = both == nullptr ? nullptr : giver(both->inputs[1]);
    if (is_nan == nullptr || marks == nullptr || !(is_nan->inputs[0] == columns) ||
        tree_test(marks->op) != TreeTest::kEqual)
      return false;
    const auto* const one = marks->inputs[1].constant.get_if<int64_t>();
    if (!marks->inputs[1].is_constant() || one == nullptr || *one != 1) return false;
    for (const Node* const node : {both, is_nan, marks})
      level.steps.push_back(index_.find(node->name)->second);
    level.missing = table_of(marks->inputs[0], places, level);
    return level.missing != nullptr;
  }

  /// Whether nothing else reads the places or what the steps give, but for the last.
  bool is_closed(const TreeLevel& level, const NodeInput& places) const {
    const auto is_own = [&](size_t step) { return std::ranges::count(level.steps, step) > 0; };
    const auto is_read_here = [&](const std::string& value) {
      const auto found = readers_.find(value);
      return found != readers_.end() && std::ranges::all_of(found->second, is_own) && !shown_.needs(value);
    };
    const bool starts = constant(places) != nullptr;
    if (!starts && !is_read_here(value_name(places))) return false;
    return std::ranges::all_of(level.steps, [&](size_t step) {
      const ReferenceStep& of = steps_[step];
      const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
      const bool has_no_codes = of.role == OperatorRole::kComputes && of.rounds == nullptr && !of.form &&
                                std::ranges::none_of(of.inputs, is_set) &&
                                std::ranges::none_of(of.outputs, is_set);
      return has_no_codes && (step == level.steps.back() || is_read_here(value_name(of.node->name)));
    });
  }

  std::optional<TreeLevel> level_after(size_t step) const {
    const NodeInput places = NodeInput::of(steps_[step].node->name);
    const auto readers = readers_.find(value_name(places));
    if (readers == readers_.end()) return std::nullopt;
    for (const size_t reader : readers->second) {
      const auto next = readers_.find(value_name(steps_[reader].node->name));
      if (next == readers_.end() || next->second.size() != 1) continue;
      const Node& node = *steps_[next->second.front()].node;
      if (walk_part(node.op) == WalkPart::kChoice)
        return level_of(next->second.front(), places, WalkPart::kColumns);
    }
    return std::nullopt;
  }

  /// nullptr where tables do not fit each other, or lead anywhere else.
  std::shared_ptr<WalkedTrees> trees_of(const TreeLevel& level, const Tensor& roots) const {
    const Operand& rows = values_.at(level.rows);
    const auto& [features, thresholds, if_holds, if_not] = level.tables;
    const int64_t count = thresholds->numel();
    if (!rows.is_tensor() || rows.dtype != DType::kFloat32 || rows.shape.size() != 2 ||
        count > std::numeric_limits<int32_t>::max() || thresholds->dtype() != DType::kFloat32 ||
        thresholds->rank() != 1 || !are_places(*features, rows.shape[1]) || !are_places(roots, count))
      return nullptr;
    for (const Tensor* table : {if_holds, if_not})
      if (!are_places(*table, count) || table->numel() != count) return nullptr;
    const bool has_marks = level.missing != nullptr;
    if (features->numel() != count || (has_marks && (level.missing->dtype() != DType::kInt64 ||
                                                     level.missing->shape() != thresholds->shape())))
      return nullptr;
    auto trees = std::make_shared<WalkedTrees>();
    trees->test = level.test;
    trees->features = rows.shape[1];
    for (const int64_t root : roots.values<int64_t>()) trees->roots.push_back(static_cast<int32_t>(root));
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      trees->places.push_back({thresholds->values<float>()[i],
                               static_cast<int32_t>(features->values<int64_t>()[i]),
                               {static_cast<int32_t>(if_not->values<int64_t>()[i]),
                                static_cast<int32_t>(if_holds->values<int64_t>()[i])}});
      if (has_marks) trees->missing.push_back(level.missing->values<int64_t>()[i] == 1 ? 1 : 0);
    }
    return trees;
  }

  std::span<const ReferenceStep> steps_;
  const ValueTypes& values_;
  const ShownValues& shown_;
  ValueReaders readers_;
  std::map<std::string, size_t, std::less<>> index_;
};

}  // namespace

std::map<size_t, TreeWalk> tree_walks(std::span<const ReferenceStep> steps, const ValueTypes& values,
                                      const ShownValues& shown) {
  std::map<size_t, TreeWalk> walks;
  const auto chooses = [](const ReferenceStep& step) {
    return walk_part(step.node->op) == WalkPart::kChoice;
  };
  if (std::ranges::none_of(steps, chooses)) return walks;
  const WalkFinder finder(steps, values, shown);
  for (size_t i = 0; i < steps.size(); ++i) {
    std::optional<TreeWalk> walk = finder.walk_from(i);
    if (walk) walks.emplace(walk->steps.back(), std::move(*walk));
  }
  return walks;
}

void plan_tree_walk(PlanBuilder& plan, std::span<const ReferenceStep> steps, const TreeWalk& walk) {
  const std::string last = steps[walk.steps.back()].node->name;
  const size_t from = plan.flow_of(walk.rows);
  plan.note_flow(from);
  PlannedValue value = plan.new_value(value_name(last));
  value.flow = plan.new_flow();
  value.flow_is_ready = true;
  plan.note_flow(value.flow);
  const size_t to = value.flow;
  plan.add_value(value_name(last), std::move(value));
  plan.add(std::make_unique<TreeWalkStep>(walk.trees, from, to),
           steps[walk.steps.front()].node->name + " to " + last, "tree walk");
}

}  // namespace detent
