#pragma once

#include <chrono>
#include <memory>

#include "detent/core/process_group.h"
#include "detent/core/worker_environment.h"

namespace detent {

/// Joins the other workers over TCP (libtorch's c10d with Gloo), through a store at the first worker. Returns
/// when all are there; no call of the group waits longer than `timeout`. Throws Error that names rank and
/// address.
std::unique_ptr<ProcessGroup> join_workers(const WorkerEnvironment& workers,
                                           std::chrono::milliseconds timeout);

}  // namespace detent
