#include <algorithm>
#include <cmath>
#include <numbers>

#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Fourier transforms as products with cosines and sines.

// Elements of a matrix of a transform: what is computed of a file has to do with its size.
constexpr int64_t kMostElements = int64_t{1} << 22;

/// A transform of `from` numbers to `to`, of a signal of `length`.
struct Transform {
  int64_t length = 0;
  int64_t from = 0;
  int64_t to = 0;
  bool inverse = false;
  bool mirrored = false;  // what goes in stands for its mirror image too
};

/// Cosines and sines of the angles of the exponential, a row for each number that goes in.
struct Waves {
  NodeInput cosine;
  NodeInput sine;
};

Waves waves_of(NodeImport& node, const Transform& transform) {
  if (transform.from < 1 || transform.to < 1 || transform.from > kMostElements / transform.to)
    node.refuse(fmt::format("a transform of {} to {} numbers", transform.from, transform.to));
  Tensor cosine(DType::kFloat32, {transform.from, transform.to});
  Tensor sine(DType::kFloat32, {transform.from, transform.to});
  const double scale = transform.inverse ? 1 / static_cast<double>(transform.length) : 1;
  const double turn = (transform.inverse ? 2 : -2) * std::numbers::pi / static_cast<double>(transform.length);
  size_t place = 0;
  for (int64_t n = 0; n < transform.from; ++n) {
    const bool is_twice = transform.mirrored && n > 0 && 2 * n != transform.length;
    for (int64_t k = 0; k < transform.to; ++k) {
      const double angle = turn * static_cast<double>(n * k % transform.length);
      const double height = is_twice ? 2 * scale : scale;
      cosine.values<float>()[place] = static_cast<float>(height * std::cos(angle));
      sine.values<float>()[place] = static_cast<float>(height * std::sin(angle));
      ++place;
    }
  }
  return {node.constant_of(cosine), node.constant_of(sine)};
}

/// The same forward, of a length that a run gives, a list of one.
Waves computed_waves(NodeImport& node, const NodeInput& length, bool is_half) {
  NodeInput count = length;
  if (is_half) {
    count = node.add("div", {count, NodeImport::integer_of(2)});
    count = node.add("add", {count, NodeImport::integer_of(1)});
  }
  const NodeInput row = node.add("unsqueeze", {node.integers_below(length), NodeImport::list_of({1})});
  const NodeInput turns = node.add("remainder", {node.add("mul", {row, node.integers_below(count)}), length});
  const auto as_float = [&](const NodeInput& x) { return node.add("cast", {x}, {{"dtype", "float32"}}); };
  const NodeInput angle = node.add("mul", {as_float(turns), NodeImport::number_of(-2 * std::numbers::pi)});
  const NodeInput angles = node.add("div", {angle, as_float(length)});
  return {node.add("cos", {angles}), node.add("sin", {angles})};
}

/// Real and imaginary parts, the last absent where there are none.
struct Parts {
  NodeInput real;
  NodeInput imaginary = NodeInput::absent();
};

/// The last dimension, of one or two.
Parts parts_of(NodeImport& node, size_t input) {
  const int64_t count = node.size(input, -1).value_or(kOpenSize);
  if (count != 1 && count != 2) fail("{} parts of a number, expected a last dimension of 1 or 2", count);
  const auto part = [&](int64_t index) {
    return node.add("select", {node.input(input)}, {{"dim", -1}, {"index", index}});
  };
  return {part(0), count == 2 ? part(1) : NodeInput::absent()};
}

NodeInput real_part(NodeImport& node, const Parts& signal, const Waves& waves) {
  const NodeInput real = node.add("matmul", {signal.real, waves.cosine});
  if (signal.imaginary.is_absent()) return real;
  return node.add("sub", {real, node.add("matmul", {signal.imaginary, waves.sine})});
}

NodeInput imaginary_part(NodeImport& node, const Parts& signal, const Waves& waves) {
  const NodeInput imaginary = node.add("matmul", {signal.real, waves.sine});
  if (signal.imaginary.is_absent()) return imaginary;
  return node.add("add", {imaginary, node.add("matmul", {signal.imaginary, waves.cosine})});
}

/// The transform along the last dimension, its parts as a dimension after it.
NodeInput transformed(NodeImport& node, const Parts& signal, const Waves& waves, bool real = false) {
  std::vector<NodeInput> parts = {real_part(node, signal, waves)};
  if (!real) parts.push_back(imaginary_part(node, signal, waves));
  for (NodeInput& part : parts) part = node.add("unsqueeze", {part, NodeImport::list_of({-1})});
  return real ? parts[0] : node.add("cat", std::move(parts), {{"dim", -1}});
}

NodeInput exchanged(NodeImport& node, NodeInput x, int64_t a, int64_t b) {
  return a == b ? x : node.add("transpose", {std::move(x)}, {{"dim0", a}, {"dim1", b}});
}

