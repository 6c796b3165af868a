#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "detent/cli/torch_command.h"
#include "detent/core/process_group.h"
#include "detent/datasets/dataset.h"
#include "detent/datasets/training_splits.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/workflows/random_source.h"

namespace detent {

/// All samples of the split, as it was published.
std::unique_ptr<Dataset> load_split(const TorchCommand& command, Split split);

/// Samples to train on and to choose the best epoch by, as validation_split says.
TrainingSplits load_training_splits(const TorchCommand& command);

/// Samples to calibrate on, at most `most` where they are taken out of the test samples, and to test on.
CalibrationSplits load_calibration_splits(const TorchCommand& command, int64_t most);

/// The network that the command asks for: built and initialised from the seed, then filled from `load`; or,
/// with load_type mz, read whole. Throws Error when the file and the network do not fit each other or the
/// data.
Graph load_network(const TorchCommand& command, const Dataset& dataset);

/// The network that `teacher` names, as load_network would load it.
Graph load_teacher(const TorchCommand& command, const Dataset& dataset);

/// Reads the network that `load` holds, where that is a whole one, and gives `image_size` the size of the
/// images that it takes, where nothing else says it.
void read_whole_network(TorchCommand& command);

/// Where `load` is a graph that has quantized weights as codes: what was more exact is not there.
void say_weights_are_rounded(const RunOptions& options);

/// Throws Error, at every worker and naming what differs, when the workers were started with other commands,
/// settings or passes. Paths, threads and the like are each worker's own.
void check_workers_agree_on_settings(const TorchCommand& command, ProcessGroup& group);

/// The same for what they have read: the network and the data, each split with a name for the message.
void check_workers_agree_on_inputs(const Graph& graph,
                                   std::initializer_list<std::pair<const char*, const Dataset*>> splits,
                                   ProcessGroup& group);

/// Context of pipelines: samples in an order that `random` draws when the first pass asks for them; warnings
/// go to the log. `dataset` and `executor`, and what `report` refers to, must outlive the context.
PassContext make_pass_context(const Dataset& dataset, const RandomSource& random, int64_t batch_size,
                              std::filesystem::path output_dir, Executor& executor,
                              std::function<void(const std::string&)> report);

}  // namespace detent
