#include <cmath>
#include <numeric>
#include <string>

#include <onnx/onnx_pb.h>

#include "detent/core/error.h"
#include "detent/core/random_numbers.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Random numbers that are the same in every run, on every processor and in every runtime: integer arithmetic
// on the places of elements. With p = 2^31 - 1, x -> x^5 mod p is a permutation, since 5 and p - 1 have no
// common divisor; it is taken twice, between sums and products that follow from the node's seed:
//
//     h(i) = (a2 (a1 i + b1)^5 + b2)^5 mod p
//
// Products stay below 2^62. Samples of a batch get the same numbers, so that results do not depend on it.

constexpr int64_t kPrime = (int64_t{1} << 31) - 1;

/// Numbers that follow from the node's name and its attribute `seed`.
class NoiseSeed {
 public:
  explicit NoiseSeed(const NodeImport& node) {
    constexpr double kParts = 4096;  // of a seed, which is a float
    state_ = splitmix64(static_cast<uint64_t>(std::llrint(node.number("seed", 0) * kParts)));
    for (const char c : node.full_name()) state_ = splitmix64(state_ + static_cast<unsigned char>(c));
  }

  int64_t below_prime() {
    state_ += kSplitmixStep;
    return 1 + static_cast<int64_t>(splitmix64(state_) % (kPrime - 1));
  }

 private:
  uint64_t state_ = 0;
};

NodeInput remainder(NodeImport& node, const NodeInput& x) {
  return node.add("remainder", {x, NodeImport::integer_of(kPrime)});
}

/// (a x + b)^5
NodeInput mixed(NodeImport& node, NoiseSeed& seed, const NodeInput& x) {
  const NodeInput scaled = node.add("mul", {x, NodeImport::integer_of(seed.below_prime())});
  const NodeInput moved =
      remainder(node, node.add("add", {scaled, NodeImport::integer_of(seed.below_prime())}));
  const NodeInput square = remainder(node, node.add("mul", {moved, moved}));
  const NodeInput fourth = remainder(node, node.add("mul", {square, square}));
  return remainder(node, node.add("mul", {fourth, moved}));
}

/// Odd multiples of 2^-24 in (0, 1), one for each place: the upper 23 bits of the hash and a half.
NodeInput uniform(NodeImport& node, NoiseSeed& seed, const NodeInput& places) {
  constexpr int64_t kDropped = 256;
  const NodeInput hash = mixed(node, seed, mixed(node, seed, places));
  const NodeInput low = node.add("remainder", {hash, NodeImport::integer_of(kDropped)});
  const NodeInput high = node.add("cast", {node.add("sub", {hash, low})}, {{"dtype", "float32"}});
  return node.add("add",
                  {node.add("mul", {high, NodeImport::number_of(0x1p-31)}), NodeImport::number_of(0x1p-24)});
}

/// Box and Muller 1958: sqrt(-2 log u) cos(2 pi v).
NodeInput normal(NodeImport& node, NoiseSeed& seed, const NodeInput& places) {
  constexpr double kTurn = 6.283185307179586;
  const NodeInput log = node.add("log", {uniform(node, seed, places)});
  const NodeInput radius = node.add("sqrt", {node.add("mul", {log, NodeImport::number_of(-2)})});
  const NodeInput angle = node.add("mul", {uniform(node, seed, places), NodeImport::number_of(kTurn)});
  return node.add("mul", {radius, node.add("cos", {angle})});
}

using Distribution = NodeInput (*)(NodeImport&, NoiseSeed&, const NodeInput& places);

/// A draw for each place.
NodeInput draws_at(NodeImport& node, Distribution distribution, const NodeInput& places) {
  node.warn("it draws the same numbers in every run");
  NoiseSeed seed(node);
  return distribution(node, seed, places);
}

/// A draw for each element of a tensor of that shape.
NodeInput draws_of(NodeImport& node, Distribution distribution, const Shape& shape) {
  constexpr int64_t kMost = int64_t{1} << 24;
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (size < 0 || (size > 0 && count > kMost / size)) node.refuse("a shape of " + shape_text(shape));
    count *= size;
  }
  Tensor places(DType::kInt64, shape);
  std::iota(places.values<int64_t>().begin(), places.values<int64_t>().end(), 0);
  return draws_at(node, distribution, node.constant_of(places));
}