/// The node's transform along an axis of this size.
Transform transform_of(const NodeImport& node, int64_t size) {
  const bool is_half = node.integer("onesided", 0) != 0;
  Transform transform = {size, size, size, node.integer("inverse", 0) != 0};
  transform.mirrored = transform.inverse && is_half;
  if (transform.mirrored) transform.length = transform.to = 2 * (size - 1);
  if (node.has_input(1)) {
    const auto length = node.integer(size_t{1});
    if (!length) node.refuse("a dft_length that is computed");
    transform.length = transform.to = *length;
  }
  if (transform.length < 1 || transform.length > kMostElements)
    fail("a transform of {} numbers, expected 1 to {}", transform.length, kMostElements);
  transform.from = std::min(size, transform.mirrored ? transform.length / 2 + 1 : transform.length);
  if (is_half && !transform.inverse) transform.to = transform.length / 2 + 1;
  return transform;
}

/// A signal that is longer than the transform is cut; zeros follow a shorter one, which need no product.
NodeInput fourier_along(NodeImport& node, int64_t axis, int64_t dims) {
  const auto size = node.size(0, axis);
  if (!size) node.refuse("an open size of the axis");
  const Transform transform = transform_of(node, *size);
  Parts signal = parts_of(node, 0);
  for (NodeInput* part : {&signal.real, &signal.imaginary}) {
    if (part->is_absent()) continue;
    *part = exchanged(node, *part, axis, dims - 1);
    if (transform.from < *size)
      *part = node.add("dynamic_slice", {*part, NodeImport::list_of({0}),
                                         NodeImport::list_of({transform.from}), NodeImport::list_of({-1})});
  }
  const Waves waves = waves_of(node, transform);
  return exchanged(node, transformed(node, signal, waves, transform.mirrored), axis, dims - 1);
}

/// The axis was an attribute before opset 20. Along one that a run gives, the transforms along each are
/// computed, and one is taken: they have to be of the same shape.
void convert_fourier(NodeImport& node) {
  constexpr int64_t kIsInput = 20;
  if (node.rank(0) < 2) fail("an input of {} dimensions, expected a signal and its parts", node.rank(0));
  const auto dims = static_cast<int64_t>(node.rank(0)) - 1;
  const bool is_input = node.opset() >= kIsInput && node.has_input(2);
  if (!is_input || node.constant(2) != nullptr) {
    int64_t axis = is_input ? node.integer(size_t{2}).value_or(dims)
                            : (node.opset() < kIsInput ? node.integer("axis", 1) : -2);
    if (axis < 0) axis += dims + 1;
    if (axis < 0 || axis >= dims) fail("axis {} of a signal of {} dimensions", axis, dims);
    return node.set_output(0, fourier_along(node, axis, dims));
  }
  if (node.has_input(1) || node.integer("onesided", 0) != 0)
    node.refuse("an axis that is computed, where the result's shape follows from it,");
  NodeInput axis = node.input(2);
  if (node.rank(2) > 0) axis = node.add("dynamic_reshape", {axis, NodeImport::list_of({1})});
  NodeInput result = fourier_along(node, 0, dims);
  for (int64_t d = 1; d < dims; ++d) {
    const NodeInput is_it =
        node.add("logical_or", {node.add("eq", {axis, NodeImport::integer_of(d)}),
                                node.add("eq", {axis, NodeImport::integer_of(d - dims - 1)})});
    result = node.add("where", {is_it, fourier_along(node, d, dims), result});
  }
  node.set_output(0, result);
}

/// A size that is known, from 1 on, or a list of one that a run gives.
NodeInput frame_size(NodeImport& node, size_t input) {
  if (node.constant(input) == nullptr) {
    const NodeInput size = node.add("dynamic_reshape", {node.input(input), NodeImport::list_of({1})});
    if (node.type(input).dtype == DType::kInt64) return size;
    return node.add("cast", {size}, {{"dtype", "int64"}});
  }
  const auto size = node.integer(input);
  if (!size || *size < 1 || *size > kMostElements)
    fail("input {} is {}, expected 1 to {}", input, size.value_or(0), kMostElements);
  return NodeImport::list_of({*size});
}

/// The length of a frame: that of the window, or what is given.
std::optional<int64_t> known_frame_length(const NodeImport& node) {
  if (node.has_input(3)) return node.constant(3) == nullptr ? std::nullopt : node.integer(size_t{3});
  if (!node.has_input(2)) fail("neither a window nor a frame length");
  return node.size(2, 0);
}

/// Parts of a signal, one after the other, each times a window.
NodeInput framed(NodeImport& node, const NodeInput& signal, const NodeInput& step, const NodeInput& length) {
  const NodeInput beyond = node.add("sub", {node.size_of(signal, 1), length});
  const NodeInput count = node.add("add", {node.add("div", {beyond, step}), NodeImport::integer_of(1)});
  const NodeInput first = node.add("mul", {node.integers_below(count), step});
  const NodeInput column = node.add("unsqueeze", {first, NodeImport::list_of({1})});
  const NodeInput places = node.add("add", {column, node.integers_below(length)});
  const NodeInput frames = node.add("gather", {signal, places}, {{"dim", 1}});
  return node.has_input(2) ? node.add("mul", {frames, node.input(2)}) : frames;
}

