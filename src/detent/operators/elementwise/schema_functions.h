#pragma once

#include <span>
#include <string_view>

#include "detent/core/tensor.h"
#include "detent/kernels/functions.h"

namespace detent {

/// A function of one element without attributes. Its schema, float32 computation, gradient, ONNX import and
/// export follow from its row; no other place names it.
struct FunctionRow {
  /// libtorch's function of that name gives the gradient; autograd_functions.cc has those that it lacks.
  const char* op;
  const char* help;
  double (*of)(double);     // the definition, from which integer tables are made
  ElementFunction float32;  // of the executors
  /// ONNX's operator of the same meaning in every opset; nullptr where import and export do more.
  const char* onnx = nullptr;
  Tensor (*of_integers)(const Tensor&) = nullptr;  // their dtype stays; nullptr where they are refused
};

std::span<const FunctionRow> element_functions();

/// nullptr if there is none.
const FunctionRow* find_element_function(std::string_view op);

}  // namespace detent
