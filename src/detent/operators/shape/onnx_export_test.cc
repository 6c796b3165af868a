#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstring>

#include "detent/files/temporary_file_test.h"
#include "detent/onnx/export_onnx.h"

namespace detent {
namespace {

/// A file that the graph is written to, read again: the sizes that its last node reshapes to.
std::vector<int64_t> exported_sizes(const TensorType& input, int64_t start, bool allows_zero = true) {
  Graph graph("test");
  graph.add_input("x", input);
  graph.add(
      {.name = "y", .op = "flatten", .inputs = {NodeInput::of("x")}, .attributes = {{"start_dim", start}}});
  graph.add(
      {.name = "output", .op = "output", .mase_type = MaseType::kOutput, .inputs = {NodeInput::of("y")}});
  const TemporaryPath path("model.onnx");
  export_onnx(graph, path.get());
  onnx::ModelProto model;
  std::ifstream file(path.get(), std::ios::binary);
  EXPECT_TRUE(model.ParseFromIstream(&file));
  const onnx::NodeProto& reshape = model.graph().node(model.graph().node_size() - 1);
  EXPECT_EQ(reshape.op_type(), "Reshape");
  EXPECT_EQ(reshape.attribute_size(), allows_zero ? 1 : 0);
  std::vector<int64_t> sizes;
  std::vector<std::string> parts = {reshape.input(1)};
  for (const onnx::NodeProto& node : model.graph().node()) {
    if (node.op_type() == "Concat") parts = {node.input().begin(), node.input().end()};
  }
  for (const std::string& part : parts) {
    const auto is_it = [&](const onnx::TensorProto& tensor) { return tensor.name() == part; };
    const auto found = std::ranges::find_if(model.graph().initializer(), is_it);
    if (found == model.graph().initializer().end()) {
      sizes.push_back(-1);  // computed
      continue;
    }
    const size_t before = sizes.size();
    sizes.resize(before + found->raw_data().size() / sizeof(int64_t));
    std::memcpy(&sizes[before], found->raw_data().data(), found->raw_data().size());
  }
  return sizes;
}

/// In Reshape a size of 0 stands for that of the input, and beside one no other can follow from the rest.
TEST(OnnxShapeExport, FlattenGivesAllSizesWhereThereAreNoElements) {
  EXPECT_EQ(exported_sizes({DType::kFloat32, {5, int64_t{0}, 3, 2}}, 2), (std::vector<int64_t>{5, 0, 6}));
  EXPECT_EQ(exported_sizes({DType::kFloat32, {kBatchName, int64_t{0}, 3, 2}}, 2),
            (std::vector<int64_t>{-1, 6}));
  EXPECT_EQ(exported_sizes({DType::kFloat32, {4, 3, int64_t{0}}}, 0), (std::vector<int64_t>{0}));
  EXPECT_EQ(exported_sizes({DType::kFloat32, {kBatchName, "open", 3, 2}}, 2, false),
            (std::vector<int64_t>{0, 0, 6}))
      << "a run may give an open size of 0";
}

}  // namespace
}  // namespace detent
