#pragma once

#include <chrono>
#include <memory>

#include "detent/core/process_group.h"
#include "detent/core/worker_environment.h"

namespace detent {

/// Joins the other workers over TCP (libtorch's c10d with Gloo), through a table at the first worker
/// (rendezvous.h) or at the launcher. Returns when all are there; neither this nor a call of the group waits
/// longer than `timeout`. Throws Error that names rank and address. What workers send each other is not
/// encrypted: the network between them must be trusted.
std::unique_ptr<ProcessGroup> join_workers(const WorkerEnvironment& workers,
                                           std::chrono::milliseconds timeout);

}  // namespace detent
