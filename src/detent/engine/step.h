#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/thread_pool.h"
#include "detent/engine/kernels/kernel_set.h"
#include "detent/engine/packed_code_sums.h"
#include "detent/engine/packed_float_sums.h"
#include "detent/engine/packed_sums.h"
#include "detent/engine/place.h"
#include "detent/engine/transposed_phases.h"
#include "detent/graph/element_movement.h"
#include "detent/inference/float_node.h"
#include "detent/inference/float_nodes.h"
#include "detent/inference/flow.h"
#include "detent/inference/recurrent_layer.h"
#include "detent/inference/reference_step.h"
#include "detent/inference/resize_weights.h"
#include "detent/inference/windows.h"

namespace detent {

class StepTimes;

/// One run of a program: its memory, and what flows between steps that the plain reference computes.
struct RunState {
  std::span<const Place> places;
  std::byte* arena = nullptr;
  std::vector<Flow> flows = {};
  int threads = 1;
  const Observation* observation = nullptr;
  StepTimes* times = nullptr;  // of a run that is measured

  uint8_t* bytes(size_t place) { return reinterpret_cast<uint8_t*>(arena + places[place].offset); }
  float* values(size_t place) { return reinterpret_cast<float*>(arena + places[place].offset); }
};

/// Some adjacent rows of a matrix: of a value in rows, the dimensions before the last two count its matrices.
struct MatrixRows {
  int64_t matrix, first, count;
  size_t place;           // of the operand whose rows these are
  const std::byte* from;  // these rows of it, adjacent
  std::byte* to;          // where the results go, adjacent; nullptr: to their place

  /// `from`, or where the rows lie.
  template <class T>
  const T* from_or(const T* lying) const {
    return from == nullptr ? lying : reinterpret_cast<const T*>(from);
  }
  /// `to`, or the place of the results.
  template <class T>
  T* to_or(T* lying) const {
    return to == nullptr ? lying : reinterpret_cast<T*>(to);
  }
};

/// One step of a program: a node, or several that one kernel computes.
class EngineStep {
 public:
  EngineStep() = default;
  EngineStep(const EngineStep&) = delete;
  EngineStep& operator=(const EngineStep&) = delete;
  virtual ~EngineStep() = default;

  /// Called once the places are known.
  virtual void prepare(std::span<const Place> /*places*/) {}
  virtual void run(RunState& state) const = 0;
  /// Whether it runs a plan of its own, whose steps are measured one by one.
  virtual bool has_plan() const { return false; }
  /// The weights that it reads first.
  virtual std::span<const int8_t> weights() const { return {}; }
  /// Whether it computes the same where a place that it reads or writes, `index`, becomes a slice.
  virtual bool takes_slice(size_t /*index*/, const Place& /*place*/) const { return false; }
  /// Whether it writes bytes there that a table of 256 may convert.
  virtual bool takes_table(size_t /*index*/) const { return false; }
  virtual void add_table(std::span<const uint8_t> /*table*/) {}
  /// The next step's weights, to prefetch.
  virtual void set_next_weights(std::span<const int8_t> /*weights*/) {}

  // Steps that compute rows on their own, so that several take turns on a few rows (plan/row_chains.cc).

  /// The place of its results, if it does so.
  virtual std::optional<size_t> row_results() const { return std::nullopt; }
  /// Whether these are products of matrices, of rows of the left ones.
  virtual bool multiplies_rows() const { return false; }
  /// Whether the rows of its results follow from the same rows of `place`, and what else it reads.
  virtual bool maps_rows_of(size_t /*place*/, std::span<const Place> /*places*/) const { return false; }
  /// Called before the rows of a run.
  virtual void begin_rows(RunState& /*state*/) const {}
  /// Products may have `from` nullptr: the rows are where they lie. Whether a value is NaN that has no code.
  virtual bool compute_rows(RunState& /*state*/, const MatrixRows& /*rows*/) const { return false; }
  /// The place of which each element by itself gives that of its results, row_results(), if there is one.
  virtual std::optional<size_t> element_source() const { return std::nullopt; }
  /// Elements of the results from some of that place; whether a value is NaN that has no code.
  virtual bool compute_elements(const void* /*from*/, void* /*to*/, int64_t /*count*/) const { return false; }
  /// Throws the Error that names the first of the values which is NaN.
  virtual void report_nan(const Tensor& /*values*/) const {}

