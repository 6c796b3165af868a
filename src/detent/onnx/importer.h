#pragma once

#include <array>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_file.h"
#include "detent/onnx/open_sizes.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class NodeProto;
class ValueInfoProto;
}  // namespace onnx

namespace detent {

/// An operand for each of two choices of the sizes of open dimensions: what is equal in both is known.
struct TriedTypes {
  Operand first;
  Operand second;
};

/// Letters, digits and underscores, as names of nodes have; not empty.
std::string identifier(const std::string& name);

/// A value of the model: a result in the graph, or a constant, which enters the graph when something reads
/// it.
struct ImportedValue {
  std::optional<NodeInput> source;
  std::optional<Tensor> constant;
  TriedTypes types = {};                       // of the constant
  std::optional<ParameterRef> parameter = {};  // of the constant, once something refers to it
  std::optional<QuantSpec> rounding = {};      // that leaves the constant as it is, for what reads it
  bool is_initializer = false;
  std::optional<DType> float_type = {};     // the model's, of which float32 takes the place
  const NarrowType* narrow_type = nullptr;  // likewise, of which another type holds the values
  /// Instead of a source or a constant: the tensors of a sequence.
  std::optional<std::vector<ImportedValue*>> sequence = {};
  /// In a sequence whose length only a run knows: rows of this value follow, an element each.
  std::optional<NodeInput> rows = {};
  /// Instead of rows, these elements are one after the other along this axis: their sizes there may differ.
  std::optional<int64_t> joined_axis = {};
  /// A kept loop carries the sequence, of which this iteration does not know the earlier tensors.
  bool grows = false;
};

/// The names that a graph, a subgraph or a function body can see.
struct ImportScope {
  const ImportScope* outer = nullptr;
  std::unordered_map<std::string, ImportedValue*> values = {};
  std::string prefix = {};                             // of the names of nodes
  std::map<std::string, const void*> attributes = {};  // of the call of a function: AttributeProto
  std::set<std::string> absent = {};                   // inputs of a function that its call leaves out
  std::map<std::string, int64_t> opsets = {};          // of a function, by domain
};

/// The result of a node that moves elements of the graph's own tensors, rounded or not, and of nothing else;
/// nothing for other nodes.
std::optional<RoundedConstant> moved_constants(const Graph& graph, const Node& node, const Operand& result,
                                               size_t index);

/// Whether the operator moves elements of its first input, or takes the largest of some, so that it does the
/// same to codes and to what they stand for.
bool moves_first_input(const onnx::NodeProto& node);

using OnnxLoops = std::set<const onnx::NodeProto*>;

/// How to read what a model leaves open.
struct ImportTrial {
  OpenSizes sizes = kTriedSizes[0];
  bool frees_batch = false;  // a first size of 1 of every input is open
  /// An open second size without a name, after a known first one, is the batch's: recurrent layers' states
  /// are [layers, batch, ...].
  bool second_is_batch = false;
  /// A branch that does not take the sizes of its inputs is left out; to choose it is an error of the run.
  bool drops_branches = false;
  /// Given: these loops, and others that cannot be written out, become nodes with a body.
  const OnnxLoops* kept_loops = nullptr;
};

/// Values that one node of the model stands for, by value_name; nothing of those that were not computed.
struct ComputedParts {
  std::unordered_map<std::string, std::optional<Tensor>> values = {};
  bool exceeds_limits = false;  // so that later ones may be computed
};

/// Bytes of a value; 0 where one of its sizes is open.
int64_t byte_size(const Operand& operand);

/// Brings a model into a graph, node by node.
/// A node of the model that cannot be brought in. Nodes around it, which stand for several, pass it on.
class RefusedNode : public Error {
 public:
  /// The message is the reason, after the name of the file.
  RefusedNode(const std::string& file, std::string reason)
      : Error(file + reason), reason_(std::move(reason)) {}

  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

class OnnxImporter {
 public:
  OnnxImporter(OnnxModelFile& file, const OnnxImportOptions& options, ImportTrial trial);
  OnnxImporter(OnnxModelFile& file, const OnnxImportOptions&& options, ImportTrial trial) = delete;
  /// That of a body tells the one around it what it has found out.
  ~OnnxImporter();
  OnnxImporter(const OnnxImporter&) = delete;
  OnnxImporter& operator=(const OnnxImporter&) = delete;

