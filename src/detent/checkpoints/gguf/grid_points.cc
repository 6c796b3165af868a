#include "detent/checkpoints/gguf/gguf_format.h"

namespace detent {
namespace {

// Packed points, a fact of the formats: the digits of a point's coordinates, that of the first lowest, 2 bits
// each in grids of 8 dimensions, 3 bits in those of 4.
#include "detent/checkpoints/gguf/grid_points.inc"

/// The coordinate that each digit stands for.
constexpr std::array<uint8_t, 4> kIq2Magnitudes = {8, 25, 43, 0};
constexpr std::array<uint8_t, 4> kSignedUnits = {0xFF, 0, 1, 0};
constexpr std::array<uint8_t, 8> kIq3XxsMagnitudes = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr std::array<uint8_t, 8> kIq3SMagnitudes = {1, 3, 5, 7, 9, 11, 13, 15};

template <class Point, size_t kPoints, size_t kDigits>
void unpack_points(const uint16_t (&packed)[kPoints], const std::array<uint8_t, kDigits>& coordinates,
                   std::array<Point, kPoints>& points) {
  constexpr unsigned kBits = kDigits == 4 ? 2 : 3;
  for (size_t i = 0; i < kPoints; ++i) {
    points[i] = 0;
    for (unsigned j = 0; j < sizeof(Point); ++j) {
      const unsigned digit = packed[i] >> kBits * j & (kDigits - 1);
      points[i] |= Point{coordinates[digit]} << 8 * j;
    }
  }
}

GridPoints unpacked_points() {
  GridPoints points{};
  unpack_points(kPackedIq2Xxs, kIq2Magnitudes, points.iq2_xxs);
  unpack_points(kPackedIq2Xs, kIq2Magnitudes, points.iq2_xs);
  unpack_points(kPackedIq2S, kIq2Magnitudes, points.iq2_s);
  unpack_points(kPackedIq3Xxs, kIq3XxsMagnitudes, points.iq3_xxs);
  unpack_points(kPackedIq3S, kIq3SMagnitudes, points.iq3_s);
  unpack_points(kPackedIq1, kSignedUnits, points.iq1);
  return points;
}

}  // namespace

const GridPoints& grid_points() {
  static const GridPoints points = unpacked_points();
  return points;
}

}  // namespace detent
