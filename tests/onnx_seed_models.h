#pragma once

#include <onnx/onnx_pb.h>

#include <vector>

namespace detent {

/// Small models of every kind of node and message that the importer reads, for a fuzzer to begin with.
std::vector<onnx::ModelProto> onnx_seed_models();

}  // namespace detent