  Graph run();
  /// Whether the batch of every output is that of the inputs.
  bool outputs_have_batch() const;
  /// Whether inputs have open sizes beside the batch.
  bool has_open_sizes() const;
  /// Whether `second_is_batch` or `drops_branches` of a trial would make a difference.
  bool has_open_second_sizes() const { return has_open_second_sizes_; }
  bool chooses_branches() const { return chooses_branches_; }
  /// Whether windows give as many positions for both sizes of a dimension: those of others are not known.
  bool has_hidden_sizes() const { return has_hidden_sizes_; }
  /// Names of the open dimensions, batch apart, and how many nodes are refused at their sizes.
  std::vector<std::string> open_names() const;
  size_t refused() const { return refused_; }
  /// Sizes of shapes that do not fit one another, but for those that were chosen for open dimensions.
  const std::vector<int64_t>& sizes_at_odds() const { return sizes_at_odds_; }
  /// Whether its Error says how sizes are given.
  bool advises_sizes() const { return advises_sizes_; }
  /// Loops that could not be written out.
  const OnnxLoops& unwritten_loops() const { return unwritten_loops_; }
  /// Whether that was for want of the number of iterations.
  bool has_unknown_counts() const { return has_unknown_counts_ && trial_.kept_loops == nullptr; }
  /// How often a value was asked whether it is a constant.
  size_t constants_sought() const { return constants_sought_; }

 private:
  friend class NodeImport;

  /// For the body of a loop within the graph that `around` brings in, in that scope of it.
  OnnxImporter(OnnxImporter& around, ImportScope& scope);

  void add_function(const onnx::FunctionProto& function);
  void check_operators() const;
  void list_unsupported(const onnx::NodeProto& node, size_t depth, std::vector<std::string>& problems) const;
  const onnx::FunctionProto* function(const onnx::NodeProto& node) const;
  int64_t opset(const std::string& domain) const;

