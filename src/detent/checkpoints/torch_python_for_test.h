#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "detent/files/temporary_file_test.h"
#include "detent/graph/graph_parameters.h"

namespace detent {

/// One line a tensor: name, dtype, shape, bytes.
inline std::string dump(const StateDict& state) {
  std::string text;
  for (const auto& [name, tensor] : state) {
    text += fmt::format("{} {} {} ", name, dtype_name(tensor.dtype()), shape_text(tensor.shape()));
    for (const std::byte byte : tensor.bytes()) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
    text += '\n';
  }
  return text;
}

inline constexpr const char* kPythonDump = R"(
import sys, collections, torch
def dump(state):
  for name, tensor in state.items():
    flat = tensor.detach().contiguous().reshape(-1)
    data = bytes(flat.view(torch.uint8).tolist()) if flat.numel() else b''
    print(name, str(tensor.dtype)[6:], list(tensor.shape), data.hex())
)";

/// Compares with Python's output; skips the test where python3-torch is not installed.
class TorchPython : public testing::Test {
 protected:
  void SetUp() override {
    static const bool available = std::system("/usr/bin/python3 -c 'import torch' 2>/dev/null") == 0;
    if (!available) GTEST_SKIP() << "/usr/bin/python3 has no torch";
  }

  std::string run(const std::string& script) {
    const TemporaryPath file("script.py");
    file.overwrite(kPythonDump + script);
    const std::string command =
        fmt::format("/usr/bin/python3 {} {} 2>&1", file.get().string(), path_.get().string());
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return "popen failed";
    std::string output;
    std::array<char, 4096> buffer{};
    while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe))
      output.append(buffer.data(), count);
    pclose(pipe);
    return output;
  }

  TemporaryPath path_{"model.pt"};
};

}  // namespace detent
