#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/hardware/circuit.h"
#include "detent/hardware/logic.h"
#include "detent/hardware/vectors.h"
#include "detent/hardware/verilog.h"

namespace detent {

/// Resources of a layer of a design.
struct LayerResources {
  std::string node;
  std::string module;
  std::string kind;    // "sums", "requantization", "largest", "tables"
  int64_t inputs = 0;  // codes
  int64_t outputs = 0;
  int64_t luts = 0;               // 6-input tables
  bool luts_are_counted = false;  // else estimated, as a synthesis tool chooses the arithmetic
  int64_t products = 0;           // with constants, not 0
  int64_t register_bits = 0;
  int depth = 0;  // 6-input tables on the longest path, where counted
  int64_t constant_outputs = 0;
  int64_t shared_outputs = 0;
};

struct DesignResources {
  std::vector<LayerResources> layers;
  int64_t register_bits = 0;
  int64_t luts = 0;              // of all layers
  bool luts_are_counted = true;  // of all layers
  int deepest = 0;               // tables between registers, where counted
};

/// A circuit as files, all that a simulator and a synthesis tool need.
struct Design {
  std::vector<DesignFile> files;
  DesignResources resources;
};

/// `logic` is that of the circuit.
Design make_design(const Circuit& circuit, const std::vector<std::optional<LayerLogic>>& logic,
                   const TestVectors& vectors);

/// The circuit for programs: ports with their codes, layers, resources.
Table design_value(const Circuit& circuit, const DesignResources& resources);

}  // namespace detent
