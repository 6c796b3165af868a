#include "detent/statistics/value_options.h"

#include <cmath>

namespace detent {

ValueResolution ValueOptions::resolution() const {
  const int default_bits = dims.kind == Dims::Kind::kAll ? 20 : 16;
  return {exact_values, key_bits.value_or(default_bits)};
}

void ValueOptions::write_error(const Accumulators& data, Table& table) const {
  if (!data.is_exact(resolution())) table["relative_error"] = std::ldexp(1.0, 8 - resolution().key_bits);
}

}  // namespace detent