/// The transform of each frame of a signal [batch, length, parts], or of a real one [batch, length].
void convert_short_fourier(NodeImport& node) {
  if (node.rank(0) != 2 && node.rank(0) != 3)
    fail("a signal of {} dimensions, expected 2 or 3", node.rank(0));
  const NodeInput step = frame_size(node, 1);
  const auto known = known_frame_length(node);
  const NodeInput length = node.has_input(3) ? frame_size(node, 3) : node.size_of(node.input(2), 0);
  if (const int64_t size = node.type(0).shape[1]; known && size != kOpenSize && size < *known)
    fail("a signal of {} for frames of {}", size, *known);
  Parts signal = node.rank(0) == 2 ? Parts{node.input(0), NodeInput::absent()} : parts_of(node, 0);
  const bool is_half = node.integer("onesided", 1) != 0;
  if (is_half && !signal.imaginary.is_absent()) node.refuse("one side of a complex signal");
  signal.real = framed(node, signal.real, step, length);
  if (!signal.imaginary.is_absent()) signal.imaginary = framed(node, signal.imaginary, step, length);
  const Waves waves = known
                          ? waves_of(node, {*known, *known, is_half ? *known / 2 + 1 : *known, false, false})
                          : computed_waves(node, length, is_half);
  node.set_output(0, transformed(node, signal, waves));
}

/// Numbers that a mel matrix is made of.
struct MelBands {
  int64_t count = 0;
  int64_t length = 0;
  double rate = 0;
  double low = 0;
  double high = 0;

  /// The places of the bands' ends among the frequencies.
  std::vector<int64_t> ends() const {
    const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double step = (mel(high) - mel(low)) / static_cast<double>(count + 2);
    std::vector<int64_t> places;
    for (int64_t i = 0; i < count + 2; ++i) {
      const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + mel(low)) / 2595) - 1);
      const double place = std::floor(static_cast<double>(length + 1) * hertz / rate);
      places.push_back(static_cast<int64_t>(std::clamp(place, 0.0, static_cast<double>(length))));
    }
    return places;
  }
};

Tensor mel_matrix(const MelBands& bands) {
  const int64_t bins = bands.length / 2 + 1;
  const std::vector<int64_t> ends = bands.ends();
  Tensor matrix(DType::kFloat32, {bins, bands.count});
  const auto set = [&](int64_t bin, int64_t band, int64_t part, int64_t whole) {
    if (bin < bins)
      matrix.values<float>()[static_cast<size_t>(bin * bands.count + band)] =
          static_cast<float>(static_cast<double>(part) / static_cast<double>(whole));
  };
  for (int64_t band = 0; band < bands.count; ++band) {
    const auto at = static_cast<size_t>(band);
    const int64_t low = ends[at];
    const int64_t centre = ends[at + 1];
    const int64_t high = ends[at + 2];
    if (centre == low) set(centre, band, 1, 1);
    for (int64_t bin = low; bin <= centre && centre > low; ++bin) set(bin, band, bin - low, centre - low);
    for (int64_t bin = centre; bin < high; ++bin) set(bin, band, high - bin, high - centre);
  }
  return matrix;
}

/// Triangles over frequencies, as many as there are bands.
void convert_mel_weights(NodeImport& node) {
  double numbers[5];
  for (size_t i = 0; i < std::size(numbers); ++i) {
    static_cast<void>(node.expect_constant(i, "of the bands"));
    const auto number = node.number(i);
    if (!number) fail("input {} has several numbers, expected one", i);
    numbers[i] = *number;
  }
  const bool is_counted =
      numbers[0] >= 1 && numbers[1] >= 1 && numbers[0] * numbers[1] <= static_cast<double>(kMostElements);
  if (!is_counted || !(numbers[2] > 0) || !(numbers[3] >= 0) || !(numbers[4] >= numbers[3]))
    fail("{} bands of {} frequencies at a rate of {} from {} to {} Hz", numbers[0], numbers[1], numbers[2],
         numbers[3], numbers[4]);
  const MelBands bands = {static_cast<int64_t>(numbers[0]), static_cast<int64_t>(numbers[1]), numbers[2],
                          numbers[3], numbers[4]};
  const int64_t type = node.integer("output_datatype", 1);
  constexpr int64_t kFloat = 1;
  if (type != kFloat) node.refuse(fmt::format("output_datatype {}", type));
  node.set_output(0, mel_matrix(bands));
}

}  // namespace

OnnxConverterList spectrum_converters() {
  return {
      {"DFT", convert_fourier}, {"STFT", convert_short_fourier}, {"MelWeightMatrix", convert_mel_weights}};
}

}  // namespace detent
