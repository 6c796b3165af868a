#pragma once

#include <map>
#include <memory>
#include <string>

#include "detent/float32/recurrent_layer.h"
#include "detent/reference/reference_step.h"

namespace detent {

using PackedRecurrentLayers = std::map<std::string, std::shared_ptr<const RecurrentLayer>, std::less<>>;

/// The recurrent layers of a plan whose weights are tensors that the network owns, by node, as their
/// quantizers leave them; none that take or give codes which places do not have.
PackedRecurrentLayers packed_recurrent_layers(const ReferencePlan& plan);

}  // namespace detent
