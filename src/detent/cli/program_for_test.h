#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "detent/cli/command_line.h"

namespace detent {

/// What a run of the program in this process left behind.
struct ProgramResult {
  int status = 0;
  std::string output;
  std::string errors;
};

inline ProgramResult run_program(const std::vector<std::string>& args) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  ProgramResult result;
  result.status = run_command_line(args);
  result.output = testing::internal::GetCapturedStdout();
  result.errors = testing::internal::GetCapturedStderr();
  return result;
}

}  // namespace detent
