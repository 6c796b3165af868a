#include "detent/passes/post_training/static_quantize_options.h"

#include <algorithm>
#include <optional>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/graph/traits.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

struct AccumulatorEntry {
  std::string text;
  std::optional<NamePattern> pattern;  // none: all layers
  Accumulator accumulator;
};

std::vector<AccumulatorEntry> entries_of(const AccumulatorChoice& choice, const std::string& where) {
  std::vector<AccumulatorEntry> entries;
  for (const std::string& text : choice) {
    const std::string of_entry = fmt::format("{}: key \"{}\"", where, kAccumulatorAttribute);
    const size_t equals = text.rfind('=');
    AccumulatorEntry entry{.text = text, .pattern = {}, .accumulator = {}};
    if (equals != std::string::npos) entry.pattern.emplace(text.substr(0, equals), of_entry);
    try {
      entry.accumulator = Accumulator::parse(equals == std::string::npos ? text : text.substr(equals + 1));
    } catch (const Error& error) {
      fail("{}: {}", of_entry, error.what());
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

const AccumulatorEntry* entry_for(const std::vector<AccumulatorEntry>& entries, const Node& node) {
  const auto found = std::ranges::find_if(entries, [&](const AccumulatorEntry& entry) {
    return !entry.pattern || entry.pattern->matches(node.name);
  });
  return found == entries.end() ? nullptr : &*found;
}

bool adds_codes(const Node& node, const Graph& graph) {
  if (!graph.requantization()) return false;
  const std::optional<NodeForm> form = node_form(node, *graph.requantization());
  return form && std::holds_alternative<SumForm>(*form);
}

}  // namespace

void check_accumulators(const AccumulatorChoice& choice, const std::string& where) {
  static_cast<void>(entries_of(choice, where));
}

void check_accumulators(const AccumulatorChoice& choice, const Graph& graph, const std::string& where) {
  std::vector<std::string> layers;
  for (const Node& node : graph.nodes()) {
    if (is_weighted_sum(node)) layers.push_back(node.name);
  }
  for (const AccumulatorEntry& entry : entries_of(choice, where)) {
    if (!entry.pattern) continue;
    const auto matches = [&](const std::string& name) { return entry.pattern->matches(name); };
    if (std::ranges::any_of(layers, matches)) continue;
    fail("{}: key \"{}\": {}", where, kAccumulatorAttribute, unmatched_pattern_message(entry.text, layers));
  }
}

std::string set_accumulators(Graph& graph, const AccumulatorChoice& choice, const std::string& where) {
  check_accumulators(choice, graph, where);
  const std::vector<AccumulatorEntry> entries = entries_of(choice, where);
  std::vector<std::string> left;
  for (Node& node : graph.nodes()) {
    const AccumulatorEntry* entry = is_weighted_sum(node) ? entry_for(entries, node) : nullptr;
    if (entry == nullptr) continue;
    if (entry->accumulator.is_float() || adds_codes(node, graph)) {
      set_accumulator(node, entry->accumulator);
      continue;
    }
    if (entry->pattern) {
      fail(
          "{}: key \"{}\": \"{}\": node \"{}\" ({}) adds no products of codes up: expected an accumulator of "
          "floats (fp16, bf16, fp22, ...)",
          where, kAccumulatorAttribute, entry->text, node.name, node.op);
    }
    left.push_back(node.name);
  }
  if (left.empty()) return "";
  return fmt::format("accumulators of integers: not of layers that add no products of codes up: {}\n",
                     listed_names(left));
}

}  // namespace detent
