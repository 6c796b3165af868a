#pragma once

#include <cstdint>

#include "detent/cli/results.h"
#include "detent/cli/run_options.h"
#include "detent/cli/torch_command.h"
#include "detent/core/process_group.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"

namespace detent {

/// Runs test, transform, quantize, search, compare, run, or quickstart without training, in this process and
/// without libtorch, once threads, logging and the generator of random numbers are set up and the workers
/// agree on their settings.
void run_network_command(TorchCommand command, ProcessGroup& group);

/// Whether it is one of these.
bool is_network_command(const TorchCommand& command);

/// For a worker that is not the first: it prints nothing but errors.
void silence_worker();

/// Warns, after any command, of images that were left out.
void warn_of_broken_images();

// One command a file. Results go to standard output, which only the first worker of `group` has.
void run_test(const TorchCommand& command, ProcessGroup& group);
void run_transform(const TorchCommand& command, ProcessGroup& group);
void run_quantize(const TorchCommand& command, ProcessGroup& group);
void run_search(const TorchCommand& command, ProcessGroup& group);
void run_compare(const TorchCommand& command, ProcessGroup& group);
void run_model(const TorchCommand& command);

/// Writes `options.dump` of the first samples of `dataset`: logits, labels and predictions, the results of
/// the chosen nodes as the next nodes get them, that is after quantization, and index.json. Says what it
/// wrote in `results`. Throws Error where a pattern matches no node, where the network has no integers to
/// write, and where check_dump_folder does.
void write_dump(const RunOptions& options, const Graph& graph, const Dataset& dataset,
                const CommandResults& results);

}  // namespace detent
