#pragma once

#include "case.h"
#include "random.h"

namespace detent {

/// Moves some of the model's nodes into functions of its own, and into branches of which it is known that
/// they are taken. The values outside keep their names and numbers.
void wrap_nodes(Case& generated, Random& random);

}  // namespace detent
