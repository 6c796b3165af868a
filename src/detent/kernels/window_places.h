#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// Which places of one side of a convolution a window of the other side covers: results and inputs of a plain
/// one, inputs and results of a transposed one. Sizes are those of the spatial dimensions, places row-major.
struct WindowPlaces {
  Shape windows;
  Shape places;
  Shape kernel;
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;
  std::vector<int64_t> dilation;

  /// -1 in the padding.
  int64_t place_of(int64_t window, int64_t tap) const {
    int64_t place = 0;
    int64_t step = 1;
    for (size_t d = places.size(); d-- > 0;) {
      const int64_t at = window % windows[d] * stride[d] + tap % kernel[d] * dilation[d] - padding[d];
      if (at < 0 || at >= places[d]) return -1;
      place += at * step;
      step *= places[d];
      window /= windows[d];
      tap /= kernel[d];
    }
    return place;
  }

  /// visit(window, tap, place) of all that are not in the border.
  template <class Visit>
  void for_each(Visit visit) const {
    const int64_t taps = element_count(kernel);
    for (int64_t window = 0; window < element_count(windows); ++window) {
      for (int64_t tap = 0; tap < taps; ++tap)
        if (const int64_t place = place_of(window, tap); place >= 0) visit(window, tap, place);
    }
  }
};

/// The largest of rows[i][j] over i and which i, for each j < `count`: of equal ones the first, of NaNs the
/// last.
void largest_and_its_rows(const float* const* rows, int64_t row_count, int64_t count, float* results,
                          int32_t* row_of);
void largest_and_its_rows_reference(const float* const* rows, int64_t row_count, int64_t count,
                                    float* results, int32_t* row_of);

}  // namespace detent
