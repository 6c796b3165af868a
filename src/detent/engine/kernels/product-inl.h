// Included by target_*.cc: the second operand of a product as a layer's weights.

/// One step of a block, less `middle`; zeros where there are fewer than four rows or sixteen columns.
inline void PackStep(const ColumnPacking& p, int64_t step, int64_t block, int8_t* to) {
  const uint8_t* first = p.bytes + step * kStepInputs * p.row + block * kBlockOutputs * p.column;
  const int64_t rows = std::min(kStepInputs, p.depth - step * kStepInputs);
  const int64_t columns = std::min(kBlockOutputs, p.columns - block * kBlockOutputs);
  if (rows < kStepInputs || columns < kBlockOutputs) std::memset(to, 0, kBlockBytes);
  for (int64_t k = 0; k < rows; ++k) {
    for (int64_t o = 0; o < columns; ++o)
      to[o * kStepInputs + k] = static_cast<int8_t>(first[k * p.row + o * p.column] - p.middle);
  }
}

/// The same where four rows of sixteen columns are there, and rows or columns are adjacent bytes.
template <class O = Ops>
inline bool PackWholeStep(const ColumnPacking& p, const uint8_t* first, int8_t* to) {
  if (p.row == 1) {
    for (int64_t o = 0; o < kBlockOutputs; ++o)
      std::memcpy(to + o * kStepInputs, first + o * p.column, kStepInputs);
    for (int64_t i = 0; i < kBlockBytes; ++i)
      to[i] = static_cast<int8_t>(static_cast<uint8_t>(to[i]) - p.middle);
    return true;
  }
  if constexpr (requires { &O::InterleaveRows; }) {
    if (p.column == 1) {
      const uint8_t* const rows[] = {first, first + p.row, first + 2 * p.row, first + 3 * p.row};
      O::InterleaveRows(rows, p.middle, to);
      return true;
    }
  }
  return false;
}

void PackColumns(const ColumnPacking& packing) {
  const ColumnPacking p = packing;
  const int64_t whole_steps = p.depth / kStepInputs;
  const int64_t whole_blocks = p.columns / kBlockOutputs;
  const int64_t steps = (p.depth + kStepInputs - 1) / kStepInputs;
  for (int64_t step = 0; step < steps; ++step) {
    for (int64_t block = 0; block < p.blocks; ++block) {
      int8_t* to = p.to + (step * p.blocks + block) * kBlockBytes;
      const bool is_whole = step < whole_steps && block < whole_blocks;
      const uint8_t* first = p.bytes + step * kStepInputs * p.row + block * kBlockOutputs * p.column;
      if (!is_whole || !PackWholeStep(p, first, to)) PackStep(p, step, block, to);
    }
  }
}
