// Cost of importing large models: time for 10,000 to 1,000,000 nodes, 10 times as much where it is linear,
// and the memory that 2 GB of weights in a file beside the model take beyond the mapping of that file.

#include <fmt/core.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "detent/onnx/import_onnx.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

onnx::ModelProto empty_model(const std::vector<int64_t>& dims) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  auto& input = *model.mutable_graph()->add_input();
  input.set_name("v0");
  auto& type = *input.mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::FLOAT);
  for (const int64_t size : dims) type.mutable_shape()->add_dim()->set_dim_value(size);
  return model;
}

/// Reads the value before it and gives the next one.
onnx::NodeProto& add_node(onnx::ModelProto& model, const char* op, int64_t index) {
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type(op);
  node.add_input(fmt::format("v{}", index));
  node.add_output(fmt::format("v{}", index + 1));
  return node;
}

void write(onnx::ModelProto& model, int64_t nodes, const fs::path& path) {
  model.mutable_graph()->add_output()->set_name(fmt::format("v{}", nodes));
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
}

/// CPU time of one import.
double import_seconds(const fs::path& path) {
  const std::clock_t start = std::clock();
  import_onnx(path);
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

void measure_nodes(const fs::path& folder) {
  double before = 0;
  for (const int64_t count : {10'000, 100'000, 1'000'000}) {
    onnx::ModelProto model = empty_model({4});
    for (int64_t i = 0; i < count; ++i) {
      onnx::NodeProto& node = add_node(model, i % 2 == 0 ? "Add" : "Identity", i);
      if (i % 2 == 0) node.add_input("v0");
    }
    write(model, count, folder / "model.onnx");
    const double seconds = import_seconds(folder / "model.onnx");
    fmt::print("{:9} nodes  {:8.3f} s of the processor{}\n", count, seconds,
               before == 0 ? "" : fmt::format("  {:.1f} times as long", seconds / before));
    before = seconds;
  }
}

/// Resident memory that no file backs, in MB.
double own_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stod(line.substr(8)) / 1e3;
  }
  return 0;
}

/// Linear layers, whose weights are zeros that the disk does not hold.
void measure_weights(const fs::path& folder) {
  constexpr int64_t kSize = 8192;
  constexpr int64_t kLayers = 8;
  constexpr int64_t kBytes = kSize * kSize * 4;
  onnx::ModelProto model = empty_model({1, kSize});
  for (int64_t i = 0; i < kLayers; ++i) {
    onnx::NodeProto& node = add_node(model, "Gemm", i);
    node.add_input(fmt::format("w{}", i));
    auto& transposed = *node.add_attribute();
    transposed.set_name("transB");
    transposed.set_type(onnx::AttributeProto::INT);
    transposed.set_i(1);
    onnx::TensorProto& weight = *model.mutable_graph()->add_initializer();
    weight.set_name(fmt::format("w{}", i));
    weight.set_data_type(onnx::TensorProto::FLOAT);
    for (int d = 0; d < 2; ++d) weight.add_dims(kSize);
    weight.set_data_location(onnx::TensorProto::EXTERNAL);
    const std::pair<const char*, std::string> entries[] = {{"location", "weights.bin"},
                                                           {"offset", std::to_string(i * kBytes)},
                                                           {"length", std::to_string(kBytes)}};
    for (const auto& [key, value] : entries) {
      auto& entry = *weight.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
  }
  write(model, kLayers, folder / "model.onnx");
  std::ofstream(folder / "weights.bin").put('\0');
  fs::resize_file(folder / "weights.bin", static_cast<uintmax_t>(kLayers * kBytes));
  const double before = own_memory();
  const auto start = std::chrono::steady_clock::now();
  const Graph graph = import_onnx(folder / "model.onnx");
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  fmt::print("{:.2f} GB of weights beside the model: {:.3f} s, {:.1f} MB beyond the mapping\n",
             static_cast<double>(kLayers * kBytes) / 1e9, time.count(), own_memory() - before);
}

}  // namespace
}  // namespace detent

int main() {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("detent_onnx_bench_{}", getpid());
  std::filesystem::create_directories(folder);
  detent::measure_nodes(folder);
  detent::measure_weights(folder);
  std::filesystem::remove_all(folder);
}