  void add_initializers(const onnx::GraphProto& graph, ImportScope& scope);
  void add_inputs(const onnx::GraphProto& graph, ImportScope& scope);
  void add_input(const onnx::ValueInfoProto& input, ImportScope& scope);
  TensorType input_type(const onnx::ValueInfoProto& input);
  /// The name that the model gives the first size of the first input that leaves it open.
  void find_batch_symbol(const onnx::GraphProto& graph, const ImportScope& scope);
  Dimension named_dimension(const onnx::ValueInfoProto& input, int index);
  /// Whether a trial gives an open dimension one size alone, so that it is fixed.
  bool has_one_size(const std::string& symbol) const;
  void count_readers(const onnx::GraphProto& graph);
  /// Notes that a node of the outermost graph has been converted. Where little may still be known, constants
  /// that nothing reads any more give their share back.
  void end_reads(const onnx::NodeProto& node);
  void drop_unread();
  /// Throws Error with all nodes that are refused, but for those that need what these would give.
  void convert_all(const std::vector<const onnx::NodeProto*>& nodes);
  void convert(const onnx::NodeProto& node, ImportScope& scope);
  void convert_in_scope(const onnx::NodeProto& node, ImportScope& scope);
  /// The same with what codes stand for in place of a first input of codes, whose results are codes again.
  /// False where the node's first input is something else, or it does more than move it.
  bool convert_as_values(const onnx::NodeProto& node, ImportScope& scope);
  /// Lets `inner` have the value that codes of a border stand for; false where it is not known.
  bool fill_with_value(const onnx::NodeProto& pad, const Node& quantize, ImportScope& inner);
  /// An operator of ONNX whose inputs and results have their channels last.
  void convert_channels_last(const onnx::NodeProto& node, ImportScope& scope);
  /// Whether the model has operators of QONNX, which say nothing of integers.
  bool is_of_qonnx() const;
  void call(const onnx::FunctionProto& function, const onnx::NodeProto& node, ImportScope& scope);
  void convert_subgraphs(const onnx::NodeProto& node, ImportScope& scope);
  void choose_branch(const onnx::NodeProto& node, ImportScope& scope);
  /// The results of both branches, of which one may be dropped for a reason.
  void choose_results(const onnx::NodeProto& node, ImportScope& scope, const NodeInput& choice,
                      const std::array<std::vector<ImportedValue*>, 2>& results,
                      const std::array<std::string, 2>& reasons);
  /// The node's outputs, as a branch gives them.
  std::vector<ImportedValue*> branch_results(const onnx::NodeProto& node, const onnx::GraphProto& branch,
                                             ImportScope& scope);
  /// The same for a trial that drops branches: none and why, where the branch does not take the sizes.
  std::vector<ImportedValue*> fitting_results(const onnx::NodeProto& node, const onnx::GraphProto& branch,
                                              ImportScope& scope, std::exception_ptr& refusal);
  /// The value, where the condition is what `expected` says; else the run ends with the message.
  ImportedValue& asserted(const onnx::NodeProto& node, NodeInput condition, bool expected,
                          ImportedValue& value, const std::string& message);
  /// Written out where that can be, else kept.
  void convert_loop(const onnx::NodeProto& node, ImportScope& scope);
  void unroll_loop(const onnx::NodeProto& node, ImportScope& scope);
  struct LoopState;
  void run_iteration(const onnx::NodeProto& node, const std::vector<const onnx::NodeProto*>& steps,
                     int64_t iteration, ImportScope& shared, LoopState& state);
  void unroll_scan(const onnx::NodeProto& node, ImportScope& scope);

