#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "detent/engine/program_plan.h"
#include "detent/graph/element_movement.h"

namespace detent {

/// By place, the steps that write or read it.
using PlaceUsers = std::vector<std::vector<size_t>>;

/// A concatenation of channels: the step that copies its inputs, places channels last, into the place `to`.
struct JoinedChannels {
  size_t step;
  size_t to;
  std::vector<JoinedInput> inputs;
};

/// Lets the inputs of concatenations be slices of their results, where all steps that write or read them can
/// take them so: nothing is copied then, and steps without anything to copy go.
void join_in_place(ProgramPlan& plan, const KernelSet& kernels, PlaceUsers users,
                   std::vector<JoinedChannels> joins);

/// Drops functions of elements whose results nothing reads. Then lets products of matrices, what is computed
/// on the rows of their results, and products of these take turns on a few rows, where nothing else reads
/// what lies between them.
void chain_rows(ProgramPlan& plan, PlaceUsers& users, std::vector<JoinedChannels>& joins);

/// Elements of another value, in the order of a view of it that nobody has moved yet.
struct PendingMove {
  const Node* node;
  std::string from;
  std::optional<CodeType> type;  // none: values
  StridedView view;
};

/// Where a value of the graph can be read, as far as the steps so far have brought it.
struct PlannedValue {
  Shape shape;
  std::optional<CodeType> type = {};  // none: values, or no float at all
  size_t flow = kNoFlow;
  bool flow_is_ready = false;
  const Node* quantizer = nullptr;  // the flow has values that this node's type rounds
  bool flow_has_integers = false;   // or codes of that type, as 8-bit integers
  std::optional<PendingMove> move = {};
  std::optional<Flow> known = {};  // follows from shapes and constants; no step computes it
  std::vector<size_t> places = {};
  std::map<std::string, size_t> rounded = {};  // places of its values in formats, by the formats' text
};

/// A plan that grows step by step: where values lie, and the steps that bring them from one place, layout or
/// type to another.
class PlanBuilder {
 public:
  PlanBuilder(const ValueTypes& types, const KernelSet& kernels) : types_(types), kernels_(kernels) {}

  const KernelSet& kernels() const { return kernels_; }
  const ValueTypes& types() const { return types_; }
  const Shape& shape(const std::string& value) const { return types_.at(value).shape; }
  bool is_tensor(const std::string& value) const { return types_.at(value).is_tensor(); }
  bool is_float(const std::string& value) const;
  /// A shape that is known, of a rank that places have.
  bool is_placeable(const std::string& value) const;
  bool has_positions(const std::string& value) const;
  /// Whether it has one to three dimensions of positions.
  bool may_be_pooled(const std::string& value) const;

  /// A value as no step has computed it yet.
  PlannedValue new_value(const std::string& name) const;
  void add_value(const std::string& name, PlannedValue value) { values_.emplace(name, std::move(value)); }
  const PlannedValue& value(const std::string& name) const { return values_.at(name); }

  EngineStep& add(std::unique_ptr<EngineStep> step, std::string nodes, std::string kernel,
                  std::string why = "");

