#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/onnx/model_for_test.h"
#include "numbers.h"
#include "random.h"

namespace detent {

/// A value of a graph that is being written.
struct GeneratedValue {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape = {};
  Numbers numbers = {};
  bool is_constant = false;
  bool is_read = false;
  bool has_known_shape = true;  // before the graph runs

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  bool is_float() const { return is_floating_point(dtype); }
};

/// Distribution of the numbers of an input or constant.
enum class Content {
  kSmall,     // multiples of 1/8 from -4 to 4; integers from -8 to 8
  kPositive,  // the same above 0
  kUnit,      // multiples of 1/8 from -1 to 1
  kWild,      // ends of the type, infinities, NaN, signed zeros
};

/// Requirements of an operator on an operand.
struct Wanted {
  std::vector<DType> dtypes = {DType::kFloat32};
  int64_t least_rank = 0;
  int64_t most_rank = 4;
  std::optional<Shape> shape = std::nullopt;  // just this one
  Content content = Content::kSmall;          // of one that is new
  bool may_be_wild = false;
  bool must_be_exact = false;
  bool may_be_empty = true;
  double most_magnitude = 0x1p40;
  double is_new = 0.3;  // how likely it is none that the graph has already
};

/// A result of a node.
struct Result {
  DType dtype = DType::kFloat32;
  Shape shape = {};
  Numbers numbers = {};
  bool has_known_shape = true;
  bool is_as_stored = false;  // a rounding to float16, rather than what may be rounded to it
};

/// Writes a model node by node: an operator's generator draws attributes, asks for operands, and says what
/// comes out.
class GraphWriter {
 public:
  GraphWriter(uint64_t seed, uint64_t index);

  /// Results beyond it are outputs at most: what overflows in float16 is a number of float32.
  static constexpr double kMostOfHalf = 0x1p10;

  Random random;
  int64_t opset;
  DType real = DType::kFloat32;  // the floats of the node that is being written

  /// A value of the graph, or a new input or constant.
  GeneratedValue operand(const Wanted& wanted);
  /// One that broadcasts with the shape; the result has the shape of both.
  GeneratedValue broadcasting(const Shape& with, Wanted wanted);
  GeneratedValue input(DType dtype, const Shape& shape, Content content = Content::kSmall);
  GeneratedValue input_of(const Tensor& tensor, const Numbers& numbers);
  GeneratedValue constant(const Tensor& tensor, const Numbers& numbers = {});
  /// An input or constant.
  GeneratedValue source(DType dtype, const Shape& shape, Content content = Content::kSmall);
  /// A list of sizes, axes or positions: a constant, in one of the ways to write one, or what a run gives.
  GeneratedValue list(const std::vector<int64_t>& values, DType dtype = DType::kInt64);
  GeneratedValue scalar(int64_t value, DType dtype = DType::kInt64);
  Shape shape(int64_t least_rank, int64_t most_rank, bool may_be_empty = true);
  static GeneratedValue absent() { return {}; }

  /// A node; empty names of the inputs after the last given one are left out.
  std::vector<GeneratedValue> node(const std::string& op, std::vector<GeneratedValue> inputs,
                                   const std::vector<OnnxAttribute>& attributes,
                                   const std::vector<Result>& results, const std::string& domain = "");
  GeneratedValue node(const std::string& op, std::vector<GeneratedValue> inputs,
                      const std::vector<OnnxAttribute>& attributes, const Result& result,
                      const std::string& domain = "") {
    return node(op, std::move(inputs), attributes, std::vector<Result>{result}, domain)[0];
  }

  /// Says that something reads the value that is no input of a node.
  void read(const GeneratedValue& value) { mark_read(value.name); }

  /// An axis of the rank, counted from either end.
  int64_t axis(int64_t rank) { return random.between(opset >= 11 ? -rank : 0, rank - 1); }
  bool is_at_least(int64_t version) const { return opset >= version; }
  /// The floats that the graph has.
  const std::vector<DType>& reals() const { return reals_; }
  bool has_nodes() const { return proto_.graph().node_size() > 0; }

  /// Names the outputs: what nothing reads, and some of the others.
  void finish();
  const onnx::ModelProto& model() const { return proto_; }
  const std::vector<std::pair<std::string, Tensor>>& inputs() const { return inputs_; }
  const std::vector<GeneratedValue>& values() const { return values_; }
  const std::vector<GeneratedValue>& outputs() const { return outputs_; }

 private:
  static Numbers stored(const Result& result);
  Tensor numbers(DType dtype, const Shape& shape, Content content);
  void mark_read(const std::string& name);
  void add_domain(const std::string& domain);
  GeneratedValue& own(GeneratedValue value);
  GeneratedValue computed(const Tensor& tensor, const Numbers& numbers);

  onnx::ModelProto proto_;
  std::vector<std::pair<std::string, Tensor>> inputs_;
  std::vector<GeneratedValue> values_;
  std::vector<GeneratedValue> outputs_;
  int64_t next_ = 0;
  bool has_open_sizes_;
  std::vector<DType> reals_ = {DType::kFloat32};
};

/// Inserts what the node reads, in its branches too, and does not give itself.
void insert_reads(const onnx::NodeProto& node, std::set<std::string>& names);
/// The shape that two broadcast to.
Shape broadcast_shape(const Shape& a, const Shape& b);
int64_t normal_axis(int64_t axis, int64_t rank);
/// An output's description, without a shape.
onnx::ValueInfoProto output_info(const GeneratedValue& value);
onnx::TensorProto tensor_proto(const std::string& name, const Tensor& tensor, bool raw = true);

}  // namespace detent
