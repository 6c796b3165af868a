#include <algorithm>
#include <filesystem>

#include "detent/cli/command_line.h"

int main(int argc, char** argv) {
  const std::filesystem::path program = argc > 0 ? argv[0] : "detent";
  return detent::run_command_line({argv + std::min(argc, 1), argv + argc}, program.filename().string());
}
