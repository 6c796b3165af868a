#include "detent/search/sensitivities.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Weighted sums whose results reach the value without another between, additions crossed.
void collect_writers(const Graph& graph, const std::string& value, std::set<size_t>& writers,
                     std::set<std::string>& seen) {
  if (!seen.insert(value).second) return;
  const Node& node = graph.node(value);
  if (is_weighted_sum(node)) {
    writers.insert(graph.position(value));
    return;
  }
  for (const NodeInput& input : node.inputs) {
    if (!input.is_constant()) collect_writers(graph, input.node, writers, seen);
  }
}

bool adds_two_values(const Node& node) {
  const auto* pair = trait<PairOperation>(node);
  if (pair == nullptr || *pair != PairOperation::kAdd) return false;
  return std::ranges::count_if(node.inputs, [](const NodeInput& i) { return !i.is_constant(); }) == 2;
}

/// The format in the middle stands for all: noise of the smallest ones is too large to add up.
int middle_format(const Choice& choice) { return static_cast<int>(choice.formats.size() - 1) / 2; }

bool is_float(const Choice& choice, size_t format) { return !choice.formats[format].spec.has_value(); }

}  // namespace

std::vector<std::vector<size_t>> residual_chains(const Graph& network, const SearchSpace& space) {
  std::map<size_t, size_t> weight_choice;  // by position of the node
  for (size_t c = 0; c < space.choices.size(); ++c) {
    if (space.choices[c].operand == kWeightOperand) weight_choice[space.choices[c].node] = c;
  }
  // Writers to the same stream are joined: each set is named by its first.
  std::map<size_t, size_t> parent;
  const auto root = [&](size_t position) {
    while (parent.at(position) != position) position = parent.at(position);
    return position;
  };
  for (const Node& node : network.nodes()) {
    if (!adds_two_values(node)) continue;
    std::set<size_t> writers;
    std::set<std::string> seen;
    for (const NodeInput& input : node.inputs) collect_writers(network, input.node, writers, seen);
    for (const size_t writer : writers) parent.try_emplace(writer, writer);
    for (const size_t writer : writers) parent[root(writer)] = root(*writers.begin());
  }
  std::map<size_t, std::vector<size_t>> streams;
  for (const auto& [position, first] : parent) {
    const auto choice = weight_choice.find(position);
    if (choice != weight_choice.end()) streams[root(position)].push_back(choice->second);
  }
  std::vector<std::vector<size_t>> chains;
  for (auto& [first, choices] : streams) {
    if (choices.size() > 1) chains.push_back(std::move(choices));
  }
  return chains;
}

Sensitivities measure_sensitivities(Study& study, int64_t samples) {
  const std::vector<Choice>& choices = study.space().choices;
  const CandidateNetworks& networks = study.networks();
  std::vector<std::vector<std::pair<size_t, int>>> quantized;
  for (size_t c = 0; c < choices.size(); ++c) {
    for (size_t f = 0; f < choices[c].formats.size(); ++f) {
      if (!is_float(choices[c], f)) quantized.push_back({{c, static_cast<int>(f)}});
    }
  }
  const size_t singles = quantized.size();
  for (const std::vector<size_t>& chain : residual_chains(networks.network(), study.space())) {
    for (size_t i = 0; i + 1 < chain.size(); ++i) {
      quantized.push_back({{chain[i], middle_format(choices[chain[i]])},
                           {chain[i + 1], middle_format(choices[chain[i + 1]])}});
    }
  }
  constexpr double kShare = 1.0 / 3;
  const std::string key = "alone";
  samples = study.affordable_samples(key, samples, quantized.size(), kShare);
  const auto variants = [&] {
    std::vector<Variant> made;
    for (const auto& some : quantized) made.push_back(networks.only(some));
    return made;
  };
  const std::vector<double> measured =
      study.measure_variants(key, networks.network(), variants, quantized.size(), samples);
  if (measured.empty()) return {};
  Sensitivities found{.samples = std::min(samples, study.samples()), .losses = {}, .pairs = {}};
  for (const Choice& choice : choices) found.losses.emplace_back(choice.formats.size());
  for (size_t i = 0; i < singles; ++i) {
    const auto [c, f] = quantized[i].front();
    found.losses[c][static_cast<size_t>(f)] = measured[i + 1];
  }
  for (size_t i = singles; i < quantized.size(); ++i) {
    const auto [a, format_a] = quantized[i][0];
    const auto [b, format_b] = quantized[i][1];
    const double alone_a = found.losses[a][static_cast<size_t>(format_a)];
    const double alone_b = found.losses[b][static_cast<size_t>(format_b)];
    const double scale = 2 * std::sqrt(alone_a * alone_b);
    const double common = scale == 0 ? 0 : (measured[i + 1] - alone_a - alone_b) / scale;
    found.pairs.push_back({a, b, std::clamp(common, -1.0, 1.0)});
  }
  return found;
}

