// Included last by target_*.cc.

const KernelSet& kernels() {
  static const KernelSet kSet = {
      .name = kName,
      .vector_bytes = Ops::kBytes,
      .most_blocks = kMostBlocks,
      .most_windows = {kMostWindows[0], kMostWindows[1], kMostWindows[2], kMostWindows[3], kMostWindows[4]},
      .most_rows = kMostRows,
      .add_windows = AddWindows,
      .add_depthwise = AddDepthwise,
      .bit_planes = kBitPlanes,
      .add_bit_planes = kAddBitPlanes,
      .take_blocks = TakeBlocks,
      .add_blocks = kAddBlocks,
      .pack_columns = PackColumns,
      .add = Add,
      .multiply = Multiply,
      .quantize = Quantize,
      .round = Round,
      .split = Split,
      .look_up_wide = LookUpWide,
      .interleave_three = InterleaveThree,
      .dequantize = Dequantize,
      .look_up = LookUp,
      .largest = Largest,
      .mean = Mean};
  return kSet;
}
