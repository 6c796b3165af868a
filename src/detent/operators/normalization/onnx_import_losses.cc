#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// Loss of classes [N, C, ...] whose logarithms of probabilities are `scores`, with targets [N, ...] as input
/// 1 and weights of classes as input 2: -scores[target] weight[target]; 0 where the target is ignore_index.
void give_class_loss(NodeImport& node, const NodeInput& scores) {
  const bool ignores = node.has_attribute("ignore_index");
  const NodeInput ignored_class = NodeInput::of_constant(Value(node.integer("ignore_index", 0)));
  const NodeInput zero = NodeImport::number_of(0);
  NodeInput target = node.input(1);
  if (node.type(1).dtype != DType::kInt64) target = node.add("cast", {target}, {{"dtype", "int64"}});
  NodeInput ignored;
  if (ignores) {
    ignored = node.add("eq", {target, ignored_class});
    const NodeInput any_class = node.constant_of(Tensor(DType::kInt64, {}));
    target = node.add("where", {ignored, any_class, target});
  }
  const NodeInput one_class = NodeImport::list_of({1});
  const NodeInput places = node.add("unsqueeze", {target, one_class});
  const NodeInput picked = node.add("gather_elements", {scores, places}, {{"dim", 1}});
  NodeInput loss = node.add("neg", {node.add("squeeze", {picked, one_class})});
  NodeInput weight;
  const bool has_weights = node.has_input(2);
  if (has_weights) weight = node.add("gather", {node.input(2), target}, {{"dim", 0}});
  if (has_weights) loss = node.add("mul", {loss, weight});
  if (ignores) loss = node.add("where", {ignored, zero, loss});
  const std::string reduction = node.text("reduction", "mean");
  if (reduction == "none") return node.set_output(0, loss);
  if (reduction == "mean" && !has_weights && !ignores) return node.set_output(0, node.add("mean", {loss}));
  const NodeInput sum = node.add("sum", {loss});
  if (reduction == "sum") return node.set_output(0, sum);
  if (reduction != "mean") fail("reduction is \"{}\", expected none, mean or sum", reduction);
  if (!has_weights) weight = node.add("cast", {node.add("logical_not", {ignored})}, {{"dtype", "float32"}});
  if (has_weights && ignores) weight = node.add("where", {ignored, zero, weight});
  node.set_output(0, node.add("div", {sum, node.add("sum", {weight})}));
}

void convert_negative_log_likelihood(NodeImport& node) { give_class_loss(node, node.input(0)); }

void convert_softmax_cross_entropy(NodeImport& node) {
  const NodeInput scores = node.add("log_softmax", {node.input(0)}, {{"dim", 1}});
  give_class_loss(node, scores);
  if (node.wants(1)) node.set_output(1, scores);
}

}  // namespace

OnnxConverterList loss_converters() {
  return {{"NegativeLogLikelihoodLoss", convert_negative_log_likelihood},
          {"SoftmaxCrossEntropyLoss", convert_softmax_cross_entropy}};
}

}  // namespace detent
