#pragma once

#include <string>
#include <vector>

namespace onnx {
class AttributeProto;
class FunctionProto;
class NodeProto;
}  // namespace onnx

namespace detent {

// Fields of ONNX files that the headers of some distributions do not have yet.

/// Which of several functions of a name: of the function, and of what calls it.
std::string overload_of(const onnx::FunctionProto& function);
std::string overload_of(const onnx::NodeProto& node);

/// Attributes that a call of the function need not give. Throws Error where they are damaged.
std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function);

}  // namespace detent
