#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "detent/cli/read_network.h"
#include "detent/cli/run_options.h"
#include "detent/core/process_group.h"
#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/files/file_roles.h"
#include "detent/graph/graph.h"
#include "detent/workers/rendezvous.h"
#include "detent/workflows/random_source.h"

namespace detent {

/// Request of `detent run`.
struct ModelRun {
  std::string model;
  GivenInputs given = {};
  std::vector<std::pair<std::string, std::string>> compare = {};  // name of an output or value and .npy file
  std::vector<std::string> values = {};                           // inner ones, beside the outputs
  bool before_quantization = false;                               // those values
  bool as_integers = false;                                       // those that have integers
  std::optional<Engine> engine = {};  // none: fast where the network is quantized for integers
  std::optional<std::string> output_dir = {};
  bool overwrite = false;  // arrays that are there
  double rtol = 1e-3;      // |got - expected| <= atol + rtol |expected|
  double atol = 1e-5;
};

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
  /// The network that `load` holds, where it is a whole one: read once, before the data that must fit it.
  std::shared_ptr<const Graph> network = nullptr;
  RandomSource random = {};
  /// Splits a text into tokens, by the tokenizer that comes with `load`. Throws Error where there is none.
  std::function<std::vector<int64_t>(const std::string& text)> tokenize = {};
  /// Files that the program has read and will write so far: the library keeps on.
  FileRoles* file_roles = nullptr;
  std::filesystem::path result_folder = {};  // of quantize and transform
};

}  // namespace detent

/// The only symbol of the shared library that the program looks up. Throws what the command throws.
/// build_identity of the libtorch half.
extern "C" const char* detent_torch_build();
extern "C" void detent_torch_run(const detent::TorchCommand& command);

namespace detent {

/// Runs the command: training in the half of the program that needs libtorch
/// (run_torch_command), all others here.
void run_command(const TorchCommand& command);

/// Whether there is that half.
bool has_training();

/// Loads `libdetent_torch.so` and runs the command there. The library is looked for beside the program and in
/// `../lib/detent` from there. Throws what the command throws, and Error when the library is missing or
/// cannot be loaded.
void run_torch_command(const TorchCommand& command);

/// Address space that libtorch and OpenBLAS take on `threads` threads for a network of any small size: their
/// code, and for each thread a stack, a heap and OpenBLAS's buffer. In bytes.
uint64_t address_space_for_torch(int64_t threads);

/// Throws Error, naming the limit and ways out, where this process could not start `threads`, and
/// `loader_threads` more, of its own.
void check_thread_limit(int64_t threads, int64_t loader_threads);

/// Throws Error, naming the limit and ways out, where this process could not get that address space, or start
/// the threads that libtorch takes for `threads` and `loader_threads` more. To be called before libtorch is
/// loaded: OpenBLAS waits for ever for memory that it cannot get, libtorch for threads that were not started.
void check_resource_limits(int64_t threads, int64_t loader_threads);

}  // namespace detent
