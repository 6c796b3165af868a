#include "detent/onnx/exporter.h"

#include <optional>
#include <unordered_map>

namespace detent {
namespace {

/// Reads a graph in both directions along values that one node reads.
class AttentionReader {
 public:
  AttentionReader(const Graph& graph, const ValueTypes& types) : graph_(graph), types_(types) {
    for (const Node& node : graph.nodes()) {
      for (const NodeInput& input : node.inputs) {
        if (input.is_constant()) continue;
        Readers& readers = readers_[value_name(input)];
        ++readers.count;
        readers.last = &node;
      }
    }
  }

  std::optional<AttentionPattern> before(const Node& softmax) {
    AttentionPattern found;
    inner_ = &found.inner;
    const Node* const chosen = giver(softmax.inputs.at(0), "where");
    if (!is_plain(softmax) || integer_attribute(softmax, "dim") != -1 || chosen == nullptr)
      return std::nullopt;
    double scratch = 0;
    const double* const unseen = chosen->inputs.at(2).constant.number(scratch);
    const Node* const split = giver(chosen->inputs[1], "dynamic_reshape");
    if (unseen == nullptr || split == nullptr) return std::nullopt;
    found.unseen = *unseen;
    found.seen = chosen->inputs[0];
    const Node* const scores = capped(*split, found.cap);
    const Node* const rows = scores == nullptr ? nullptr : giver(scores->inputs.at(0), "dynamic_reshape");
    if (rows == nullptr) return std::nullopt;
    found.keys = scores->inputs.at(1);
    found.query = rows->inputs.at(0);
    found.inner.push_back(softmax.name);
    return found;
  }

  /// The node that gives the result, and with it the values.
  const Node* after(const Node& softmax, AttentionPattern& found) {
    inner_ = &found.inner;
    const Node* const joined = reader(softmax, "dynamic_reshape");
    const Node* const sums = joined == nullptr ? nullptr : reader(*joined, "matmul");
    const Node* const last = sums == nullptr ? nullptr : reader(*sums, "dynamic_reshape");
    if (last == nullptr || sums->inputs.at(0).node != joined->name) return nullptr;
    found.values = sums->inputs.at(1);
    found.inner.push_back(joined->name);
    found.inner.push_back(sums->name);
    return last;
  }

  /// Whether heads that share keys are rows one after another, and are apart again at the end.
  bool fits(const AttentionPattern& found, const Node& last) const {
    const Shape query = shape(found.query);
    const Shape keys = shape(found.keys);
    const Shape values = shape(found.values);
    const Shape seen = shape(found.seen);
    const Shape result = shape(NodeInput::of(last.name));
    if (query.size() != 4 || keys.size() != 4 || values.size() != 4 || seen.size() != 4) return false;
    const bool fits_mask = seen[0] == query[0] && seen[1] == 1 && (seen[2] == 1 || seen[2] == query[2]);
    return fits_mask && result == Shape{query[0], query[1], query[2], values[3]} && keys[0] == query[0] &&
           keys[2] == query[3] && values[1] == keys[1] && values[2] == keys[3] && seen[3] == keys[3] &&
           query[1] % keys[1] == 0;
  }

 private:
  struct Readers {
    size_t count = 0;
    const Node* last = nullptr;
  };

  static bool is_plain(const Node& node) { return node.quantization.empty(); }

  Shape shape(const NodeInput& value) const {
    const auto type = types_.find(value_name(value));
    return type == types_.end() ? Shape{} : type->second.shape;
  }
  bool is_read_once(const Node& node) const {
    const auto found = readers_.find(value_name(node.name));
    return found != readers_.end() && found->second.count == 1;
  }
  const Node* giver(const NodeInput& input, std::string_view op) {
    if (input.is_constant() || input.result != 0) return nullptr;
    const Node& node = graph_.node(input.node);
    if (node.op != op || !is_plain(node) || !is_read_once(node)) return nullptr;
    inner_->push_back(node.name);
    return &node;
  }
  const Node* reader(const Node& node, std::string_view op) const {
    if (!is_read_once(node)) return nullptr;
    const Node* const found = readers_.at(value_name(node.name)).last;
    return found->op == op && is_plain(*found) ? found : nullptr;
  }
  /// The product that such scores come from, through a cap where they have one.
  const Node* capped(const Node& split, double& cap) {
    const Node* const scaled = giver(split.inputs.at(0), "mul");
    if (scaled == nullptr) return giver(split.inputs[0], "matmul");
    const Node* const curve = giver(scaled->inputs.at(0), "tanh");
    const Node* const divided = curve == nullptr ? nullptr : giver(curve->inputs.at(0), "div");
    double scratch[2] = {};
    const double* const factor = scaled->inputs.at(1).constant.number(scratch[0]);
    const double* const divisor =
        divided == nullptr ? nullptr : divided->inputs.at(1).constant.number(scratch[1]);
    if (factor == nullptr || divisor == nullptr || *factor != *divisor || !(*factor > 0)) return nullptr;
    cap = *factor;
    return giver(divided->inputs.at(0), "matmul");
  }

  const Graph& graph_;
  const ValueTypes& types_;
  std::unordered_map<std::string, Readers> readers_;
  std::vector<std::string>* inner_ = nullptr;
};

}  // namespace

std::unordered_map<std::string, AttentionPattern> find_attention(const Graph& graph,
                                                                 const ValueTypes& types) {
  std::unordered_map<std::string, AttentionPattern> patterns;
  AttentionReader reader(graph, types);
  for (const Node& node : graph.nodes()) {
    if (node.op != "softmax") continue;
    std::optional<AttentionPattern> found = reader.before(node);
    const Node* const last = found ? reader.after(node, *found) : nullptr;
    if (last != nullptr && reader.fits(*found, *last)) patterns.emplace(last->name, *std::move(found));
  }
  return patterns;
}

}  // namespace detent
