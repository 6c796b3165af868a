#pragma once

// Headers that the kernels need, included before a target's instructions are switched on, so that what these
// headers define inline is compiled for any processor.

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>

#include <hwy/base.h>

#include "detent/engine/kernels/kernel_set.h"
