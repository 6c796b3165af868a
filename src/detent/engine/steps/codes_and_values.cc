#include <algorithm>
#include <atomic>
#include <vector>

#include "detent/engine/steps/place_rows.h"

// From codes to values and back, between places of one layout.

namespace detent {
namespace {

/// A function of the rows of a place.
class RowStep : public EngineStep {
 public:
  RowStep(size_t from, size_t to) : from_(from), to_(to) {}

  void run(RunState& state) const override {
    const Place& in = state.places[from_];
    const Place& out = state.places[to_];
    const uint8_t* const from = state.bytes(from_);
    uint8_t* const to = state.bytes(to_);
    fill_halo(out, to);
    std::atomic<bool> found_nan = false;
    for_each_chunk(in, out, state, 1, [&](int64_t first, int64_t result, int64_t count) {
      if (convert(from + first * in.element_bytes(), to + result * out.element_bytes(), count))
        found_nan = true;
    });
    if (found_nan) report_nan(values_of(state));
  }
  bool takes_slice(size_t /*index*/, const Place& place) const override { return has_long_runs(place); }

  std::optional<size_t> row_results() const override { return to_; }
  bool maps_rows_of(size_t place, std::span<const Place> /*places*/) const override { return place == from_; }
  bool compute_rows(RunState& state, const MatrixRows& rows) const override {
    return convert(rows.from, rows.to, rows.count * state.places[to_].shape.back());
  }
  std::optional<size_t> element_source() const override { return from_; }
  bool compute_elements(const void* from, void* to, int64_t count) const override {
    return convert(from, to, count);
  }

 protected:
  size_t result() const { return to_; }

 private:
  /// Whether a value is NaN.
  virtual bool convert(const void* from, void* to, int64_t count) const = 0;

  Tensor values_of(RunState& state) const {
    state.flows.emplace_back();
    flow_of_place(from_, state.flows.size() - 1)->run(state);
    return state.flows.back().tensor;
  }

  size_t from_;
  size_t to_;
};

class ValuesOfBytes final : public RowStep {
 public:
  ValuesOfBytes(const KernelSet& kernels, const CodeType& type, size_t from, size_t to)
      : RowStep(from, to), kernels_(kernels), type_(type) {}

 private:
  bool convert(const void* from, void* to, int64_t count) const override {
    kernels_.dequantize(type_.scale, type_.zero_point - type_.low, static_cast<const uint8_t*>(from),
                        static_cast<float*>(to), count);
    return false;
  }

  const KernelSet& kernels_;
  CodeType type_;
};

/// Rounds values, of which none may be NaN.
class RoundingStep : public RowStep {
 public:
  RoundingStep(const KernelSet& kernels, const Node& node, const CodeType& type, size_t from, size_t to)
      : RowStep(from, to), kernels_(kernels), type_(type), node_(node) {}

 protected:
  const KernelSet& kernels_;
  CodeType type_;

 private:
  void report_nan(const Tensor& values) const override {
    static_cast<void>(converted(node_, {values}, type_));
  }

  const Node& node_;
};

class BytesOfValues final : public RoundingStep {
 public:
  BytesOfValues(const KernelSet& kernels, const Node& node, const CodeType& type, size_t from, size_t to)
      : RoundingStep(kernels, node, type, from, to), finish_(finish_for(type)) {}

  bool takes_table(size_t index) const override { return index == result() && table_.empty(); }
  void add_table(std::span<const uint8_t> table) override { table_.assign(table.begin(), table.end()); }

 private:
  bool convert(const void* from, void* to, int64_t count) const override {
    const ByteQuantization way{type_.scale, finish_.least, finish_.most, finish_.zero};
    auto* const codes = static_cast<uint8_t*>(to);
    const bool found_nan = kernels_.quantize(way, static_cast<const float*>(from), codes, count);
    if (!table_.empty()) kernels_.look_up(table_.data(), codes, codes, count);
    return found_nan;
  }

  SumFinish finish_;
  std::vector<uint8_t> table_;  // of what becomes of the codes, if there is one
};

class RoundedValues final : public RoundingStep {
 public:
  RoundedValues(const KernelSet& kernels, const Node& node, float unit, const CodeType& type, size_t from,
                size_t to)
      : RoundingStep(kernels, node, type, from, to) {
    const SumFinish finish = finish_for(type);
    rounding_ = {unit, finish.least, finish.most, type.scale};
  }

 private:
  bool convert(const void* from, void* to, int64_t count) const override {
    return kernels_.round(rounding_, static_cast<const float*>(from), static_cast<float*>(to), count);
  }

  ValueRounding rounding_{};
};

class ValuesByCode final : public RowStep {
 public:
  ValuesByCode(const KernelSet& kernels, const TableForm& form, size_t from, size_t to)
      : RowStep(from, to), kernels_(kernels) {
    for (const int32_t code : form.codes) codes_.push_back(static_cast<uint16_t>(code - form.output.low));
    const CodeType& in = form.input;
    const CodeType& out = form.output;
    table_ = {{in.scale, in.zero_point - in.low}, codes_.data(), out.scale, out.zero_point - out.low};
  }

 private:
  bool convert(const void* from, void* to, int64_t count) const override {
    kernels_.look_up_wide(table_, static_cast<const float*>(from), static_cast<float*>(to), count);
    return false;
  }

  const KernelSet& kernels_;
  std::vector<uint16_t> codes_;
  WideTable table_{};
};

}  // namespace

std::unique_ptr<EngineStep> values_of_bytes(const KernelSet& kernels, const CodeType& type, size_t from,
                                            size_t to) {
  return std::make_unique<ValuesOfBytes>(kernels, type, from, to);
}

std::unique_ptr<EngineStep> bytes_of_values(const KernelSet& kernels, const Node& node, const CodeType& type,
                                            size_t from, size_t to) {
  return std::make_unique<BytesOfValues>(kernels, node, type, from, to);
}

std::unique_ptr<EngineStep> rounded_values(const KernelSet& kernels, const Node& node, float unit,
                                           const CodeType& type, size_t from, size_t to) {
  return std::make_unique<RoundedValues>(kernels, node, unit, type, from, to);
}

std::unique_ptr<EngineStep> values_by_code(const KernelSet& kernels, const TableForm& form, size_t from,
                                           size_t to) {
  return std::make_unique<ValuesByCode>(kernels, form, from, to);
}

}  // namespace detent