/// A draw for each element of the input, the same for all samples of a batch.
NodeInput draws_like_input(NodeImport& node, Distribution distribution) {
  const bool has_batch = node.rank(0) > 1 && node.begins_with_batch(0);
  const NodeInput shape = node.add("shape_of", {node.input(0)});
  NodeInput drawn = shape;
  if (has_batch) {
    const NodeInput of_sample = node.add("shape_of", {node.input(0)}, {{"start", 1}});
    drawn = node.add("cat", {node.constant_of(Tensor::from<int64_t>({1}, {1})), of_sample}, {{"dim", 0}});
  }
  const NodeInput places = node.integers_below(node.add("prod", {drawn}));
  const NodeInput draws =
      node.add("dynamic_reshape", {draws_at(node, distribution, places), drawn}, {{"allow_zero", true}});
  return has_batch ? node.add("dynamic_expand", {draws, shape}) : draws;
}

/// In the element type that the node asks for.
void give_draws(NodeImport& node, NodeInput draws, DType otherwise) {
  const DType dtype = node.has_attribute("dtype") ? dtype_of_onnx(node.integer("dtype", 0)) : otherwise;
  give_floats(node, std::move(draws), dtype);
}

NodeInput scaled(NodeImport& node, const NodeInput& draws, double scale, double shift) {
  const NodeInput product = node.add("mul", {draws, NodeImport::number_of(scale)});
  return node.add("add", {product, NodeImport::number_of(shift)});
}

NodeInput scaled_normal(NodeImport& node, const NodeInput& draws) {
  return scaled(node, draws, node.number("scale", 1), node.number("mean", 0));
}

NodeInput scaled_uniform(NodeImport& node, const NodeInput& draws) {
  const double low = node.number("low", 0);
  return scaled(node, draws, node.number("high", 1) - low, low);
}

void convert_normal(NodeImport& node) {
  give_draws(node, scaled_normal(node, draws_of(node, normal, node.integers("shape", {}))), DType::kFloat32);
}

void convert_normal_like(NodeImport& node) {
  give_draws(node, scaled_normal(node, draws_like_input(node, normal)), node.float_type(0));
}

void convert_uniform(NodeImport& node) {
  give_draws(node, scaled_uniform(node, draws_of(node, uniform, node.integers("shape", {}))),
             DType::kFloat32);
}

void convert_uniform_like(NodeImport& node) {
  give_draws(node, scaled_uniform(node, draws_like_input(node, uniform)), node.float_type(0));
}

/// 1 with the probability that the input gives, else 0.
void convert_bernoulli(NodeImport& node) {
  const NodeInput is_one = node.add("lt", {draws_like_input(node, uniform), node.input(0)});
  give_draws(node, node.add("cast", {is_one}, {{"dtype", "float32"}}), node.float_type(0));
}

/// Classes whose logarithms of probabilities are largest after -log(-log u) is added to each (Gumbel 1954).
void convert_multinomial(NodeImport& node) {
  const auto classes = node.rank(0) == 2 ? node.size(0, 1) : std::nullopt;
  if (!classes) node.refuse("an input that is not a matrix of a known number of columns");
  const int64_t samples = node.integer("sample_size", 1);
  const DType dtype = dtype_of_onnx(node.integer("dtype", onnx::TensorProto::INT32));
  const NodeInput log = node.add("log", {draws_of(node, uniform, {samples, *classes})});
  const NodeInput added = node.add("log", {node.add("neg", {log})});
  const NodeInput rows = node.add("unsqueeze", {node.input(0), NodeImport::list_of({1})});
  const NodeInput places =
      node.add("argmax", {node.add("sub", {rows, added})}, {{"dim", -1}, {"keepdim", false}});
  node.set_output(0, node.add("cast", {places}, {{"dtype", std::string(dtype_name(dtype))}}));
}

}  // namespace

void convert_training_dropout(NodeImport& node) {
  constexpr double kDefault = 0.5;
  const double ratio = node.has_input(1) ? node.number(size_t{1}).value_or(kDefault) : kDefault;
  if (ratio < 0 || ratio >= 1) fail("a ratio of {}, expected 0 or more and less than 1", ratio);
  const NodeInput is_kept = node.add("ge", {draws_like_input(node, uniform), NodeImport::number_of(ratio)});
  const NodeInput share = node.add("mul", {node.input(0), NodeImport::number_of(1 / (1 - ratio))});
  node.set_output(0, node.add("where", {is_kept, share, NodeImport::number_of(0)}));
  if (node.wants(1)) node.set_output(1, is_kept);
}

OnnxConverterList noise_converters() {
  return {{"RandomNormal", convert_normal},   {"RandomNormalLike", convert_normal_like},
          {"RandomUniform", convert_uniform}, {"RandomUniformLike", convert_uniform_like},
          {"Bernoulli", convert_bernoulli},   {"Multinomial", convert_multinomial}};
}

}  // namespace detent
