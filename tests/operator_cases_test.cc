#include "operator_cases_test.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/adaptive_avg_pool1d.h>
#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/adaptive_avg_pool3d.h>
#include <ATen/ops/avg_pool1d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/conv3d.h>
#include <ATen/ops/conv_transpose1d.h>
#include <ATen/ops/conv_transpose2d.h>
#include <ATen/ops/conv_transpose3d.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/graph/builder.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

using Inputs = std::vector<at::Tensor>;
using Lookup = OperatorCase::Lookup;

constexpr int64_t kEmbeddingRows = 7;

std::vector<OperatorCase> layer_cases() {
  const auto list = [](int64_t a, int64_t b) { return List{Value(a), Value(b)}; };
  return {
      {"linear",
       {{3, 4}},
       {{"weight", {5, 4}}, {"bias", {5}}},
       {},
       [](const Inputs& x, const Lookup& p) { return at::linear(x[0], p("weight"), p("bias")); }},
      {"matmul",
       {{1, 3, 4}, {2, 4, 5}},
       {},
       {},
       [](const Inputs& x, const Lookup&) { return at::matmul(x[0], x[1]); }},
      {"bmm", {{3, 4}, {4, 5}}, {}, {}, [](const Inputs& x, const Lookup&) { return at::bmm(x[0], x[1]); }},
      {"conv1d",
       {{4, 9}},
       {{"weight", {6, 2, 3}}, {"bias", {6}}},
       {{"stride", 2}, {"groups", 2}},
       [](const Inputs& x, const Lookup& p) {
         return at::conv1d(x[0], p("weight"), p("bias"), 2, at::IntArrayRef{0}, 1, 2);
       }},
      {"conv2d",
       {{3, 7, 8}},
       {{"weight", {4, 3, 3, 2}}},
       {{"padding", list(2, 1)}, {"dilation", 2}},
       [](const Inputs& x, const Lookup& p) {
         return at::conv2d(x[0], p("weight"), {}, 1, at::IntArrayRef{2, 1}, 2);
       }},
      {"conv3d",
       {{4, 4, 5, 6}},
       {{"weight", {6, 2, 2, 3, 1}}, {"bias", {6}}},
       {{"stride", List{Value(1), Value(2), Value(3)}},
        {"padding", List{Value(0), Value(1), Value(1)}},
        {"dilation", List{Value(2), Value(1), Value(1)}},
        {"groups", 2}},
       [](const Inputs& x, const Lookup& p) {
         return at::conv3d(x[0], p("weight"), p("bias"), at::IntArrayRef{1, 2, 3}, at::IntArrayRef{0, 1, 1},
                           at::IntArrayRef{2, 1, 1}, 2);
       }},
      {"convtranspose1d",
       {{4, 5}},
       {{"weight", {4, 3, 3}}, {"bias", {6}}},
       {{"stride", 3}, {"padding", 1}, {"output_padding", 2}, {"dilation", 2}, {"groups", 2}},
       [](const Inputs& x, const Lookup& p) {
         return at::conv_transpose1d(x[0], p("weight"), p("bias"), 3, 1, 2, 2, 2);
       }},
      {"convtranspose2d",
       {{4, 3, 5}},
       {{"weight", {4, 3, 3, 2}}, {"bias", {6}}},
       {{"stride", list(2, 3)},
        {"padding", 1},
        {"output_padding", list(1, 2)},
        {"dilation", list(1, 2)},
        {"groups", 2}},
       [](const Inputs& x, const Lookup& p) {
         return at::conv_transpose2d(x[0], p("weight"), p("bias"), at::IntArrayRef{2, 3}, 1,
                                     at::IntArrayRef{1, 2}, 2, at::IntArrayRef{1, 2});
       }},
      {"convtranspose3d",
       {{4, 2, 3, 4}},
       {{"weight", {4, 3, 2, 3, 2}}, {"bias", {6}}},
       {{"stride", List{Value(1), Value(2), Value(3)}},
        {"padding", List{Value(0), Value(1), Value(0)}},
        {"output_padding", List{Value(0), Value(1), Value(2)}},
        {"groups", 2}},
       [](const Inputs& x, const Lookup& p) {
         return at::conv_transpose3d(x[0], p("weight"), p("bias"), at::IntArrayRef{1, 2, 3},
                                     at::IntArrayRef{0, 1, 0}, at::IntArrayRef{0, 1, 2}, 2);
       }},
      {"embedding",
       {CaseInput({5}).of(DType::kFloat32, 0, kEmbeddingRows - 1)},
       {{"weight", {kEmbeddingRows, 4}}},
       {},
       [](const Inputs& x, const Lookup& p) {
         const at::Tensor rows = x[0].to(at::kLong).view({-1});
         return at::index_select(p("weight"), 0, rows).view({x[0].size(0), 5, 4});
       }},
      {"avg_pool1d",
       {{3, 9}},
       {},
       {{"kernel_size", 3}, {"stride", 2}, {"ceil_mode", true}},
       [](const Inputs& x, const Lookup&) { return at::avg_pool1d(x[0], 3, 2, 0, true); }},
      {"avg_pool2d",
       {{2, 6, 7}},
       {},
       {{"kernel_size", list(2, 3)}, {"padding", 1}, {"count_include_pad", false}},
       [](const Inputs& x, const Lookup&) {
         return at::avg_pool2d(x[0], at::IntArrayRef{2, 3}, at::IntArrayRef{2, 3}, 1, false, false);
       }},
      {"avg_pool3d",
       {{2, 4, 5, 6}},
       {},
       {{"kernel_size", 2}, {"stride", List{Value(1), Value(2), Value(3)}}, {"count_include_pad", false}},
       [](const Inputs& x, const Lookup&) {
         return at::avg_pool3d(x[0], 2, at::IntArrayRef{1, 2, 3}, 0, false, false);
       }},
      {"adaptive_avg_pool1d",
       {{2, 7}},
       {},
       {{"output_size", 3}},
       [](const Inputs& x, const Lookup&) { return at::adaptive_avg_pool1d(x[0], 3); }},
      {"adaptive_avg_pool2d",
       {{2, 7, 5}},
       {},
       {{"output_size", list(3, 2)}},
       [](const Inputs& x, const Lookup&) {
         return at::adaptive_avg_pool2d(x[0], at::IntArrayRef{3, 2});
       }},
      {"adaptive_avg_pool3d",
       {{2, 4, 5, 3}},
       {},
       {{"output_size", List{Value(2), Value(3), Value(3)}}},
       [](const Inputs& x, const Lookup&) {
         return at::adaptive_avg_pool3d(x[0], at::IntArrayRef{2, 3, 3});
       }},
  };
}

