#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "../onnx_seed_models.h"

// Models for onnx_fuzz to begin with:
//   onnx_seeds FOLDER
int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: onnx_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  std::filesystem::create_directories(folder);
  size_t number = 0;
  for (const onnx::ModelProto& model : detent::onnx_seed_models())
    std::ofstream(folder / fmt::format("seed_{}.onnx", number++), std::ios::binary)
        << model.SerializeAsString();
  return 0;
}
