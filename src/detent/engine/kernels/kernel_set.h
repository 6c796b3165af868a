#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "detent/inference/requantize.h"

// The inner loops of the engine, compiled once for each instruction set (kernels/target_*.cc). Codes are
// bytes here: the code less the lowest of its type, so from 0 to 255, with the zero point less the lowest
// too. All sets give the same bytes.

namespace detent {

/// Outputs whose weights lie side by side: 4 of the first, 4 of the second, ...
inline constexpr int64_t kBlockOutputs = 16;
/// Inputs that are multiplied and added at once.
inline constexpr int64_t kStepInputs = 4;
inline constexpr int64_t kBlockBytes = kBlockOutputs * kStepInputs;

/// How weights lie in memory; those of some steps share bytes.
enum class WeightPacking { kBytes, kFour, kThree, kTwo, kTernary, kBitPlanes, kSigns };

struct PackingShape {
  int steps;    // that lie together ...
  int vectors;  // ... in so many vectors of a step
  int shift;    // of weights that lie in the high bits of bytes
  const char* text;
};

/// Weights of four and two bits: those of the first step in the lowest bits, plus half of their number. Of
/// three bits and ternary ones: see narrow_weights.cc.
constexpr PackingShape packing_shape(WeightPacking packing) {
  switch (packing) {
    case WeightPacking::kBytes:
      return {1, 1, 0, "8"};
    case WeightPacking::kFour:
      return {2, 1, 4, "4"};
    case WeightPacking::kThree:
      return {8, 3, 5, "3"};
    case WeightPacking::kTwo:
      return {4, 1, 6, "2"};
    case WeightPacking::kTernary:
      return {5, 1, 6, "1.6"};
    case WeightPacking::kBitPlanes:
      return {1, 1, 0, "2"};
    case WeightPacking::kSigns:
      return {1, 1, 0, "1"};
  }
  return {};
}

inline constexpr int kTernaryOffset = 253;

/// Inputs and weights of -1, 0 and 1 as two bits each: whether it is not 0, and whether it is below. Words of
/// 64 inputs follow each other, each the bits of one kind and then of the other; so do the weights of 16
/// outputs: [run][word][kind][16]. Weights of -1 and 1 alone (kSigns) have the second kind only.
inline constexpr int64_t kWordInputs = 64;
inline constexpr int64_t kWordBytes = 2 * kWordInputs / 8;
constexpr bool counts_bits(WeightPacking packing) {
  return packing == WeightPacking::kBitPlanes || packing == WeightPacking::kSigns;
}
constexpr int64_t weight_kinds(WeightPacking packing) { return packing == WeightPacking::kSigns ? 1 : 2; }

/// How sums become what is stored.
struct SumFinish {
  /// For each sum; `multiplier` takes it to the scale of the result, or to its value.
  const float* multiplier = nullptr;
  const FixedMultiplier* fixed = nullptr;  // instead
  bool gives_values = false;               // float32 instead of codes
  float least = 0;                         // steps from the zero point, as floats ...
  float most = 0;
  int32_t zero = 0;  // ... and where these begin in bytes
  /// No sum is so large that a 32-bit integer does not hold its steps: they may be cut where they are bytes.
  bool cuts_bytes = false;
};

/// Rows of results that a depthwise kernel computes at once.
inline constexpr int64_t kMostDepthwiseRows = 4;

/// Sums of products over windows: `windows` times the outputs of a group of blocks.
struct WindowSums {
  const uint8_t* const* windows;  // first byte of each
  std::byte* const* results;      // of each the place of the layer's output 0 ...
  int64_t result_offset;          // ... and of the first block's from there, in bytes
  int64_t count;
  const int64_t* runs;  // where in a window its runs of bytes begin
  int64_t run_count;
  int64_t run_steps;      // in each run; of bit planes: words
  const int8_t* weights;  // [run][step][block][16][4], or packed: [run][steps][vector][block][16][4]
  int64_t blocks;
  int64_t outputs;       // of the blocks; the last may be filled up
  const int32_t* start;  // of each output: bias and what the zero point takes off
  SumFinish finish;
  WeightPacking packing = WeightPacking::kBytes;
  const int32_t* others_than_zero = nullptr;  // of kSigns: inputs of each window
  /// Where windows are three positions wide and may lie next to each other: bytes from one to the next. Each
  /// run is three positions then.
  int64_t column_bytes = 0;
  /// Where some runs at a time are added: [window][output of the blocks], what others gave, and instead of
  /// results what these give.
  const int32_t* sums_before = nullptr;
  int32_t* sums_after = nullptr;
  /// Weights that are read next, to prefetch.
  const int8_t* next = nullptr;
  int64_t next_bytes = 0;
};

/// A channel by itself: sums over the taps of windows that lie side by side, in some rows of results at once.
struct DepthwiseSums {
  const uint8_t* input;  // of the first window of the first row
  int64_t input_row;     // bytes to the next row of inputs
  const int64_t* taps;   // 4 * quads within a row of a window, bytes from its first
  int64_t quads;
  int64_t height;  // rows of a plane of a window
  int64_t planes = 1;
  int64_t plane_bytes = 0;  // from a plane of inputs to the next
  int64_t upper = 0;        // bytes from inputs to the upper bytes of their codes, if they have two
  /// [row of inputs][kMostDepthwiseRows]: the first quad of weights that it has for each row of results, or
  /// -1.
  const int64_t* row_quads;
  const int64_t* input_rows;  // that one, two, ... rows of results take
  int64_t stride, dilation;   // from row to row
  const int8_t* weights;      // [chunk][plane][row][quad][vector], in the order that interleaving bytes gives
  const int32_t* start;       // [chunk][vector], likewise
  int64_t chunks;             // after which weights repeat
  SumFinish finish;           // multipliers likewise
  uint8_t* result;            // bytes or float32
  int64_t result_row;         // elements
  int64_t result_bytes;       // of an element
  int64_t rows;               // of results, at most KernelSet::most_rows
  int64_t bytes;              // of the inputs of a window's channels, or of a row of windows
  int64_t windows;            // side by side
  int64_t window_step;        // of inputs
  int64_t result_step;        // of results, elements
};

/// Positions of a place as add_blocks takes them: from bytes, or from values, which become two of them.
struct BlockInputs {
  const uint8_t* bytes;
  const float* values;  // instead
  int64_t positions;
  int64_t groups;  // of a position, ...
  int64_t inputs;  // ... each of so many
  int64_t block;
  int64_t steps;     // of a block, as they are left: what fills it up is 0
  uint8_t from;      // what bytes are counted from
  float scale;       // of values, ...
  int32_t steps_of;  // ... whose numbers of it are counted from this
  int32_t factor;    // of sums
  int8_t* codes;     // BlockSums::inputs
  int32_t* sums;     // BlockSums::input_sums
};

/// The largest weight without a sign of which 16 bits hold four products with signed bytes.
inline constexpr int kMostSmallWeight = 63;

/// Windows of inputs times weights that share scales in blocks, of some groups of 16 outputs: float32 sums of
/// integer sums over blocks (inference/block_sums.h). Inputs are signed bytes, or two of them, and weights
/// unsigned ones.
struct BlockSums {
  const int8_t* inputs;       // [block][steps][4], of two bytes [block][steps][low, high][4]
  const int32_t* input_sums;  // [block]: what the integer sums begin with
  bool wide;                  // inputs of two bytes
  const int64_t* windows;     // first block of each
  int64_t count;
  const int64_t* taps;  // blocks from there to the first at each position
  int64_t tap_count;
  int64_t tap_blocks;          // at each position
  const uint8_t* weights;      // [group][position][block][steps][16][4]
  bool nibbles;                // two steps in a vector, the first in the low bits ...
  bool is_small;               // ... of weights of at most kMostSmallWeight, ...
  const uint8_t* table;        // ... of which this has 16
  const uint8_t* exponents;    // [group][position][block][16], of the scales, + 127; null: ...
  const uint16_t* scales;      // ... likewise, the high halves of float32; null: ...
  const float* whole_scales;   // ... likewise
  const int16_t* weight_sums;  // likewise, to be added ...
  int32_t difference;          // ... so many times
  int64_t steps;               // of a block
  int64_t first_group, last_group;
  int64_t outputs;  // of all groups; the last may be filled up
  const float* start;
  float multiplier;
  SumFinish finish;           // without multipliers
  float unit;                 // instead of bytes leave steps times this, as float32; 0: bytes
  std::byte* const* results;  // of each window the place of the layer's output 0 ...
  int64_t result_offset;      // ... and of these groups' from there, in bytes
};

/// A matrix of bytes as weights: element (k, n) lies at k * row + n * column. After its depth and its
/// columns come zeros.
struct ColumnPacking {
  const uint8_t* bytes;
  int64_t row, column;
  int64_t depth, columns;
  uint8_t middle;  // what bytes are counted from, so that they have signs
  int64_t blocks;
  int8_t* to;  // [step][block][16][4]
};

/// steps = a * factor_a + b * factor_b + start: near a ByteAddition, by less than 0.5 - most_away.
struct QuickAddition {
  float factor_a, factor_b, start;
  float most_away;  // 0: of no use
};

/// code = at(((a - zero_a) scale_a + (b - zero_b) scale_b) / scale)
struct ByteAddition {
  float scale_a, scale_b, scale;
  int32_t zero_a, zero_b;
  float least, most;
  int32_t zero;
  QuickAddition quick = {};  // which may stand for it
};

/// code = at(((a - zero_a) scale_a) ((b - zero_b) scale_b) / scale). Scales lie between 1e-9 and 1e9.
struct ByteProduct {
  float scale_a, scale_b, scale;
  int32_t zero_a, zero_b;
  float least, most;
  int32_t zero;
};

/// Quantizes values: code = at(x / scale).
struct ByteQuantization {
  float scale, least, most;
  int32_t zero;
};

/// Rounds values: code = at(x / unit), whose value is so many times `scale`.
struct ValueRounding {
  float unit, least, most, scale;
};

/// Codes of two bytes: value / scale + zero.
struct WideCodes {
  float scale;
  int32_t zero;
};

/// Values of what codes become: (codes[value / scale + zero] - result_zero) * result_scale.
struct WideTable {
  WideCodes from;
  const uint16_t* codes;
  float result_scale;
  int32_t result_zero;
};

/// Means over `count` bytes, of which `divisor` are counted.
struct ByteMean {
  int32_t zero_sum;  // sum of the zero points
  SumFinish finish;  // one multiplier
};

struct KernelSet {
  const char* name;
  int64_t vector_bytes;
  int64_t most_blocks;                     // of a group
  int64_t most_windows[5];                 // at once, by blocks
  int64_t most_rows;                       // of a depthwise call
  void (*add_windows)(const WindowSums&);  // blocks <= most_blocks
  void (*add_depthwise)(const DepthwiseSums&);
  /// The bit planes of positions of `channels` bytes each, of which the byte `zero` is 0, and how many are
  /// not. Up to 64 bytes past the last are read. Null where products of bytes are faster.
  void (*bit_planes)(const uint8_t* bytes, uint8_t zero, int64_t positions, int64_t channels,
                     uint64_t* planes, int32_t* others_than_zero);
  void (*add_bit_planes)(const WindowSums&);  // likewise; one block
  void (*take_blocks)(const BlockInputs&);
  void (*add_blocks)(const BlockSums&);
  void (*pack_columns)(const ColumnPacking&);
  void (*add)(const ByteAddition&, const uint8_t* a, const uint8_t* b, uint8_t* result, int64_t count);
  void (*multiply)(const ByteProduct&, const uint8_t* a, const uint8_t* b, uint8_t* result, int64_t count);
  /// Whether a value is NaN.
  bool (*quantize)(const ByteQuantization&, const float* values, uint8_t* result, int64_t count);
  /// Whether a value is NaN.
  bool (*round)(const ValueRounding&, const float* values, float* result, int64_t count);
  /// The lower and the upper byte of each code.
  void (*split)(const WideCodes&, const float* values, uint8_t* low, uint8_t* high, int64_t count);
  void (*look_up_wide)(const WideTable&, const float* values, float* result, int64_t count);
  /// `count` bytes of each of three planes: the first of each, the second of each, ...
  void (*interleave_three)(const uint8_t* const* planes, uint8_t* result, int64_t count);
  void (*dequantize)(float scale, int32_t zero, const uint8_t* bytes, float* result, int64_t count);
  void (*look_up)(const uint8_t* table, const uint8_t* bytes, uint8_t* result, int64_t count);
  void (*largest)(const uint8_t* const* rows, int64_t row_count, uint8_t* result, int64_t count);
  void (*mean)(const ByteMean&, const uint8_t* const* rows, int64_t row_count, uint8_t* result,
               int64_t count);
};

/// Instruction sets that this processor has, best first.
std::vector<std::string> engine_targets();
/// Makes programs that are compiled from now on use one of them; "" the best that --simd-target leaves.
/// Throws Error naming those there are.
void set_engine_target(std::string_view name);
/// The one in use.
const KernelSet& kernel_set();

namespace portable {
const KernelSet& kernels();
}
namespace avx2 {
const KernelSet& kernels();
}
namespace avx512 {
const KernelSet& kernels();
}
namespace avx512_vnni {
const KernelSet& kernels();
/// With VBMI and VPOPCNTDQ too.
const KernelSet& kernels_of_ice_lake();
/// With tiles of bytes (AMX) too; the kernel must have given the process its registers.
const KernelSet& kernels_of_sapphire_rapids();
// Shapes of the tile registers, 64 bytes as LDTILECFG takes them.
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