  std::string nodes;   // "conv1, relu"
  std::string kernel;  // "convolution AVX3_DL"
  std::string why;     // not a faster one
  double products = 0;
  bool multiplies_floats = false;
  int64_t bytes = 0;  // read and written, weights included
  std::vector<size_t> dropped_flows;
  bool is_known = false;  // gives a flow that is the same in each run
  bool is_once = false;   // fills a place from such a flow: once in an arena
};

/// Epilogue of the sums of a layer while they are in the cache: an addition, or a table.
struct FollowUp {
  std::vector<uint8_t> table;  // of 256; none: the addition
  ByteAddition addition = {};
  size_t other = 0;  // place of its second operand
};

/// A number that is one of the node's, or comes with the run: a flow of one, or of one for each channel.
struct RunNumber {
  std::optional<size_t> flow = {};
  double number = 0;
};

/// Sums of bytes whose zero point comes with the run, as floats times `units`.
struct CodeSums {
  std::shared_ptr<const PackedCodeSums> packed;
  RunNumber zero = {};                 // of the bytes
  int32_t low = 0;                     // the integer that the byte 0 is
  std::vector<RunNumber> biases = {};  // int32
  std::vector<RunNumber> units = {};   // at most one: a factor of the float32 that a sum is
};

/// Numbers that a run brings to them, in the order of their weights.
struct CodeNumbers {
  uint8_t zero = 0;                    // the byte
  std::vector<int32_t> start = {};     // bias less what the zero point adds
  std::vector<float> multiplier = {};  // to the values
};
CodeNumbers code_numbers(const CodeSums& sums, const RunState& state);

struct SumsLayer {
  std::shared_ptr<const PackedSums> packed;
  SumFinish finish;  // without pointers: with what a rectifier cuts
  size_t input;
  size_t output;
  std::vector<FollowUp> follow_ups;
  ResultGrid grid = {};
  bool fills_halo = true;  // of the output
  std::optional<CodeSums> codes = {};
  std::optional<WindowShape> window = {};  // that of `packed` with more zeros around
};
std::unique_ptr<EngineStep> sums_step(SumsLayer layer);
/// A flow of 8-bit integers as bytes from that of `low` on.
std::unique_ptr<EngineStep> bytes_of_integers(int32_t low, size_t flow, size_t place);
/// Back from codes of a type to 8-bit integers, signed where its lowest code is.
std::unique_ptr<EngineStep> integers_of_bytes(size_t place, size_t flow);
/// Values that are integers as a flow of int32.
std::unique_ptr<EngineStep> integers_of_values(size_t place, size_t flow);
/// Bytes that cover the range of a place's values (kernels/linear_codes.h), and flows of their scale and
/// zero point.
std::unique_ptr<EngineStep> dynamic_bytes_step(const KernelSet& kernels, size_t from, size_t to, size_t scale,
                                               size_t zero);

/// Function of each element, or of rows of adjacent ones.
struct FloatRows {
  RowFunction function;
  std::shared_ptr<const NamedTensors> parameters;  // that the function reads
};

/// Epilogue of values: first `map` and `end`, then a function of each element, then an addition and what
/// `last` clamps.
struct FloatFollowUps {
  std::shared_ptr<const FloatChannelMap> map = nullptr;
  SumsEnd end = {};
  std::optional<FloatRows> function = {};
  std::optional<size_t> other = {};  // place of the addition's second operand
  SumsEnd last = {};

