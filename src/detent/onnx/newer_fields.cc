#include "detent/onnx/import_steps.h"

#include <google/protobuf/unknown_field_set.h>
#include <onnx/onnx_pb.h>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr int kOverloadOfNode = 8;
constexpr int kOverloadOfFunction = 13;
constexpr int kDefaultsOfFunction = 11;

/// A field of texts or messages that the header of protobuf does not know.
template <class Message>
std::vector<std::string> unknown_field(const Message& message, int number) {
  std::vector<std::string> found;
  const google::protobuf::UnknownFieldSet& fields = message.GetReflection()->GetUnknownFields(message);
  for (int i = 0; i < fields.field_count(); ++i) {
    const google::protobuf::UnknownField& field = fields.field(i);
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      found.emplace_back(field.length_delimited());
  }
  return found;
}

template <class Message>
std::string overload(const Message& message, int number) {
  if constexpr (requires { message.overload(); }) {
    return message.overload();
  } else {
    const std::vector<std::string> texts = unknown_field(message, number);
    return texts.empty() ? "" : texts.back();
  }
}

template <class Function>
std::vector<onnx::AttributeProto> defaults(const Function& function) {
  std::vector<onnx::AttributeProto> attributes;
  if constexpr (requires { function.attribute_proto(); }) {
    attributes.assign(function.attribute_proto().begin(), function.attribute_proto().end());
  } else {
    for (const std::string& bytes : unknown_field(function, kDefaultsOfFunction)) {
      if (!attributes.emplace_back().ParseFromString(bytes))
        fail("function \"{}\": a default of an attribute is damaged", function.name());
    }
  }
  return attributes;
}

}  // namespace

std::string overload_of(const onnx::FunctionProto& function) {
  return overload(function, kOverloadOfFunction);
}

std::string overload_of(const onnx::NodeProto& node) { return overload(node, kOverloadOfNode); }

std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function) {
  return defaults(function);
}

}  // namespace detent
