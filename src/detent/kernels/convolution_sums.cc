#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/strided_view.h"
#include "detent/kernels/product.h"
#include "detent/kernels/sums.h"
#include "detent/kernels/tensor_layout.h"

// A convolution is a product of the weight [out, depth] and a matrix [depth, columns], where a column is the
// window of one position of one sample. Tiles of some columns are computed from panels of some rows of that
// matrix, which are small enough to stay in the cache and are made when they are needed (im2col).

namespace detent {
namespace {

constexpr int64_t kPanelDepth = 128;
constexpr int64_t kPanelColumns = 192;  // a multiple of the 48 that a product takes at once
constexpr int64_t kLeastColumns = 48;
constexpr int64_t kTileElements = 128 << 10;
constexpr int64_t kChunks = 64;
constexpr size_t kDims = 3;
using Sizes = std::array<int64_t, kDims>;

/// The last of 1 to 3 dimensions; `missing` for the others.
Sizes three(std::span<const int64_t> sizes, int64_t missing) {
  Sizes result;
  result.fill(missing);
  std::ranges::copy(sizes, result.begin() + static_cast<std::ptrdiff_t>(kDims - sizes.size()));
  return result;
}

int64_t product(const Sizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

struct Geometry {
  int64_t batch, groups, outputs, channels, depth;  // channels and outputs of a group
  Sizes input, output, kernel, stride, dilation;    // input: with its padding

  int64_t positions() const { return product(output); }
  int64_t columns() const { return batch * positions(); }
  int64_t tile_columns() const {
    const int64_t fit = kTileElements / outputs / kLeastColumns * kLeastColumns;
    return std::clamp(fit, kLeastColumns, kPanelColumns);
  }
};

/// Columns of a tile whose windows begin in equal steps from each other.
struct Run {
  int64_t first;  // of the tile
  int64_t count;
  int64_t offset;  // in the padded input, of a group's first channel
};

std::vector<Run> runs_of(const Geometry& g, int64_t begin, int64_t end) {
  std::vector<Run> runs;
  const int64_t sample_size = g.groups * g.channels * product(g.input);
  for (int64_t column = begin; column < end;) {
    const int64_t position = column % g.positions();
    const int64_t x = position % g.output[2];
    const int64_t y = position / g.output[2] % g.output[1];
    const int64_t z = position / g.output[2] / g.output[1];
    const int64_t count = std::min(g.output[2] - x, end - column);
    const int64_t offset = column / g.positions() * sample_size +
                           (z * g.stride[0] * g.input[1] + y * g.stride[1]) * g.input[2] + x * g.stride[2];
    if (!runs.empty() && runs.back().offset + runs.back().count * g.stride[2] == offset) {
      runs.back().count += count;
    } else {
      runs.push_back({column - begin, count, offset});
    }
    column += count;
  }
  return runs;
}

/// Where the elements of a window lie, from its first.
std::vector<int64_t> window_offsets(const Geometry& g) {
  std::vector<int64_t> offsets;
  offsets.reserve(static_cast<size_t>(g.depth));
  for (int64_t c = 0; c < g.channels; ++c) {
    for (int64_t z = 0; z < g.kernel[0]; ++z) {
      for (int64_t y = 0; y < g.kernel[1]; ++y) {
        for (int64_t x = 0; x < g.kernel[2]; ++x) {
          const int64_t row = (c * g.input[0] + z * g.dilation[0]) * g.input[1] + y * g.dilation[1];
          offsets.push_back(row * g.input[2] + x * g.dilation[2]);
        }
      }
    }
  }
  return offsets;
}

void copy_run(const float* from, int64_t step, int64_t count, float* to) {
  if (step == 1) {
    std::copy_n(from, count, to);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
  }
}

/// The tensors of a convolution, and where the elements of its windows lie.
class WindowProduct {
 public:
  WindowProduct(const Geometry& geometry, const Tensor& input, const Tensor& weight,
                const std::optional<Tensor>& bias, Tensor& output)
      : g_(geometry),
        input_(input.values<float>().data()),
        weight_(weight.values<float>().data()),
        bias_(bias ? bias->values<float>().data() : nullptr),
        output_(output.values<float>().data()),
        offsets_(window_offsets(geometry)) {}

 protected:
  const Geometry g_;
  const float* input_;
  const float* weight_;
  const float* bias_;
  float* output_;
  std::vector<int64_t> offsets_;
};

class TileProduct : WindowProduct {
 public:
  using WindowProduct::WindowProduct;

  int64_t count() const { return (g_.columns() + g_.tile_columns() - 1) / g_.tile_columns() * g_.groups; }

  /// Computes tiles [begin, end), those of the same columns next to each other.
  void compute(int64_t begin, int64_t end) const {
    std::vector<float> panel(static_cast<size_t>(kPanelDepth * g_.tile_columns()));
    std::vector<float> sums(static_cast<size_t>(g_.outputs * g_.tile_columns()));
    std::vector<Run> runs;
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t first = tile / g_.groups * g_.tile_columns();
      const int64_t last = std::min(first + g_.tile_columns(), g_.columns());
      if (tile == begin || tile % g_.groups == 0) runs = runs_of(g_, first, last);
      const int64_t group = tile % g_.groups;
      add_products(group, last - first, runs, panel, sums);
      store(group, first, last, sums);
    }
  }

 private:
  void add_products(int64_t group, int64_t columns, const std::vector<Run>& runs, std::vector<float>& panel,
                    std::vector<float>& sums) const {
    const int64_t stride = g_.tile_columns();
    for (int64_t row = 0; row < g_.outputs; ++row) {
      const float start = bias_ == nullptr ? 0 : bias_[group * g_.outputs + row];
      std::fill_n(sums.data() + row * stride, stride, start);
    }
    const float* const input = input_ + group * g_.channels * product(g_.input);
    for (int64_t k = 0; k < g_.depth; k += kPanelDepth) {
      const int64_t depth = std::min(kPanelDepth, g_.depth - k);
      for (int64_t i = 0; i < depth; ++i) {
        const float* const from = input + offsets_[static_cast<size_t>(k + i)];
        for (const Run& run : runs)
          copy_run(from + run.offset, g_.stride[2], run.count, panel.data() + i * stride + run.first);
      }
      add_product({.a = weight_ + group * g_.outputs * g_.depth + k,
                   .a_row = g_.depth,
                   .a_column = 1,
                   .b = panel.data(),
                   .b_stride = stride,
                   .c = sums.data(),
                   .c_stride = stride,
                   .rows = g_.outputs,
                   .depth = depth,
                   .column_begin = 0,
                   .column_end = (columns + FloatProduct::kPadding - 1) / FloatProduct::kPadding *
                                 FloatProduct::kPadding});
    }
  }

  void store(int64_t group, int64_t first, int64_t last, const std::vector<float>& sums) const {
    for (int64_t column = first; column < last;) {
      const int64_t sample = column / g_.positions();
      const int64_t position = column % g_.positions();
      const int64_t count = std::min(g_.positions() - position, last - column);
      for (int64_t row = 0; row < g_.outputs; ++row) {
        const int64_t channel = (sample * g_.groups + group) * g_.outputs + row;
        std::copy_n(sums.data() + row * g_.tile_columns() + column - first, count,
                    output_ + channel * g_.positions() + position);
      }
      column += count;
    }
  }
};

/// Windows in steps of 1: rows of the matrix are parts of the padded input as they lie. Columns between the
/// windows of two rows are computed too, and left out.
class PlaneProduct : WindowProduct {
 public:
  PlaneProduct(const Geometry& geometry, const Tensor& input, const Tensor& weight,
               const std::optional<Tensor>& bias, Tensor& output)
      : WindowProduct(geometry, input, weight, bias, output),
        columns_(plane_columns(geometry)),
        tile_(std::min(geometry.tile_columns(), columns_) / FloatProduct::kPadding * FloatProduct::kPadding),
        tiles_((columns_ + tile_ - 1) / tile_) {}

