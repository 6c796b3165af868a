#pragma once

#include <string>

#include "case.h"

namespace detent {

/// Why the output may differ from ONNX Runtime's as it does: the rule of a node that it depends on, where
/// ONNX leaves something open, or ONNX Runtime does not do what ONNX says. "" where it may not.
std::string allowed_difference(const Case& generated, const GeneratedValue& output, const Tensor& expected,
                               const Tensor& actual);

}  // namespace detent
