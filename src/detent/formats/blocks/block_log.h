#pragma once

#include "detent/formats/blocks/block_format.h"

namespace detent {

class BlockLogParameters;

/// Powers of two +-2^e with a shared bias = clamp(2^(width-1) - 1 - ceil(log2 max), 0, 2^exponent_bias_width
/// - 1): -bias <= e <= 2^(width-1) - 1 - bias, rounded in the log domain: 2^k * m with 1 <= m < 2 goes up
/// when m > sqrt(2). No zero: it becomes +2^-bias; a block without a finite non-zero
/// element has the bias of max = 1. A
/// power that float32 cannot hold is the next float32 toward zero.
struct BlockLog : BlockFormatBase {
  static constexpr const char* kName = "block_log";
  static constexpr const char* kHelp = "powers of two that share an exponent bias";
  using Parameters = BlockLogParameters;
  static constexpr const char* kScaleStream = "biases";

  int width = 8;
  int exponent_bias_width = 8;
  BlockSize block_size = {{16}};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits an element: sign and exponent", Between{2, 9});
    visit("exponent_bias_width", self.exponent_bias_width, "bits of the shared exponent bias", Between{1, 8});
    visit("block_size", self.block_size, kBlockSizeHelp);
  }

  double bits() const { return width; }
  int shared_bits() const { return exponent_bias_width; }
  BlockSize blocks() const { return block_size; }
  void validate(const std::string&) const {}
  /// As in log.
  BlockElement elements() const;
  BlockScales scales(const double* numbers) const;

  /// Exponent bias of a block with ceil(log2 max) = max_exponent.
  int bias(int max_exponent) const;
  int top_code() const { return (1 << (width - 1)) - 1; }

  Parameters parameters(const Group&, uint64_t /*seed*/) const;

  bool operator==(const BlockLog&) const = default;

 private:
  int element_bias() const;
};

/// Parameters of the kernel. Shared are: the largest and the smallest magnitude, the value of 0, both 2^24
/// times as large; then both as they are, and the largest input that does not saturate.
class BlockLogParameters {
 public:
  static constexpr bool kByBlocks = true;
  /// Plain blocks are rounded 2^24 above, where what float32 has as subnormals is normal.
  static constexpr int kShift = 24;

  explicit BlockLogParameters(const BlockLog& format);
  SharedScale shared_scale(float max) const;
  const PlainBlocks& plain_blocks() const { return plain_blocks_; }

 private:
  /// float32 holds the smallest magnitude, and 2^24 times the largest.
  bool is_plain(int bias) const {
    return bias <= kLargestBias && format_.top_code() - bias <= kLargestExponent;
  }
  static constexpr int kLargestBias = 149;
  static constexpr int kLargestExponent = 127 - kShift;

  BlockLog format_;
  PlainBlocks plain_blocks_;
};

}  // namespace detent
