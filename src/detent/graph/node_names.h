#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "detent/core/error_fields.h"
#include "detent/graph/graph.h"

namespace detent {

/// `node "fc" (linear): reason`. A reason that names this node first, as one found deeper may, stays as it
/// is.
std::string node_message(const Node& node, std::string_view reason);

/// An error of the node, with node_message of what it says.
DetailedError node_error(const Node& node, const Error& error);

/// What `node_message` says of the node that `message` begins with; all of it where it begins with none.
std::string_view reason_of(std::string_view message);

/// What the model that a network was read from calls result `i` of a node, of the output node output `i`; or
/// else `own_name`.
std::string source_name_or(const Node& node, size_t i, const std::string& own_name);

/// What it calls a value, or else the value's own name.
std::string source_name(const Graph& graph, const NodeInput& value);

}  // namespace detent
