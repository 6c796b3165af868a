#pragma once

#include <string>

#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"

namespace detent {

/// A whole network brings its own input shapes and classes: they must be the data set's. Sizes that it leaves
/// open are usually those of the first samples. `file` is what messages call the network; where the data
/// `may_lack_classes`, the network may have more. Throws Error where they do not fit each other.
Graph fitted_to_data(const Graph& graph, const Dataset& dataset, const std::string& file,
                     bool may_lack_classes);

/// How many classes the data set has, and what to do where the network has others.
std::string classes_text(const Dataset& dataset);

}  // namespace detent
