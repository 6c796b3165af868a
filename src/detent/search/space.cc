#include "detent/search/space.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/passes/transform/quantize_config.h"

namespace detent {
namespace {

constexpr int64_t kFloatBits = 32;
constexpr size_t kMostFormats = 64;

/// Which entries of `choices` match a node.
class ChoiceMatcher {
 public:
  ChoiceMatcher(const FormatChoices& choices, std::string where)
      : choices_(choices), where_(std::move(where)), matched_(choices.entries.size()) {
    for (const FormatChoice& entry : choices.entries) patterns_.emplace_back(entry.pattern, where_);
  }

  const std::vector<std::string>* find(const Node& node, std::string_view operand) {
    const std::vector<std::string>* first = nullptr;
    for (size_t i = 0; i < patterns_.size(); ++i) {
      const FormatChoice& entry = choices_.entries[i];
      if (entry.operand != operand || !(entry.pattern == node.op || patterns_[i].matches(node.name)))
        continue;
      matched_[i] = true;
      if (first == nullptr) first = &entry.formats;
    }
    return first;
  }

  void check_all_matched(const Graph& graph) const {
    for (size_t i = 0; i < patterns_.size(); ++i) {
      if (matched_[i]) continue;
      const FormatChoice& entry = choices_.entries[i];
      const auto matches = [&](const Node& node) {
        return entry.pattern == node.op || patterns_[i].matches(node.name);
      };
      if (std::ranges::any_of(graph.nodes(), matches)) {
        fail("{}: \"{}\" matches only nodes without a choice of {}: {}", where_, entry.pattern, entry.operand,
             entry.operand == kWeightOperand ? "they have no weights, or compute in float"
                                             : "they move or compare values, or compute in float");
      }
      fail("{}: {}", where_, unmatched_pattern_message(entry.pattern, graph.node_names()));
    }
  }

 private:
  const FormatChoices& choices_;
  std::string where_;
  std::vector<NamePattern> patterns_;
  std::vector<bool> matched_;
};

int64_t stored_bits(const std::optional<QuantSpec>& spec, const Shape& shape) {
  return spec ? storage_bits(*spec, shape) : kFloatBits * element_count(shape);
}

class SpaceBuilder {
 public:
  SpaceBuilder(const Graph& graph, const SearchOptions& options, const std::string& where)
      : graph_(graph),
        options_(options),
        where_(where),
        matcher_(options.choices, where + ": key \"choices\""),
        values_(infer_shapes(graph)) {}

  /// `reader`: the node that multiplies with it, whose name or operator patterns give.
  Choice weight(size_t position, size_t reader) {
    const Node& node = graph_.nodes()[position];
    const auto* named = matcher_.find(graph_.nodes()[reader], kWeightOperand);
    Choice choice{position, node.name, kWeightOperand, {}};
    const Shape& shape = node.find_parameter(weight_parameter(node))->tensor.shape();
    for (const std::string& text : named != nullptr ? *named : options_.weights) {
      const std::string place = fmt::format("{}: weight of \"{}\": format \"{}\"", where_, node.name, text);
      std::optional<QuantSpec> spec;
      if (text != kFloatFormat) spec = weight_spec(node, text, place);
      add(choice, text, spec, shape, place);
    }
    return finished(std::move(choice));
  }

  Choice inputs(size_t position, const std::string& value) {
    const Node& node = graph_.nodes()[position];
    const auto* named = matcher_.find(node, kInputOperand);
    const auto& usual = is_weighted_sum(node) ? options_.activations : options_.elementwise;
    Choice choice{position, node.name, kInputOperand, {}};
    for (const std::string& text : named != nullptr ? *named : usual) {
      const std::string place = fmt::format("{}: input of \"{}\": format \"{}\"", where_, node.name, text);
      std::optional<QuantSpec> spec;
      if (text != kFloatFormat) spec = input_spec(node, text, place);
      add(choice, text, spec, values_.at(value).shape, place);
    }
    return finished(std::move(choice));
  }

  void check_all_used() const { matcher_.check_all_matched(graph_); }

 private:
  QuantSpec weight_spec(const Node& node, const std::string& text, const std::string& place) const {
    QuantSpec spec = parse_format_text(text, place);
    const std::optional<IntegerCodes> integers = integer_codes(spec.format);
    if (integers && !integers->is_symmetric)
      fail("{}: weights are symmetric: int{} is meant for them", place, integers->width);
    if (spec.scale_rule == ScaleRule::kLearned)
      fail("{}: a learned scale needs training (`detent train --quantize`)", place);
    const bool gets_channels = spec.granularity == Granularity::kTensor && !block_size(spec.format) &&
                               options_.weight_granularity == Granularity::kChannel &&
                               may_have_channels(spec.format);
    const Tensor& weight = node.find_parameter(weight_parameter(node))->tensor;
    const int64_t axis = find_operator(node.op).weight_channel_dim.value_or(weight.rank() - 2);
    if (spec.granularity != Granularity::kTensor) spec.axis = axis;
    if (!gets_channels || weight.dim(axis) == 1) return spec;
    spec.granularity = Granularity::kChannel;
    spec.axis = axis;
    return spec;
  }