  /// Whether few columns are left out, and vectors of columns fit in.
  static bool is_for(const Geometry& g) {
    const bool has_steps = std::ranges::any_of(g.stride, [](int64_t step) { return step != 1; });
    return !has_steps && g.input[2] <= g.output[2] + g.output[2] / 4 &&
           plane_columns(g) >= FloatProduct::kPadding;
  }

  int64_t count() const { return g_.batch * g_.groups * g_.output[0] * tiles_; }

  void compute(int64_t begin, int64_t end) const {
    std::vector<float> sums(static_cast<size_t>(g_.outputs * tile_));
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t z = tile / tiles_ % g_.output[0];
      const int64_t group = tile / tiles_ / g_.output[0];  // of all samples
      const int64_t rest = std::min(tile_, columns_ - tile % tiles_ * tile_);
      // The last tile begins where a multiple of vectors ends with the plane.
      const int64_t width =
          (rest + FloatProduct::kPadding - 1) / FloatProduct::kPadding * FloatProduct::kPadding;
      const int64_t start = tile % tiles_ * tile_;
      const int64_t first = start + rest - width;
      add_products(group, z, first, width, sums);
      store(group, z, first, {start, start + rest}, sums);
    }
  }

 private:
  static int64_t plane_columns(const Geometry& g) { return (g.output[1] - 1) * g.input[2] + g.output[2]; }

