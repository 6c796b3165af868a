#pragma once

#include "detent/passes/pass.h"

namespace detent {

PassInfo finish_qat_pass();

}  // namespace detent
