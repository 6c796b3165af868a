#include "detent/language/network/positions.h"

#include <algorithm>

#include "detent/graph/node_names.h"
#include "detent/language/language_graph.h"

namespace detent {
namespace {

constexpr const char* kSequenceName = "sequence";
constexpr int64_t kUsualTokens = 16;

}  // namespace

TokenPositions::TokenPositions(NetworkNodes& net) : net_(net), config_(net.config()) {
  add_inputs();
  const NodeInput total = net_.size_of(mask_, 1);
  const NodeInput past = net_.call("sub", {total, net_.size_of(tokens_, 1)});
  const NodeInput end = net_.call("squeeze", {total, list_input({0})});
  total_ = end;
  past_ = net_.call("squeeze", {past, list_input({0})});
  queries_ = net_.call("range", {past_, end, constant(1)});
  keys_ = net_.call("range", {constant(0), end, constant(1)});
}

void TokenPositions::add_inputs() {
  const auto usual = std::min<int64_t>(config_.context, kUsualTokens);
  const Dimension batch(kBatchName);
  const auto type = [&](const char* name) {
    return TensorType{DType::kInt64, {batch, Dimension(name, usual)}};
  };
  net_.graph().add_input(kTokensInput, type(kSequenceName));
  tokens_ = NodeInput::of(kTokensInput);
  net_.graph().add_input(kMaskInput, type(kSequenceName));
  mask_ = NodeInput::of(kMaskInput);
  if (config_.gives_text()) net_.constant_tensor(kContextNode, Tensor::from<int64_t>({1}, {config_.context}));
  if (config_.token_types == 0) return;
  net_.graph().add_input(kTypesInput, type(kSequenceName));
  types_ = NodeInput::of(kTypesInput);
}

NodeInput TokenPositions::float_queries() const {
  return net_.call("cast", {net_.call("unsqueeze", {queries_, list_input({1, 2})})}, {{"dtype", "float32"}});
}

NodeInput TokenPositions::rows() const {
  const NodeInput offset = constant(config_.position_offset);
  if (config_.position_count == PositionCount::kAll) {
    return config_.position_offset == 0 ? queries_ : net_.call("add", {queries_, offset});
  }
  if (config_.position_count == PositionCount::kUnpadded) {
    const NodeInput is_pad = net_.call("eq", {tokens_, constant(*config_.pad)});
    const NodeInput counts = net_.call("cast", {net_.call("logical_not", {is_pad})}, {{"dtype", "int64"}});
    const NodeInput places = net_.call("mul", {net_.call("cumsum", {counts, constant(1)}), counts});
    return net_.call("add", {places, constant(config_.position_offset - 1)});
  }
  const NodeInput places = net_.call("mul", {net_.call("cumsum", {mask_, constant(1)}), mask_});
  const NodeInput of_queries = net_.call("gather", {places, queries_}, {{"dim", 1}});
  return net_.call("add", {of_queries, constant(config_.position_offset - 1)});
}

NodeInput TokenPositions::seen() const {
  return net_.call("cast", {net_.call("unsqueeze", {mask_, list_input({2})})}, {{"dtype", "float32"}});
}

NodeInput TokenPositions::seen_queries() const {
  const NodeInput mask = net_.call("gather", {mask_, queries_}, {{"dim", 1}});
  return net_.call("cast", {net_.call("unsqueeze", {mask, list_input({2})})}, {{"dtype", "float32"}});
}

NodeInput TokenPositions::visible(bool in_window) const {
  NodeInput seen =
      net_.call("unsqueeze", {net_.call("cast", {mask_}, {{"dtype", "bool"}}), list_input({1, 2})});
  const NodeInput rows =
      config_.is_causal || in_window ? net_.call("unsqueeze", {queries_, list_input({1})}) : NodeInput();
  if (config_.is_causal) seen = net_.call("logical_and", {seen, net_.call("le", {keys_, rows})});
  if (!in_window) return seen;
  const NodeInput first = net_.call("sub", {rows, constant(config_.window)});
  seen = net_.call("logical_and", {seen, net_.call(config_.is_causal ? "gt" : "ge", {keys_, first})});
  if (config_.is_causal) return seen;
  const NodeInput last = net_.call("add", {rows, constant(config_.window)});
  return net_.call("logical_and", {seen, net_.call("le", {keys_, last})});
}

}  // namespace detent
