#pragma once

#include "detent/formats/blocks/block_format.h"

namespace detent {

/// Elements of the OCP Microscaling formats.
enum class MxElement { kE4M3, kE5M2, kE3M2, kE2M3, kE2M1, kInt8 };
constexpr std::array<const char*, 6> enum_names(MxElement) {
  return {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "int8"};
}

/// OCP Microscaling Formats (MX) v1.0: 8-bit scales 2^(floor(log2 max) - emax), held to 2^-127..2^127, and
/// elements rounded to nearest even that saturate at 448, 57344, 28, 7.5, 6 and 127/64; emax = 8, 15, 4, 2,
/// 2, 0. int8 elements are multiples of 1/64 and symmetric. Largest values beyond float32 are the next toward
/// zero.
struct Mx : BlockFormatBase {
  static constexpr const char* kName = "mx";
  static constexpr const char* kHelp = "OCP microscaling: small elements that share a power-of-two scale";
  using Parameters = BlockGridParameters;
  static constexpr const char* kScaleStream = "scales";

  MxElement element = MxElement::kE4M3;
  BlockSize block_size = {{32}};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("element", self.element, "format of the elements");
    visit("block_size", self.block_size, kBlockSizeHelp);
  }

  double bits() const;
  int shared_bits() const { return 8; }
  BlockSize blocks() const { return block_size; }
  void validate(const std::string&) const {}
  /// As OFP8 and MX define them, int8 in two's complement, where -128 is never written.
  BlockElement elements() const;
  /// E8M0, the exponent + 127. Its NaN, 255, is no scale here: NaN are elements, where those have one.
  BlockScales scales(const double* numbers) const;
  BlockGrid grid() const;
  Parameters parameters(const Group&, uint64_t /*seed*/) const { return Parameters(grid()); }

  bool operator==(const Mx&) const = default;
};

}  // namespace detent
