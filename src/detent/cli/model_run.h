#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/cli/run_options.h"
#include "detent/core/tensor.h"

namespace detent {

/// What `detent run` is asked to do with a network.
struct ModelRun {
  std::string model;
  std::vector<std::pair<std::string, std::string>> inputs = {};   // name and .npy file
  std::vector<std::pair<std::string, std::string>> compare = {};  // name of an output or value and .npy file
  InputShapes shapes = {};
  std::vector<std::string> values = {};  // inner ones, beside the outputs
  bool before_quantization = false;      // those values
  bool as_integers = false;              // those that have integers
  std::optional<Engine> engine = {};     // none: fast where the network is quantized for integers
  std::optional<std::string> output_dir = {};
  bool overwrite = false;  // arrays that are there
  double rtol = 1e-3;      // |got - expected| <= atol + rtol |expected|
  double atol = 1e-5;
};

}  // namespace detent
