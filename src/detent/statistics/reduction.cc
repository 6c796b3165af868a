#include "detent/statistics/reduction.h"

#include <algorithm>
#include <cmath>

namespace detent {
namespace {

Value shaped_from(const Shape& shape, size_t dim, size_t& slot,
                  const std::function<Value(size_t)>& value_of) {
  if (dim == shape.size()) return value_of(slot++);
  List list;
  for (int64_t i = 0; i < shape[dim]; ++i) list.push_back(shaped_from(shape, dim + 1, slot, value_of));
  return list;
}

/// Adding 0 makes -0 a 0: which of the two is the smallest would depend on the order of the values.
Value float_value(float value) { return static_cast<double>(value + 0.0F); }

Value range_value(float min, float max) {
  const float range = max - min;
  return std::isnan(range) ? Value() : float_value(range);
}

}  // namespace

Value Dims::to_value() const {
  if (all) return "all";
  return reduced.empty() ? Value("none") : Value(reduced);
}

Dims Dims::from_value(const Value& value, const std::string& where) {
  if (value.is_na()) return {.all = false, .reduced = {}};
  if (const auto* text = value.get_if<std::string>()) {
    if (*text == "all") return {};
    if (*text == "none") return {.all = false, .reduced = {}};
  }
  if (const auto* list = value.get_if<List>()) {
    Dims dims{.all = false, .reduced = {}};
    for (const Value& element : *list) {
      const auto* dim = element.get_if<int64_t>();
      if (dim == nullptr) fail("{}: got {}, expected {}", where, value_text(value), field_type());
      dims.reduced.push_back(*dim);
    }
    return dims;
  }
  fail("{}: got {}, expected {}", where, value_text(value), field_type());
}

void Reduction::accept(const Tensor& batch) {
  if (dims_.all) return;
  const Shape& shape = batch.shape();
  const Shape sample = shape.empty() ? Shape{} : Shape(shape.begin() + 1, shape.end());
  if (!sample_shape_) learn(sample);
  if (*sample_shape_ != sample) {
    fail("statistics: got samples of shape {} after samples of shape {}; dims = \"all\" takes any",
         shape_text(sample), shape_text(*sample_shape_));
  }
}

void Reduction::accept(const Reduction& other) {
  DETENT_CHECK(dims_ == other.dims_, "dims {} and {}", value_text(dims_.to_value()),
               value_text(other.dims_.to_value()));
  if (dims_.all || !other.sample_shape_) return;
  if (!sample_shape_) learn(*other.sample_shape_);
  if (*sample_shape_ != *other.sample_shape_) {
    fail("statistics: cannot merge samples of shape {} with samples of shape {}",
         shape_text(*other.sample_shape_), shape_text(*sample_shape_));
  }
}

size_t Reduction::slots() const {
  if (dims_.all) return 1;
  return sample_shape_ ? static_cast<size_t>(element_count(kept_shape_)) : 0;
}

void Reduction::learn(const Shape& sample) {
  const auto rank = static_cast<int64_t>(sample.size()) + 1;
  std::vector<bool> kept(sample.size() + 1, true);
  for (const int64_t dim : dims_.reduced) {
    if (dim < -rank || dim >= rank) {
      fail(
          "statistics: key \"dims\": got {}, but a batch has {} dimensions: expected at least {} and below "
          "{}",
          dim, rank, -rank, rank);
    }
    kept[static_cast<size_t>(dim < 0 ? dim + rank : dim)] = false;
  }
  kept_shape_.clear();
  slot_of_.assign(1, 0);
  for (size_t i = 0; i < sample.size(); ++i) {
    const auto size = static_cast<size_t>(sample[i]);
    std::vector<size_t> finer;
    finer.reserve(slot_of_.size() * size);
    for (const size_t slot : slot_of_) {
      for (size_t k = 0; k < size; ++k) finer.push_back(kept[i + 1] ? slot * size + k : slot);
    }
    slot_of_ = std::move(finer);
    if (kept[i + 1]) kept_shape_.push_back(sample[i]);
  }
  sample_shape_ = sample;
}

Value Reduction::shaped(const std::function<Value(size_t slot)>& value_of) const {
  size_t slot = 0;
  return shaped_from(kept_shape_, 0, slot, value_of);
}

void SpecialCounts::write(Table& table) const {
  if (nan > 0) table["nan_count"] = nan;
  if (infinity > 0) table["infinity_count"] = infinity;
}

void check_sample_dtype(const Tensor& batch, std::string_view collector) {
  if (batch.dtype() != DType::kFloat32) {
    fail("{}: got a tensor of {}, expected float32", collector, dtype_name(batch.dtype()));
  }
}

Table range_table(const Reduction& reduction, const std::vector<float>& min, const std::vector<float>& max,
                  int64_t count) {
  Table table;
  table["min"] = reduction.shaped([&](size_t slot) { return float_value(min[slot]); });
  table["max"] = reduction.shaped([&](size_t slot) { return float_value(max[slot]); });
  table["range"] = reduction.shaped([&](size_t slot) { return range_value(min[slot], max[slot]); });
  table["count"] = count;
  return table;
}

}  // namespace detent
