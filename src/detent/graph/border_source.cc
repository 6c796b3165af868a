#include "detent/graph/border_source.h"

#include "detent/core/error.h"

namespace detent {

int64_t border_source(int64_t position, int64_t size, std::string_view mode) {
  if (position >= 0 && position < size) return position;
  if (mode == "constant") return -1;
  if (size == 0) fail("mode {} has nothing to repeat in a dimension of size 0", mode);
  if (mode == "edge") return position < 0 ? 0 : size - 1;
  if (mode == "wrap") return (position % size + size) % size;
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);
  const int64_t place = (position % period + period) % period;
  return place < size ? place : period - place;
}

}  // namespace detent
