#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "detent/core/error_fields.h"
#include "detent/graph/graph.h"

namespace detent {

/// A constant of language models, int64 [1], that nothing reads and no pass removes: the number of tokens
/// that the network was made for.
inline constexpr const char* kContextNode = "context";

/// `node "fc" (linear): reason`. A reason that already begins with this node is unchanged.
std::string node_message(const Node& node, std::string_view reason);

/// An Error with node_message.
DetailedError node_error(const Node& node, const Error& error);

/// `message` without the node that node_message begins with.
std::string_view reason_of(std::string_view message);

/// Name of result `i` of a node (of the output node: output `i`) in the model that the network was read from;
/// or else `own_name`.
std::string source_name_or(const Node& node, size_t i, const std::string& own_name);

/// The original name of a value, or else its own.
std::string source_name(const Graph& graph, const NodeInput& value);

}  // namespace detent