std::vector<OperatorCase> shape_cases() {
  const auto list = [](std::initializer_list<int64_t> values) { return List(values.begin(), values.end()); };
  const Shape shape = {4, 5, 6};
  return {
      {"transpose",
       {shape},
       {},
       {{"dim0", 1}, {"dim1", -1}},
       [](const Inputs& x, const Lookup&) { return x[0].transpose(1, 3); }},
      {"permute",
       {shape},
       {},
       {{"dims", list({2, 0, -1, 1})}},
       [](const Inputs& x, const Lookup&) {
         return x[0].permute({2, 0, 3, 1});
       }},
      {"slice",
       {shape},
       {},
       {{"dims", list({2, -1})},
        {"starts", list({1, -5})},
        {"ends", list({100, -1})},
        {"steps", list({2, 3})}},
       [](const Inputs& x, const Lookup&) {
         return at::stack({x[0].select(2, 1), x[0].select(2, 3)}, 2).index_select(3, at::tensor({1, 4}));
       }},
      {"slice",
       {shape},
       {},
       {{"dims", 1}, {"steps", 2}},
       [](const Inputs& x, const Lookup&) {
         return x[0].index_select(1, at::tensor({0, 2}));
       }},
      {"select",
       {shape},
       {},
       {{"dim", 2}, {"index", -2}},
       [](const Inputs& x, const Lookup&) { return x[0].narrow(2, 3, 1).squeeze(2); }},
      {"pad",
       {shape},
       {},
       {{"pad", list({1, 2, 0, 3})}},
       [](const Inputs& x, const Lookup&) {
         const at::Tensor wide = at::cat({at::zeros({2, 4, 5, 1}), x[0], at::zeros({2, 4, 5, 2})}, 3);
         return at::cat({wide, at::zeros({2, 4, 3, 9})}, 2);
       }},
      {"cat",
       {{4, 5}, {2, 5}, {1, 5}},
       {},
       {{"dim", -2}},
       [](const Inputs& x, const Lookup&) {
         return at::cat({x[0], x[1], x[2]}, 1);
       }},
  };
}

