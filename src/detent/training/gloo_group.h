#pragma once

#include <chrono>
#include <memory>

#include "detent/core/process_group.h"
#include "detent/workers/rendezvous.h"

namespace detent {

/// Connects workers that have met at `table` once more, by libtorch's c10d with Gloo, whose sums of gradients
/// go around in a ring. Returns when all are connected; neither this nor a call of the group waits longer
/// than `timeout`. Throws Error that names rank and address.
std::unique_ptr<ProcessGroup> join_with_gloo(const WorkerEnvironment& workers,
                                             std::chrono::milliseconds timeout,
                                             std::shared_ptr<Rendezvous> table);

}  // namespace detent