  void add_products(int64_t group, int64_t z, int64_t first, int64_t width, std::vector<float>& sums) const {
    const int64_t output = group % g_.groups * g_.outputs;
    for (int64_t row = 0; row < g_.outputs; ++row)
      std::fill_n(sums.data() + row * tile_, width, bias_ == nullptr ? 0 : bias_[output + row]);
    const float* const input =
        input_ + group * g_.channels * product(g_.input) + z * g_.input[1] * g_.input[2] + first;
    for (int64_t k = 0; k < g_.depth; k += kPanelDepth) {
      add_product(OffsetProduct{.a = weight_ + output * g_.depth + k,
                                .a_row = g_.depth,
                                .a_column = 1,
                                .b = input,
                                .offsets = offsets_.data() + k,
                                .c = sums.data(),
                                .c_stride = tile_,
                                .rows = g_.outputs,
                                .depth = std::min(kPanelDepth, g_.depth - k),
                                .column_begin = 0,
                                .column_end = width});
    }
  }

  struct Range {
    int64_t begin;
    int64_t end;
  };

  /// `sums` are those from column `first` on.
  void store(int64_t group, int64_t z, int64_t first, Range columns, const std::vector<float>& sums) const {
    const int64_t pitch = g_.input[2];
    for (int64_t y = columns.begin / pitch; y < g_.output[1] && y * pitch < columns.end; ++y) {
      const int64_t begin = std::max(columns.begin, y * pitch);
      const int64_t count = std::min(columns.end, y * pitch + g_.output[2]) - begin;
      if (count <= 0) continue;
      const int64_t position = (z * g_.output[1] + y) * g_.output[2] + begin - y * pitch;
      for (int64_t row = 0; row < g_.outputs; ++row) {
        std::copy_n(sums.data() + row * tile_ + begin - first, count,
                    output_ + (group * g_.outputs + row) * g_.positions() + position);
      }
    }
  }

  int64_t columns_;  // of a plane of windows
  int64_t tile_;
  int64_t tiles_;  // of a plane
};

template <class Product>
void compute_tiles(const Product& tiles) {
  const int64_t grain = std::max<int64_t>(1, tiles.count() / kChunks);  // of which each has its own panel
  parallel_for(tiles.count(), grain, [&](int64_t begin, int64_t end) { tiles.compute(begin, end); });
}

Shape spatial(const Tensor& tensor) { return {tensor.shape().begin() + 2, tensor.shape().end()}; }

/// The elements of `inputs` in a larger or smaller tensor of zeros: place p of a dimension goes to
/// begin + p * step, where it is inside.
struct Spread {
  std::vector<int64_t> begin;
  std::vector<int64_t> step;
  Shape sizes;
};
Tensor spread_out(const Tensor& inputs, const Spread& spread) {
  Shape shape = {inputs.dim(0), inputs.dim(1)};
  shape.insert(shape.end(), spread.sizes.begin(), spread.sizes.end());
  Tensor result = result_tensor(shape);
  const Sizes from = three(spatial(inputs), 1);
  const Sizes to = three(spread.sizes, 1);
  const Sizes begin = three(spread.begin, 0);
  const Sizes step = three(spread.step, 1);
  const float* const values = inputs.values<float>().data();
  float* const results = result.values<float>().data();
  // Elements of a row that are inside.
  const int64_t low = std::max<int64_t>(0, (-begin[2] + step[2] - 1) / step[2]);
  const int64_t high = std::min(from[2], (to[2] - begin[2] + step[2] - 1) / step[2]);
  const int64_t plane = product(to);
  parallel_for(shape[0] * shape[1], 1, [&](int64_t first, int64_t last) {
    std::fill(results + first * plane, results + last * plane, 0.0F);
    for (int64_t row = first * from[0] * from[1]; row < last * from[0] * from[1]; ++row) {
      const int64_t z = begin[0] + row / from[1] % from[0] * step[0];
      const int64_t y = begin[1] + row % from[1] * step[1];
      if (z < 0 || z >= to[0] || y < 0 || y >= to[1]) continue;
      float* const target = results + ((row / from[1] / from[0] * to[0] + z) * to[1] + y) * to[2];
      const float* const source = values + row * from[2];
      for (int64_t i = low; i < high; ++i) target[begin[2] + i * step[2]] = source[i];
    }
  });
  return result;
}

Tensor padded(const Tensor& inputs, const std::vector<int64_t>& padding) {
  if (std::ranges::all_of(padding, [](int64_t size) { return size == 0; })) return inputs;
  Spread spread{padding, std::vector<int64_t>(padding.size(), 1), spatial(inputs)};
  for (size_t d = 0; d < padding.size(); ++d) spread.sizes[d] += 2 * padding[d];
  return spread_out(inputs, spread);
}

/// [C, out / groups, ...] to [out, C / groups, ...], each window the other way round.
Tensor swapped_weight(const Tensor& weight, int64_t groups) {
  const int64_t inputs = weight.dim(0) / groups;
  const int64_t outputs = weight.dim(1);
  const int64_t window = element_count(spatial(weight));
  Shape shape = spatial(weight);
  shape.insert(shape.begin(), {groups * outputs, inputs});
  const StridedView view = {.shape = {groups, outputs, inputs, window},
                            .strides = {inputs * outputs * window, window, outputs * window, -1},
                            .offset = window - 1};
  return weight.numel() == 0 ? result_tensor(shape) : gathered(weight, view).reshaped(shape);
}

}  // namespace