at::Tensor batch_normalized(const Inputs& x, const Lookup& p) {
  return at::batch_norm(x[0], p("weight"), p("bias"), p("running_mean"), p("running_var"), true, 0.1, 0.25,
                        false);
}

std::vector<OperatorCase> normalization_cases() {
  const std::vector<std::pair<std::string, Shape>> affine = {{"weight", {4}}, {"bias", {4}}};
  std::vector<std::pair<std::string, Shape>> with_running = affine;
  with_running.emplace_back("running_mean", Shape{4});
  with_running.emplace_back("running_var", Shape{4});
  const Value last_two = List{Value(3), Value(4)};
  return {
      {"batch_norm1d", {{4, 5}}, with_running, {{"eps", 0.25}}, batch_normalized},
      {"batch_norm2d", {{4, 3, 5}}, with_running, {{"eps", 0.25}}, batch_normalized},
      {"batch_norm3d", {{4, 2, 3, 2}}, with_running, {{"eps", 0.25}}, batch_normalized},
      {"instance_norm2d",
       {{4, 3, 5}},
       {},
       {},
       [](const Inputs& x, const Lookup&) {
         return at::instance_norm(x[0], {}, {}, {}, {}, true, 0.1, 1e-5, false);
       }},
      {"instance_norm2d",
       {{4, 3, 5}},
       with_running,
       {{"eps", 0.25}, {"momentum", 0.5}},
       [](const Inputs& x, const Lookup& p) {
         return at::instance_norm(x[0], p("weight"), p("bias"), {}, {}, true, 0.5, 0.25, false);
       }},
      {"layer_norm",
       {{2, 3, 4}},
       {{"weight", {3, 4}}, {"bias", {3, 4}}},
       {{"normalized_shape", last_two}, {"eps", 0.25}},
       [](const Inputs& x, const Lookup& p) {
         return at::layer_norm(x[0], {3, 4}, p("weight"), p("bias"), 0.25, false);
       }},
      {"group_norm",
       {{4, 3}},
       affine,
       {{"num_groups", 2}, {"eps", 0.25}},
       [](const Inputs& x, const Lookup& p) {
         return at::group_norm(x[0], 2, p("weight"), p("bias"), 0.25, false);
       }},
      {"rms_norm",
       {{2, 3, 4}},
       {{"weight", {3, 4}}},
       {{"normalized_shape", last_two}, {"eps", 0.25}},
       [](const Inputs& x, const Lookup& p) {
         return x[0] / (x[0].pow(2).mean({2, 3}, true) + 0.25).sqrt() * p("weight");
       }},
      {"rms_norm",
       {{5}},
       {},
       {{"normalized_shape", 5}},
       [](const Inputs& x, const Lookup&) { return x[0] / (x[0].pow(2).mean(-1, true) + 0x1p-23).sqrt(); }},
  };
}

}  // namespace

CaseInput CaseInput::between(double least, double most) const {
  CaseInput input = *this;
  input.is_bounded = true;
  input.low = least;
  input.high = most;
  return input;
}

CaseInput CaseInput::of(DType element_type, double least, double most) const {
  CaseInput input = between(least, most);
  input.dtype = element_type;
  input.is_whole = true;
  return input;
}

CaseInput CaseInput::without_batch() const {
  CaseInput input = *this;
  input.has_batch = false;
  return input;
}

