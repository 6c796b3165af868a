#pragma once

#include <string>
#include <vector>

namespace detent {

int run_example_per_channel_activation(const std::vector<std::string>& args);

}  // namespace detent