Tensor convolution_sums(const Tensor& inputs, const Tensor& weight, const std::optional<Tensor>& bias,
                        const ConvolutionWindow& window) {
  const Tensor input = padded(inputs, window.padding);
  Geometry g = {.batch = input.dim(0),
                .groups = window.groups,
                .outputs = weight.dim(0) / window.groups,
                .channels = weight.dim(1),
                .depth = weight.numel() / std::max<int64_t>(weight.dim(0), 1),
                .input = three(spatial(input), 1),
                .output = {1, 1, 1},
                .kernel = three(spatial(weight), 1),
                .stride = three(window.stride, 1),
                .dilation = three(window.dilation, 1)};
  if (input.dim(1) != g.channels * g.groups) {
    fail("convolution of {} channels: got a tensor of shape {}", g.channels * g.groups,
         shape_text(inputs.shape()));
  }
  Shape shape = {g.batch, weight.dim(0)};
  for (size_t d = 0; d < kDims; ++d) {
    const int64_t reach = g.dilation[d] * (g.kernel[d] - 1) + 1;
    if (g.input[d] < reach)
      fail("convolution with a window of {}: got a tensor of shape {}", reach, shape_text(inputs.shape()));
    g.output[d] = (g.input[d] - reach) / g.stride[d] + 1;
    if (d + window.stride.size() >= kDims) shape.push_back(g.output[d]);
  }
  Tensor output = result_tensor(shape);
  if (output.numel() == 0) return output;
  PlaneProduct::is_for(g) ? compute_tiles(PlaneProduct(g, input, weight, bias, output))
                          : compute_tiles(TileProduct(g, input, weight, bias, output));
  return output;
}

Tensor transposed_convolution_sums(const Tensor& inputs, const Tensor& weight,
                                   const std::optional<Tensor>& bias, const ConvolutionWindow& window,
                                   const std::vector<int64_t>& output_padding) {
  const size_t dims = window.stride.size();
  const ConvolutionWindow dense = {std::vector<int64_t>(dims, 1), std::vector<int64_t>(dims, 0),
                                   window.dilation, window.groups};
  Spread spread{{}, window.stride, {}};
  for (size_t d = 0; d < dims; ++d) {
    const auto axis = static_cast<int64_t>(d) + 2;
    // With `before` zeros in front, and as many after plus the output's padding. Fewer than none: some of
    // the inputs only reach places that the padding cuts off.
    const int64_t before = window.dilation[d] * (weight.dim(axis) - 1) - window.padding[d];
    spread.begin.push_back(before);
    spread.sizes.push_back((inputs.dim(axis) - 1) * window.stride[d] + 1 + 2 * before + output_padding[d]);
  }
  return convolution_sums(spread_out(inputs, spread), swapped_weight(weight, window.groups), bias, dense);
}

}  // namespace detent