  /// With the numbers of `map`.
  SumsEnd mapped_end() const;
};

/// Which of the packed taps a window begins with.
struct FirstTap {
  int64_t z = 0, y = 0, x = 0;
};

/// A layer in float32, channels last.
struct FloatSumsLayer {
  std::shared_ptr<const PackedFloatSums> packed;
  WindowShape window;  // that of `packed`, maybe with more padding or only some of its taps
  FloatFollowUps follow_ups;
  size_t input;
  size_t output;
  FirstTap first_tap = {};
  ResultGrid grid = {};
  bool fills_halo = true;  // of the output
};
std::unique_ptr<EngineStep> float_sums_step(FloatSumsLayer layer);
/// The same on the values of a place, into another of its layout.
std::unique_ptr<EngineStep> float_elements_step(FloatFollowUps follow_ups, size_t from, size_t to);

std::unique_ptr<EngineStep> float_rows_step(FloatRows rows, size_t from, size_t to);

/// An operand of pairs of values: a number, or a place, maybe of one position for all of a sample or of all
/// samples, or of one row for all rows.
struct PairOperand {
  std::optional<size_t> place = {};
  float number = 0;
};
std::unique_ptr<EngineStep> float_pairs_step(PairFunction function, PairOperand a, PairOperand b, size_t to);

/// Quantizes the values of a flow, or takes its codes, as bytes. Throws Error naming `node` on NaN.
std::unique_ptr<EngineStep> bytes_of_flow(const KernelSet& kernels, const Node& node, size_t flow,
                                          size_t place);
/// The values of a flow, which may have codes; those that codes of `type` have, if there is one. Throws Error
/// naming `node` on NaN then.
std::unique_ptr<EngineStep> values_of_flow(const KernelSet& kernels, const Node& node,
                                           std::optional<CodeType> type, size_t flow, size_t place);

// Between places of one layout. Those that take values throw Error naming `node` on NaN.

std::unique_ptr<EngineStep> values_of_bytes(const KernelSet& kernels, const CodeType& type, size_t from,
                                            size_t to);
std::unique_ptr<EngineStep> bytes_of_values(const KernelSet& kernels, const Node& node, const CodeType& type,
                                            size_t from, size_t to);
/// The values that codes of `type` have, where values are so many times `unit`: the type's scale, or 1 of
/// steps.
std::unique_ptr<EngineStep> rounded_values(const KernelSet& kernels, const Node& node, float unit,
                                           const CodeType& type, size_t from, size_t to);
/// Values of the codes that those of the form's type become, given as values too.
std::unique_ptr<EngineStep> values_by_code(const KernelSet& kernels, const TableForm& form, size_t from,
                                           size_t to);

/// The codes of a flow's values.
std::unique_ptr<EngineStep> convert_flow(const Node& node, const CodeType& type, size_t from, size_t to);
/// int32 codes or float32 values.
std::unique_ptr<EngineStep> flow_of_place(size_t place, size_t flow);
/// A value that is the same in each run.
std::unique_ptr<EngineStep> known_flow(Flow known, size_t flow);
/// The same elements in row-major order of the values' shapes, in another layout or shape.
std::unique_ptr<EngineStep> copy_step(size_t from, size_t to);
/// Elements of several places, as a movement's copies say; what none of them gives is zero.
struct MovedInputs {
  std::vector<size_t> places;
  std::vector<StridedCopy> copies;  // in elements of the values
};
std::unique_ptr<EngineStep> movement_step(MovedInputs inputs, size_t to);
/// Channels that become positions: channel c of the result's position (y * rows + i, x * columns + j) is
/// channel c * by_channel + i * by_row + j * by_column of position (y, x).
struct SpreadChannels {
  int64_t rows, columns;
  int64_t by_channel, by_row, by_column;
};
/// Between places channels last.
std::unique_ptr<EngineStep> spread_channels_step(const SpreadChannels& spread, size_t from, size_t to);
/// Bytes that become those of a table, or, without one, elements as they are.
struct JoinedInput {
  size_t place;
  int64_t begin = 0;                // along the dimension
  std::vector<uint8_t> table = {};  // of 256
};
/// Places that follow each other along a dimension, all of one layout.
std::unique_ptr<EngineStep> join_step(const KernelSet& kernels, std::vector<JoinedInput> inputs, size_t axis,
                                      size_t to);
std::unique_ptr<EngineStep> table_step(const KernelSet& kernels, std::vector<uint8_t> table, size_t from,
                                       size_t to);

/// Matrices [..., rows, columns] in the rows of a place.
struct MatrixOperand {
  size_t place;
  StridedView view;
};
/// [..., m, k] x [..., k, n]; elements of a row of `a` are adjacent.
struct MatrixProductLayer {
  const KernelSet* kernels;
  ProductForm form;
  MatrixOperand a;
  MatrixOperand b;
  size_t scratch;  // a place of so many bytes, for `b` as kernels take it
  size_t output;
};
int64_t product_scratch_bytes(const StridedView& b);
std::unique_ptr<EngineStep> product_step(MatrixProductLayer layer);

/// The same of values, as kernels/sums.h states.
struct FloatProductLayer {
  MatrixOperand a;
  MatrixOperand b;
  std::optional<size_t> scratch;  // a place of so many bytes, for `b` with its columns adjacent
  size_t output;
  bool is_turned = false;  // both are transposed and change places
};
/// The same product, turned where matrices that several columns meet give one column each: results lie alike,
/// and vectors run over them.
FloatProductLayer turned(FloatProductLayer layer);
/// 0 where `b` is taken as it lies.
int64_t float_product_scratch_bytes(const StridedView& b);
std::unique_ptr<EngineStep> float_product_step(FloatProductLayer layer);

/// A norm of the channels of each sample, or of groups of them, channels last.
struct ChannelNormLayer {
  int64_t groups;
  double eps;
  std::shared_ptr<const NamedTensors> parameters;
  size_t from;
  size_t to;
};
std::unique_ptr<EngineStep> channel_norm_step(ChannelNormLayer layer);

/// Steps that take turns on a few rows at a time, from products to products of what these give: a step writes
/// the place `between` that the next reads, of which no more exists than these rows.
std::unique_ptr<EngineStep> row_chain_step(std::vector<std::unique_ptr<EngineStep>> steps,
                                           std::vector<size_t> between);

/// A recurrent layer; its values lie in rows.
struct RecurrentPlaces {
  std::shared_ptr<const RecurrentLayer> layer;
  size_t inputs = 0;
  std::optional<size_t> lengths = {};  // a flow of integers
  std::array<std::optional<size_t>, 2> first = {};
  std::array<size_t, 3> results = {};
};
std::unique_ptr<EngineStep> recurrent_step(RecurrentPlaces places);

/// Pairs of bytes: by one of two kernels, or by a table of 256 results for each byte of `a`.
struct BytePairs {
  std::optional<ByteAddition> addition = {};
  std::optional<ByteProduct> product = {};
  std::shared_ptr<const std::vector<uint8_t>> table = {};
};
/// Operands of any shapes that broadcast to that of `to`.
std::unique_ptr<EngineStep> pairs_step(const KernelSet& kernels, BytePairs pairs, size_t a, size_t b,
                                       size_t to);

using PoolingWindows = std::vector<std::vector<PoolingWindow>>;
std::unique_ptr<EngineStep> largest_step(const KernelSet& kernels, PoolingWindows windows, size_t from,
                                         size_t to);
std::unique_ptr<EngineStep> mean_step(const KernelSet& kernels, const AverageForm& form,
                                      PoolingWindows windows, size_t from, size_t to);
/// Likewise for float32 values, as inference/windows.h states.
std::unique_ptr<EngineStep> largest_values_step(PoolingWindows windows, size_t from, size_t to);
std::unique_ptr<EngineStep> mean_values_step(PoolingWindows windows, size_t from, size_t to);
/// Means of codes that places have as their values.
std::unique_ptr<EngineStep> mean_wide_step(const AverageForm& form, PoolingWindows windows, size_t from,
                                           size_t to);

/// Positions of places channels last that are weighted sums of positions, as inference/float_node.h states;
/// `axes` are dimensions from 2 on of tensors of that rank. Bytes are moved only.
std::unique_ptr<EngineStep> resample_step(const std::vector<ResampledAxis>& axes, size_t rank, size_t from,
                                          size_t to);

/// Dimensions that follow each other.
struct ReducedDims {
  size_t first;
  size_t end;
};
/// They become one element: of rows any, of values channels last all positions, or the channels.
std::unique_ptr<EngineStep> reduction_step(const RowReduction& reduction, ReducedDims dims, size_t from,
                                           size_t to);

/// Copies of a node that moves elements, where tensors have these shapes.
struct KnownMovement {
  std::vector<size_t> inputs;  // that are moved
  std::vector<Shape> shapes;   // theirs
  Shape result;
  bool is_view = false;  // the elements of the first input in their order
  std::vector<StridedCopy> copies;
};

/// A node as the plain reference computes it. `inputs` are flows, and of constant operands kNoFlow; results
/// go to `results`.
inline constexpr size_t kNoFlow = static_cast<size_t>(-1);
std::unique_ptr<EngineStep> reference_step(std::shared_ptr<const ReferenceStep> step,
                                           const FloatNodes* in_float, std::vector<size_t> inputs,
                                           std::vector<size_t> results,
                                           std::optional<KnownMovement> movement = {});

class RowLayer;
/// A linear layer on rows of which only a run knows how many there are.
std::unique_ptr<EngineStep> row_layer_step(const ReferenceStep& step, std::shared_ptr<const RowLayer> layer,
                                           size_t from, size_t to);

/// Rounds the values of a place, in rows, to a format into another.
std::unique_ptr<EngineStep> rounding_step(FormatRounding rounding, size_t from, size_t to);

/// Shows the run's observer a flow, as codes of `type` have it if there is one.
std::unique_ptr<EngineStep> show_step(const Node& node, std::string operand, std::optional<CodeType> type,
                                      size_t flow);
/// Shows the values of a place in the order in which they lie there.
std::unique_ptr<EngineStep> show_place_step(const Node& node, std::string operand, size_t place);
/// Shows a result of a node as it is before it is rounded to its type.
std::unique_ptr<EngineStep> show_unrounded_step(std::shared_ptr<const ReferenceStep> step,
                                                const FloatNodes* in_float, std::vector<size_t> inputs,
                                                size_t result);

/// Fills the border of a place.
void fill_halo(const Place& place, uint8_t* bytes);

}  // namespace detent