  QuantSpec input_spec(const Node& node, const std::string& text, const std::string& place) const {
    const QuantSpec spec = parse_format_text(text, place);
    if (spec.granularity != Granularity::kTensor)
      fail("{}: the inputs of a node share one scale: expected a format without groups", place);
    if (spec.scale_rule == ScaleRule::kLearned)
      fail("{}: a learned scale needs training (`detent train --quantize`)", place);
    if (block_size(spec.format)) {
      Graph alone = graph_;
      alone.node(node.name).quantization["data_in_0"] = spec;
      check_activation_blocks(alone, place);
    }
    return spec;
  }

  static void add(Choice& choice, const std::string& text, const std::optional<QuantSpec>& spec,
                  const Shape& shape, const std::string& place) {
    if (std::ranges::find(choice.formats, text, &ChoiceFormat::text) != choice.formats.end())
      fail("{}: it is given twice", place);
    choice.formats.push_back({text, spec, stored_bits(spec, shape)});
  }

  Choice finished(Choice choice) const {
    if (choice.formats.empty() || choice.formats.size() > kMostFormats) {
      fail("{}: {} of \"{}\": got {} formats, expected 1 to {}", where_, choice.operand, choice.name,
           choice.formats.size(), kMostFormats);
    }
    std::ranges::stable_sort(choice.formats, {}, &ChoiceFormat::bits);
    return choice;
  }

  const Graph& graph_;
  const SearchOptions& options_;
  const std::string& where_;
  ChoiceMatcher matcher_;
  ValueTypes values_;
};

}  // namespace

std::string_view weight_parameter(const Node& node) {
  return role_of(node) == OperatorRole::kConstant ? "value" : "weight";
}

double SearchSpace::size() const {
  double product = 1;
  for (const Choice& choice : choices) product *= static_cast<double>(choice.formats.size());
  return product;
}

Assignment SearchSpace::largest() const {
  Assignment assignment;
  for (const Choice& choice : choices) assignment.push_back(static_cast<int>(choice.formats.size()) - 1);
  return assignment;
}

Assignment SearchSpace::uniform(const std::string& operand, const ChoiceFormat& format) const {
  Assignment assignment = largest();
  for (size_t i = 0; i < choices.size(); ++i) {
    const Choice& choice = choices[i];
    if (choice.operand != operand) continue;
    const auto same = std::ranges::find(choice.formats, format.text, &ChoiceFormat::text);
    if (same != choice.formats.end()) {
      assignment[i] = static_cast<int>(same - choice.formats.begin());
    } else {
      const auto above = std::ranges::lower_bound(choice.formats, format.bits, {}, &ChoiceFormat::bits);
      assignment[i] =
          static_cast<int>(std::min(above - choice.formats.begin(), std::ssize(choice.formats) - 1));
    }
  }
  return assignment;
}

std::vector<Assignment> SearchSpace::uniform_weights() const {
  std::vector<Assignment> all;
  const auto weight = std::ranges::find(choices, kWeightOperand, &Choice::operand);
  if (weight == choices.end()) return all;
  for (const ChoiceFormat& format : weight->formats) all.push_back(uniform(kWeightOperand, format));
  return all;
}

SearchSpace make_search_space(const Graph& graph, const CodePlan& plan, const SearchOptions& options,
                              const std::string& where) {
  std::map<size_t, std::string> read;  // by the position of the node, the first value that it reads as codes
  for (const CodeGroup& group : plan.groups) {
    for (const CodeRead& entry : group.reads) read.try_emplace(entry.node, entry.value);
  }
  std::map<size_t, size_t> weighted;  // by the position of the weight, that of what multiplies with it
  for (const size_t position : plan.weighted) weighted.emplace(position, position);
  for (const ConstantWeight& weight : plan.constants) weighted.emplace(weight.constant, weight.node);
  SpaceBuilder builder(graph, options, where);
  SearchSpace space;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto reader = weighted.find(i);
    if (reader != weighted.end()) space.choices.push_back(builder.weight(i, reader->second));
    if (read.contains(i)) space.choices.push_back(builder.inputs(i, read.at(i)));
  }
  builder.check_all_used();
  if (space.choices.empty())
    fail("{}: nothing is to be chosen: the network has no layer that computes on integers", where);
  if (space.size() == 1) {
    fail(
        "{}: nothing is to be chosen: every operand has a single format; give some of them more, as "
        "--weights int3,int4,int8",
        where);
  }
  return space;
}

}  // namespace detent
