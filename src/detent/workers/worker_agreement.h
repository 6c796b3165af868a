#pragma once

#include "detent/core/process_group.h"
#include "detent/core/value.h"

namespace detent {

/// Compares what this worker will do with what the others will; each calls it at the same point. Throws
/// Error, at every worker, that names the first key whose values differ, nested ones with dots, and both
/// values.
void check_workers_agree(const Table& mine, ProcessGroup& group);

}  // namespace detent
