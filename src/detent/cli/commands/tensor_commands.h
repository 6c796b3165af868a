#pragma once

#include <string>
#include <vector>

namespace detent {

/// The commands after `detent tensor`; as Command::run.
int run_tensor_quantize(const std::vector<std::string>& args);
int run_tensor_unpack(const std::vector<std::string>& args);
int run_tensor_compare(const std::vector<std::string>& args);

}  // namespace detent
