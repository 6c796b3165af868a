#pragma once

#include <string>

#include "detent/core/value.h"

namespace detent {

/// The key "pareto" of results as a drawing (SVG): cost to the right, quality upward, the front in another
/// colour than what is not on it, and names beside its points. Points whose quality is not finite are left
/// out.
std::string front_drawing(const Table& pareto);

}  // namespace detent
