#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "detent/cli/model_run.h"
#include "detent/cli/run_options.h"
#include "detent/core/value.h"
#include "detent/core/worker_environment.h"
#include "detent/graph/graph.h"
#include "detent/files/file_roles.h"
#include "detent/workers/rendezvous.h"
#include "detent/workflows/random_source.h"

namespace detent {

/// A command that runs a network, completely checked and merged.
struct TorchCommand {
  std::string name;  // train, test, transform, quantize, search, compare, run or quickstart
  RunOptions options;
  Table passes;                        // [passes] of the configuration, in file order
  std::string config_file;             // "" without one
  std::filesystem::path software_dir;  // <project_dir>/<project>/software; quickstart: its output folder
  /// When a launcher started several, and where they have met.
  std::optional<WorkerEnvironment> workers = std::nullopt;
  std::shared_ptr<Rendezvous> meeting = nullptr;
  ModelRun model_run = {};  // of run
  Table search = {};        // options of search and of compare
  /// Whether quickstart trains, and where it writes the networks that it has trained; "": nowhere.
  bool trains = true;
  std::filesystem::path networks_file = {};
  /// What `load` holds, where that is a whole network: read once, before the data that must fit it.
  std::shared_ptr<const Graph> network = nullptr;
  RandomSource random = {};
  /// What the program has read and will write so far: the library keeps on.
  FileRoles* file_roles = nullptr;
};

}  // namespace detent

/// The only symbol of the shared library that the program looks up. Throws what the command throws.
/// build_identity of the libtorch half.
extern "C" const char* detent_torch_build();
extern "C" void detent_torch_run(const detent::TorchCommand& command);