PredictedFront::PredictedFront(const Study& study, const Sensitivities& sensitivities)
    : kind_(study.objective().cost()),
      model_(study.model()),
      choice_count_(study.space().choices.size()),
      front_(make_items(study, sensitivities)) {}

std::vector<KnapsackItem> PredictedFront::make_items(const Study& study, const Sensitivities& sensitivities) {
  const std::vector<Choice>& choices = study.space().choices;
  // Nodes whose weights are in one chain follow each other, so that each has a loss with the one before.
  std::map<size_t, PairCorrelation> with_previous;  // by the second choice
  std::vector<size_t> order;                        // first choices of the nodes
  std::set<size_t> taken;
  const auto take = [&](size_t choice) {
    const bool second = choice > 0 && choices[choice - 1].node == choices[choice].node;
    if (taken.insert(second ? choice - 1 : choice).second) order.push_back(second ? choice - 1 : choice);
  };
  for (const PairCorrelation& pair : sensitivities.pairs) {
    take(pair.first);
    take(pair.second);
    with_previous.emplace(pair.second, pair);
  }
  for (size_t c = 0; c < choices.size(); ++c) take(c);

  std::vector<KnapsackItem> items;
  for (const size_t c : order) {
    Item item{{c}, {}};
    if (c + 1 < choices.size() && choices[c + 1].node == choices[c].node) item.choices.push_back(c + 1);
    KnapsackItem options;
    for (size_t f = 0; f < choices[c].formats.size(); ++f) {
      const size_t seconds = item.choices.size() == 1 ? 1 : choices[c + 1].formats.size();
      for (size_t s = 0; s < seconds; ++s) {
        std::vector<int> formats = {static_cast<int>(f)};
        double loss = sensitivities.losses[c][f];
        if (item.choices.size() == 2) {
          formats.push_back(static_cast<int>(s));
          loss += sensitivities.losses[c + 1][s];
        }
        options.options.push_back({model_.node_cost(kind_, item.choices, formats), loss});
        item.formats.push_back(std::move(formats));
      }
    }
    const auto pair = with_previous.find(c);
    const bool follows =
        pair != with_previous.end() && !items_.empty() && items_.back().choices.front() == pair->second.first;
    if (follows) {
      for (const std::vector<int>& before : items_.back().formats) {
        for (const std::vector<int>& mine : item.formats) {
          const double a = sensitivities.losses[pair->second.first][static_cast<size_t>(before[0])];
          const double b = sensitivities.losses[c][static_cast<size_t>(mine[0])];
          options.with_previous.push_back(2 * pair->second.correlation *
                                          std::sqrt(std::max(a, 0.0) * std::max(b, 0.0)));
        }
      }
    }
    items_.push_back(std::move(item));
    items.push_back(std::move(options));
  }
  return items;
}

Assignment PredictedFront::assignment(size_t i) const {
  const std::vector<int> taken = front_.taken(i);
  Assignment assignment(choice_count_);
  for (size_t k = 0; k < items_.size(); ++k) {
    const std::vector<int>& formats = items_[k].formats[static_cast<size_t>(taken[k])];
    for (size_t j = 0; j < formats.size(); ++j) assignment[items_[k].choices[j]] = formats[j];
  }
  return assignment;
}

size_t PredictedFront::within(const Assignment& assignment) const {
  int64_t cost = 0;
  for (const Item& item : items_) {
    std::vector<int> formats;
    for (const size_t choice : item.choices) formats.push_back(assignment[choice]);
    cost += model_.node_cost(kind_, item.choices, formats);
  }
  return front_.within(cost).value_or(0);
}

size_t PredictedFront::below(const Study& study, double cost) const {
  size_t low = 0;
  for (size_t high = size() - 1; low < high;) {
    const size_t middle = (low + high + 1) / 2;
    if (study.cost(assignment(middle)) <= cost) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

std::vector<size_t> PredictedFront::spread_places(size_t count) const {
  std::vector<CostAndLoss> points;
  for (size_t i = 0; i < size(); ++i) points.push_back({static_cast<double>(cost(i)), loss(i)});
  return spread(points, count);
}

}  // namespace detent
