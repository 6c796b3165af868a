#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace detent {

/// The points that blocks of the IQ formats index, a coordinate a byte, the first lowest. Coordinates of iq1
/// are signed, the others magnitudes.
struct GridPoints {
  std::array<uint64_t, 256> iq2_xxs;
  std::array<uint64_t, 512> iq2_xs;
  std::array<uint64_t, 1024> iq2_s;
  std::array<uint32_t, 256> iq3_xxs;
  std::array<uint32_t, 512> iq3_s;
  std::array<uint64_t, 2048> iq1;
};

/// Unpacked once, at the first call.
const GridPoints& grid_points();

}  // namespace detent