  // Places.
  /// The step that is added next writes it.
  size_t add_place(Place place);
  /// For the float32 values of `value`, or those of its codes of a wide type.
  size_t add_values_place(const std::string& value, Layout layout, const CodeType& type = {});
  Place& place(size_t index) { return plan_.places[index]; }
  /// Notes that the step which is added next reads it.
  size_t read(size_t place);
  /// The step that is added next copies what is joined along the channels of places channels last; others
  /// may spare it some of that.
  void note_joined_channels(size_t to, const std::vector<JoinedInput>& inputs) {
    joins_.push_back({plan_.steps.size(), to, inputs});
  }
  /// The place, or a copy of one that is shared, with at least that border; read it after that.
  size_t with_border(size_t place, const Halo& halo, const Node& reader);
  /// A place of the value's codes of `type`, of a wide one as their values; in any layout where none is asked
  /// for.
  size_t place_of(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                  const Node& reader);
  /// A place of 8-bit integers, of which `low` is the lowest that there are.
  size_t integer_bytes(const std::string& name, int32_t low, Layout layout, const Node& reader);
  /// Whether a place has the value as float32.
  bool has_values(const std::string& name) const;
  /// The place of a value whose flow is not there yet.
  std::optional<size_t> place_before_flow(const std::string& name);
  /// Whether one may: it is there, or in a flow that has no codes.
  bool may_have_values(const std::string& name) const;
  /// A place of the value as float32; in any layout where none is asked for.
  size_t values_of(const std::string& name, std::optional<Layout> layout, const Node& reader);
  /// A place of the values that its codes of `type` have.
  size_t values_of_codes(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                         const Node& reader);
  /// A place of its codes of `type`, or where there is none of its values.
  size_t operand(const std::string& name, const std::optional<CodeType>& type, std::optional<Layout> layout,
                 const Node& reader) {
    return type ? place_of(name, *type, layout, reader) : values_of(name, layout, reader);
  }
  /// A place of its values that a step before has rounded to a format.
  std::optional<size_t> rounded_place(const std::string& name, const std::string& format) const {
    const std::map<std::string, size_t>& places = values_.at(name).rounded;
    const auto found = places.find(format);
    return found == places.end() ? std::nullopt : std::optional(found->second);
  }
  void note_rounded(const std::string& name, const std::string& format, size_t place) {
    values_.at(name).rounded.emplace(format, place);
  }
  /// A place of the bytes that values at `from` are rounded to.
  size_t rounded_bytes(size_t from, const CodeType& type, const Shape& shape, const Node& reader);
  /// Notes that a step computes the value `name`.
  void set_place(const std::string& name, size_t place);

  // Flows.
  size_t new_flow() { return plan_.flow_count++; }
  /// The step that is added next needs it.
  void note_flow(size_t flow) { flow_uses_[flow] = plan_.steps.size(); }
  size_t flow_of(const std::string& name);
  /// One that is there after the run too, as an input of the network is.
  void add_input(size_t flow);
  /// One that the plan may drop.
  void add_taken_input(size_t flow) { plan_.inputs.push_back(flow); }
  void add_output(size_t flow);

  ProgramPlan finished();

 private:
  size_t new_place(const PlannedValue& value, const CodeType& type, Layout layout);
  size_t wide_place_of(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                       const Node& reader);
  /// The table of bytes that functions of single elements and `last` make of those at a place before `from`.
  struct ByteFunction {
    size_t place;
    std::vector<uint8_t> table;
  };
  std::optional<ByteFunction> byte_function(size_t from, const EngineStep& last) const;
  size_t bytes_from_values(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                           const Node& reader);
  std::optional<size_t> existing_values(const PlannedValue& value, std::optional<Layout> layout) const;
  std::optional<size_t> existing_place(const PlannedValue& value, const CodeType& type,
                                       std::optional<Layout> layout) const;
  size_t place_of_flow(const std::string& name, const CodeType& type, Layout layout, const Node& reader);
  size_t converted_place(const std::string& name, const CodeType& type, std::optional<Layout> layout,
                         const Node& reader);
  size_t dequantized(const CodeType& type, size_t from, const Node& reader);
  void make_move(const std::string& name);
  /// The same of channels that become positions, as DepthToSpace moves them; false of others.
  bool spread_channels(const std::string& name);
  /// Another shape for all elements of a place, where they lie in its order already.
  std::optional<Place> reshaped(size_t from, const StridedView& view);
  /// The step that was added last makes a place of a value: once where that is the same in each run.
  void note_constant(const std::string& name, size_t place);
  void drop_flows();
  void note_bytes();
  void set_next_weights();

  const ValueTypes& types_;
  const KernelSet& kernels_;
  std::map<std::string, PlannedValue, std::less<>> values_;
  std::map<size_t, size_t> flow_uses_;  // the last step
  std::set<size_t> kept_flows_;
  PlaceUsers users_;
  std::vector<JoinedChannels> joins_;
  std::vector<size_t> constants_;  // places that keep what they have from run to run
  int64_t constant_bytes_ = 0;
  ProgramPlan plan_;
};

}  // namespace detent
