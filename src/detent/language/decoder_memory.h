#pragma once

#include <cstdint>

#include "detent/graph/graph.h"

namespace detent {

struct ReferencePlan;

/// What runs of a decoder have to hold.
struct DecoderLoad {
  int64_t sequences = 1;
  int64_t tokens = 0;       // of each, when all has been run
  int64_t at_once = 0;      // that a run puts after each, at most
  bool all_logits = false;  // of each of them, or of the last
};

/// Bytes, at most.
struct DecoderMemory {
  int64_t weights = 0;
  int64_t cache = 0;
  int64_t buffers = 0;  // values between nodes

  int64_t total() const { return weights + cache + buffers; }
};

/// Tensors that the nodes of the plan keep, and copies of those that are rounded when they are first used.
int64_t parameter_bytes(const ReferencePlan& plan);

/// `head` is the step that gives logits. Values that are alive at the same time, and what a step takes
/// besides: its inputs in other types. All of them grow with the tokens of a run at least in proportion, so
/// that fewer at once take their share of what all would.
int64_t buffer_bytes(const ReferencePlan& plan, size_t head, const DecoderLoad& load);

}  // namespace detent
