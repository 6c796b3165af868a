#pragma once

#include <span>
#include <string>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// The two sizes that are tried for dimensions that a model leaves open: one of which halves of halves are
/// whole, and a part of it more. Batches are others, so that no size is taken for one of them; on the line
/// through both choices all are 1 at the same place.
struct OpenSizes {
  int64_t size = 64;
  int64_t part = 2;   // divides size
  int64_t batch = 0;  // the only size of batches, which fixes these; 0: others

  constexpr int64_t first() const { return size; }
  constexpr int64_t second() const { return size + size / part; }
  constexpr int64_t first_batch() const { return batch > 0 ? batch : 2 * size - 1; }
  constexpr int64_t second_batch() const { return batch > 0 ? batch : 2 * (size + size / part) - 1; }
};

/// In the order in which they are tried: windows of most networks fit into the first, some have longer ones,
/// or tables of fewer positions. Pairs close together are for networks that take a few sizes only, such as
/// text recognition with images 32 or 48 high, or 512 samples of speech.
inline constexpr OpenSizes kTriedSizes[] = {{64},      {512},    {16},    {4096},   {65536},
                                            {4},       {48, 8},  {32, 8}, {512, 8}, {256, 8},
                                            {1024, 8}, {224, 8}, {128, 8}};

/// Whether elements of a result that are the same for two choices of the sizes of open dimensions differ for
/// others: size / 200 does not for 127 and 191, size > 10 neither. Elements of the inputs that differ between
/// the choices are tried on the line through both, which keeps x - x and x / x the same.
bool depends_on_open_sizes(const Node& node, std::span<const Operand> first, std::span<const Operand> second,
                           const Operand& first_result, const Operand& second_result, OpenSizes sizes = {});

/// Whether sizes of a result are the same for both choices, but not for others. Windows round down: a stride
/// of 441 gives one position for 64 and for 96. Slices are cut off: of both nothing may be left.
bool hides_open_sizes(const Node& node, std::span<const Operand> first, std::span<const Operand> second,
                      const Operand& first_result, const Operand& second_result);

/// Values of a growing graph where open sizes leave other remainders than those that are tried. Windows round
/// down: what x exceeds the positions that they cover by is the same for both sizes, and on the line through
/// them, but not for others.
class OtherSizes {
 public:
  /// Whether elements of a result that are the same for both choices differ here; `first` are the sizes of
  /// the first one. False where these are not known, or the network takes no such sizes.
  bool differ(const Graph& graph, const NamedSizes& first, const std::string& value,
              const Operand& first_result, const Operand& second_result);

 private:
  const Operand* find(const Graph& graph, const NamedSizes& first, const std::string& value);
  void infer_new_nodes(const Graph& graph, const NamedSizes& sizes);

  ValueTypes values_;
  size_t next_ = 0;   // the first node that is not inferred yet
  size_t tried_ = 0;  // how many choices of sizes the network does not take
};

/// Whether elements are known of the result of which some are the same for both, though not those of an
/// input.
bool may_cancel(std::span<const Operand> first, std::span<const Operand> second, const Operand& first_result,
                const Operand& second_result);

/// Sizes of open dimensions at which a size of an operand would be one of those that are wanted: sizes of
/// rows, images and volumes grow with them as the first, second and third power of a line.
std::vector<int64_t> sizes_that_give(std::span<const int64_t> wanted, std::span<const Operand> first,
                                     std::span<const Operand> second, const OpenSizes& tried);

}  // namespace detent