  // Loops that are kept (kept_loops.cc).
  struct KeptLoop;
  struct Iteration;
  struct CarriedValues;
  struct LoopResults;
  void keep_loop(const onnx::NodeProto& node, ImportScope& scope);
  void keep_scan(const onnx::NodeProto& node, ImportScope& scope);
  /// An If of which a run computes one branch (kept_branches.cc).
  void keep_branches(const onnx::NodeProto& node, ImportScope& scope);
  struct BranchResults;
  BranchResults results_in_body(const onnx::NodeProto& node, const onnx::GraphProto& branch,
                                ImportScope& scope);
  /// The branch whose result an output of the If is, where they differ in rank: as the model declares it, or
  /// the first.
  std::optional<size_t> only_branch(const std::string& output, const TriedTypes& first,
                                    const TriedTypes& second) const;
  /// Removes the nodes from that position on, but for constants and inputs, which values outside refer to.
  void remove_since(size_t position);
  /// Carried and collected values; nothing where an iteration changes the type or rank of one.
  std::optional<std::vector<ImportedValue*>> kept_results(const onnx::NodeProto& node, ImportScope& scope,
                                                          const KeptLoop& loop);
  struct FirstIterations;
  /// Lets the loop begin one iteration later.
  void write_out_next(const onnx::NodeProto& node, const std::vector<const onnx::NodeProto*>& steps,
                      ImportScope& scope, KeptLoop& loop, FirstIterations& before);
  /// Results of the loop with those of its first iterations.
  void join_first(const onnx::NodeProto& node, const FirstIterations& before,
                  std::vector<ImportedValue*>& results);
  /// Adds the node, and gives its results as kept_results() does.
  std::vector<ImportedValue*> add_loop(const onnx::NodeProto& node, const KeptLoop& loop,
                                       const CarriedValues& carried, Iteration& iteration);
  std::vector<ImportedValue*> results_of_loop(const std::string& name, const KeptLoop& loop,
                                              const CarriedValues& carried, const LoopResults& given);
  /// An iteration, in a body that has no nodes yet.
  void convert_iteration(const KeptLoop& loop, const CarriedValues& carried, Iteration& iteration);
  /// Whether what it adds to list k has to be joined from now on, as its size may change.
  bool begins_to_join(const onnx::NodeProto& node, size_t k, const Iteration& iteration,
                      CarriedValues& carried) const;
  /// Elements of list k with those of the iteration, and before the first one.
  NodeInput next_joined(const onnx::NodeProto& node, size_t k, const CarriedValues& carried,
                        Iteration& iteration);
  ImportedValue& nothing_joined(size_t k, const CarriedValues& carried);
  NodeInput add_body_input(const std::string& wanted, TriedTypes types);
  /// A value of the graph around, as an input or a constant of the body.
  ImportedValue& captured(ImportedValue& given);
  void map_sequence(const onnx::NodeProto& node, ImportScope& scope);
  /// With the initializers of the body. What is in it sees what `scope` does.
  ImportScope scope_of_body(const onnx::NodeProto& node, const onnx::GraphProto& body, ImportScope& scope);
  void convert_body(const std::vector<const onnx::NodeProto*>& steps, ImportScope& inner);
  /// `value` where the condition holds, `otherwise` elsewhere. Throws Error where their shapes differ.
  ImportedValue& chosen(const onnx::NodeProto& node, const NodeInput& condition, ImportedValue& value,
                        ImportedValue& otherwise);
  /// Values one after the other along a new axis.
  ImportedValue& stacked(const onnx::NodeProto& node, const std::vector<ImportedValue*>& parts, int64_t axis);
  /// The elements of a value at one place of an axis.
  ImportedValue& part_of(const onnx::NodeProto& node, ImportedValue& value, int64_t axis, int64_t place);
  /// A node's result, or the constant that it is; of the model's types that `like` has.
  ImportedValue& own_result(NodeInput result, const ImportedValue& like);
  const TriedTypes& types_of(const ImportedValue& value) const;
  /// Names the strings that numbers of these outputs stand for.
  void warn_of_texts(const std::vector<std::string>& outputs) const;
  void add_outputs(const onnx::GraphProto& graph);
  /// Removes what neither an output of the network nor a node of `live` reads.
  void remove_dead_nodes(std::set<std::string, std::less<>> live = {"output"});
  Graph finish();

  ImportedValue& find(const std::string& name, const ImportScope& scope);
  ImportedValue* find_any(const std::string& name, const ImportScope& scope);
  /// Whether the name is that of a function's input that the call leaves out.
  bool is_absent(const std::string& name, const ImportScope& scope) const;
  /// Attribute that the call of the function around the scope gives; nullptr where nothing.
  const onnx::AttributeProto* attribute_of_call(const std::string& name, const ImportScope& scope) const;
  /// Throws Error where the node reads a type of few bits that its operator is not known to keep.
  void expect_known_types(const onnx::NodeProto& node, const ImportScope& scope);
  /// Results that only move elements of a type of few bits have that type; sums and products wrap as it does.
  void inherit_narrow_type(const onnx::NodeProto& node, ImportScope& scope);
  /// Results are floats of the same type as the first operand that is one, unless their converter said which.
  void inherit_float_type(const onnx::NodeProto& node, ImportScope& scope);
  ImportedValue& own(ImportedValue value);
  std::vector<TriedTypes> inferred(const Node& node);
  void note_sizes(const Shape& shape, std::vector<int64_t>& sizes) const;
  void note_operands(const Node& node, std::span<const Operand> operands, std::span<const Operand> others);
  NodeInput add(Node node);
  NodeInput operand(ImportedValue& value, const std::string& name);
  std::string unique_name(const std::string& wanted);
  void set_output(const std::string& name, ImportedValue value);
  const TriedTypes& types(const NodeInput& input) const;
  std::optional<RoundedConstant> folded(const NodeInput& value);
  /// A result of constants, none of which is rounded, where that is fast to compute: of functions of elements
  /// and rows, reductions, movements, products of matrices, and of several of them that one node of the model
  /// stands for (`parts`). Nothing of others.
  std::optional<Tensor> computed_constant(const Node& node, size_t result, ComputedParts& parts);
  std::optional<Tensor> constant_input(const NodeInput& input, ComputedParts& parts);
  /// Whether a function of constants is computed while the model is read; takes its work off if so.
  bool may_compute(const Node& node, const Operand& result);
  NodeInput add_rounding(NodeInput value, const std::string& name, const QuantSpec& spec);
  /// Gives a constant of the file its share of what may be known.
  void let_move(const Tensor& constant);
  /// Whether so many bytes more may be known before the network runs; takes them off if so.
  bool may_know(int64_t bytes);

