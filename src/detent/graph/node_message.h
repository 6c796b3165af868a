#pragma once

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

}  // namespace detent
