#pragma once

#include <array>
#include <cstdint>

namespace detent {

/// What one thread of this machine can do at most, measured.
struct MachineLimits {
  double products_per_second = 0;  // 8 bits times 8 bits, added to 32, in the first-level cache
  double float_products_per_second = 0;
  double bytes_per_second = 0;  // read from memory
};
MachineLimits measured_limits();

namespace avx512_vnni {
// What LDTILECFG takes and STTILECFG gives, 64 bytes.
void load_tile_shapes(const uint8_t* shapes);
void store_tile_shapes(uint8_t* shapes);
}  // namespace avx512_vnni

/// In the end the tile registers of the thread have the shapes that they had: others in the process, such as
/// ONNX Runtime, set theirs once a thread, and multiplying tiles of other shapes is an illegal instruction.
class KeptTileShapes {
 public:
  KeptTileShapes();
  ~KeptTileShapes();
  KeptTileShapes(const KeptTileShapes&) = delete;
  KeptTileShapes& operator=(const KeptTileShapes&) = delete;

 private:
  bool has_tiles_ = false;
  std::array<uint8_t, 64> shapes_ = {};
};

}  // namespace detent
