#pragma once

namespace detent {

/// Measured limits of one thread of this machine.
struct MachineLimits {
  double products_per_second = 0;  // 8 bits times 8 bits, added to 32, in the first-level cache
  double float_products_per_second = 0;
  double bytes_per_second = 0;  // read from memory
};
MachineLimits measured_limits();

}  // namespace detent