  OnnxModelFile& file_;
  const OnnxImportOptions& options_;
  const ImportTrial trial_;
  bool outputs_have_batch_ = true;
  bool has_open_second_sizes_ = false;
  bool chooses_branches_ = false;  // at run time
  bool has_hidden_sizes_ = false;
  OnnxLoops unwritten_loops_;
  bool has_unknown_counts_ = false;
  size_t refused_ = 0;
  std::vector<int64_t> noted_sizes_;  // at odds in the node that is converted
  std::vector<int64_t> sizes_at_odds_;
  bool advises_sizes_ = false;
  Graph graph_;
  std::vector<std::unique_ptr<ImportedValue>> values_;
  using FunctionName = std::tuple<std::string, std::string, std::string>;  // domain, name, overload
  std::map<FunctionName, const onnx::FunctionProto*> functions_;
  std::map<const onnx::FunctionProto*, std::vector<std::shared_ptr<const onnx::AttributeProto>>> defaults_;
  const size_t most_nodes_;
  size_t written_out_ = 0;                // nodes of functions and subgraphs, in all calls and iterations
  int64_t knowable_ = int64_t{32} << 20;  // bytes that may still be computed of constants and shapes
  static constexpr int64_t kDropsBelow = int64_t{16} << 20;
  int64_t drops_below_ = kDropsBelow;        // of them; then what nothing reads is dropped
  int64_t computable_ = int64_t{256} << 20;  // bytes that functions of constants may still read and write
  std::unordered_set<std::string> varying_;  // by value_name: values that no limit keeps from being constants
  size_t constants_sought_ = 0;
  std::map<const onnx::GraphProto*, std::vector<std::pair<const std::string*, ImportedValue*>>> initializers_;
  std::map<const onnx::AttributeProto*, Tensor> attribute_tensors_;  // shared by calls of a function
  std::unordered_map<std::string, TriedTypes> types_;                // by value_name
  std::unordered_map<std::string, size_t> readers_;                  // of the outermost graph's values
  std::unordered_map<std::string, size_t> read_;                     // how many of them are converted
  std::set<std::string, std::less<>> names_;
  std::unordered_map<std::string, size_t> suffixes_;  // the last one, of names that are taken
  std::map<std::string, std::string> symbols_;        // of the model's open dimensions
  std::optional<std::string> batch_symbol_;
  NamedSizes given_sizes_;           // of the open dimensions that a shape gives, by their names here
  std::set<std::string> roundings_;  // nodes that only round
  std::map<const Parameter*, std::pair<ParameterRef, QuantSpec>> rounded_parameters_;
  NamedSizes first_sizes_;
  NamedSizes second_sizes_;
  OtherSizes other_sizes_;
  ImportScope outermost_;
  // In a body: the importer of the graph with the loop, the scope of the loop there, and values that it
  // reads.
  OnnxImporter* around_ = nullptr;
  const ImportScope* scope_around_ = nullptr;
  std::vector<std::pair<ImportedValue*, ImportedValue*>> captured_;  // there and here, in order
  // Scope of the node that is being converted.
  ImportScope* scope_ = nullptr;
  const onnx::NodeProto* node_ = nullptr;
  size_t depth_ = 0;
};

}  // namespace detent