std::vector<OperatorCase> layer_and_shape_cases() {
  std::vector<OperatorCase> all = layer_cases();
  for (const auto& more : {shape_cases(), normalization_cases()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

const std::vector<OperatorCase>& operator_cases() {
  static const std::vector<OperatorCase> cases = [] {
    std::vector<OperatorCase> all;
    for (const auto& more :
         {layer_and_shape_cases(), function_cases(), reduction_cases(), gather_cases(), dynamic_shape_cases(),
          resize_cases(), recurrent_cases(), quantized_cases(), table_cases(), lutnet_cases(), loop_cases()})
      all.insert(all.end(), more.begin(), more.end());
    return all;
  }();
  return cases;
}

namespace {

Graph graph_with_given_constants(const OperatorCase& operator_case) {
  Graph graph(operator_case.op);
  TensorType type{DType::kFloat32,
                  {operator_case.input(0).shape.begin(), operator_case.input(0).shape.end()}};
  type.shape.insert(type.shape.begin(), kBatchName);
  graph.add_input("x0", std::move(type));
  Node node{.name = "layer",
            .target = "layer",
            .op = operator_case.op,
            .mase_type = MaseType::kModuleRelatedFunc,
            .inputs = {NodeInput::of("x0")},
            .attributes = operator_case.attributes};
  for (const auto& [name, tensor] : operator_case.given)
    node.parameters.emplace_back(name, Parameter{tensor.clone(), false});
  graph.add(std::move(node));
  graph.add(
      {.name = "output", .op = "output", .mase_type = MaseType::kOutput, .inputs = {NodeInput::of("layer")}});
  verify(graph);
  return graph;
}

}  // namespace

namespace {

/// Constants are the operands before the inputs.
Graph graph_with_body(const OperatorCase& operator_case) {
  Graph graph(operator_case.op);
  Node node{.name = "layer",
            .op = operator_case.op,
            .inputs = operator_case.constants,
            .attributes = operator_case.attributes,
            .body = operator_case.body};
  for (const CaseInput& input : operator_case.inputs) {
    const std::string name = fmt::format("x{}", graph.nodes().size());
    TensorType type{input.dtype, {kBatchName}};
    type.shape.insert(type.shape.end(), input.shape.begin(), input.shape.end());
    graph.add_input(name, std::move(type));
    node.inputs.push_back(NodeInput::of(name));
  }
  graph.add(std::move(node));
  graph.add({.name = "output",
             .op = "output",
             .mase_type = MaseType::kOutput,
             .inputs = {NodeInput::of("layer", operator_case.result)}});
  verify(graph);
  return graph;
}

}  // namespace

Graph one_operator_graph(const OperatorCase& operator_case) {
  if (!operator_case.given.empty()) return graph_with_given_constants(operator_case);
  if (operator_case.body != nullptr) return graph_with_body(operator_case);
  GraphBuilder builder(operator_case.op);
  std::vector<NodeInput> operands;
  for (const CaseInput& input : operator_case.inputs) {
    TensorType type{input.dtype, {input.shape.begin(), input.shape.end()}};
    if (input.has_batch) type.shape.insert(type.shape.begin(), kBatchName);
    operands.push_back(builder.input(fmt::format("x{}", operands.size()), std::move(type)));
  }
  operands.insert(operands.end(), operator_case.constants.begin(), operator_case.constants.end());
  NodeInput result =
      builder.layer(operator_case.op, "layer", operands, operator_case.parameters, operator_case.attributes);
  result.result = operator_case.result;
  Graph graph = builder.finish(result);
  for (auto& [name, parameter] : graph.node("layer").parameters) {
    at::Tensor values = to_torch(parameter->tensor);
    if (name == "running_var") {
      values.uniform_(0.5, 2);
    } else {
      values.normal_();
    }
  }
  return graph;
}

std::vector<at::Tensor> random_inputs(const OperatorCase& operator_case, int64_t batch) {
  std::vector<at::Tensor> inputs;
  for (const CaseInput& input : operator_case.inputs) {
    Shape shape = input.shape;
    if (input.has_batch) shape.insert(shape.begin(), batch);
    at::Tensor values = input.is_bounded ? at::rand(shape) : at::randn(shape);
    if (input.is_whole) {
      values = (values * (input.high - input.low + 1) + input.low).floor().clamp_max(input.high);
    } else if (input.is_bounded) {
      values = values * (input.high - input.low) + input.low;
    }
    inputs.push_back(values.to(scalar_type(input.dtype)));
  }
  return inputs;
}

}  // namespace detent
