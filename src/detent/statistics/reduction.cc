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
  if (kind == Kind::kAll) return "all";
  if (kind == Kind::kKeep) return Table{{"keep", Value(listed)}};
  return listed.empty() ? Value("none") : Value(listed);
}

Dims Dims::from_value(const Value& value, const std::string& where) {
  const auto wrong = [&] { fail("{}: got {}, expected {}", where, value_text(value), field_type()); };
  Dims dims{Kind::kReduce, {}};
  const Value* listed = &value;
  if (const auto* table = value.get_if<Table>()) {
    dims.kind = Kind::kKeep;
    listed = table->find("keep");
    if (listed == nullptr || table->size() != 1) wrong();
  } else if (const auto* text = value.get_if<std::string>()) {
    if (*text == "all") return {};
    if (*text == "none") return dims;
  } else if (value.is_na()) {
    return dims;
  }
  const auto* list = listed->get_if<List>();
  if (list == nullptr) wrong();
  for (const Value& element : *list) {
    const auto* dim = element.get_if<int64_t>();
    if (dim == nullptr) wrong();
    dims.listed.push_back(*dim);
  }
  return dims;
}

void Reduction::accept(const Shape& sample_shape) {
  if (dims_.kind == Dims::Kind::kAll) return;
  if (!sample_shape_) {
    const std::vector<bool> kept_dims = kept(sample_shape);
    for (size_t i = 0; i < sample_shape.size(); ++i) {
      if (kept_dims[i]) kept_shape_.push_back(sample_shape[i]);
    }
    sample_shape_ = sample_shape;
  }
  if (*sample_shape_ != sample_shape) {
    fail("statistics: got samples of shape {} after samples of shape {}; dims = \"all\" takes any",
         shape_text(sample_shape), shape_text(*sample_shape_));
  }
}

void Reduction::accept(const Reduction& other) {
  DETENT_CHECK(dims_ == other.dims_, "dims {} and {}", value_text(dims_.to_value()),
               value_text(other.dims_.to_value()));
  if (!other.sample_shape_) return;
  if (sample_shape_ && *sample_shape_ != *other.sample_shape_) {
    fail("statistics: cannot merge samples of shape {} with samples of shape {}",
         shape_text(*other.sample_shape_), shape_text(*sample_shape_));
  }
  accept(*other.sample_shape_);
}

size_t Reduction::slots() const {
  if (dims_.kind == Dims::Kind::kAll) return 1;
  return sample_shape_ ? static_cast<size_t>(element_count(kept_shape_)) : 0;
}

std::vector<bool> Reduction::kept(const Shape& sample_shape) const {
  const auto rank = static_cast<int64_t>(sample_shape.size()) + 1;
  const bool keep_listed = dims_.kind == Dims::Kind::kKeep;
  std::vector<bool> kept(sample_shape.size() + 1, dims_.kind == Dims::Kind::kReduce);
  for (const int64_t dim : dims_.listed) {
    if (dim < -rank || dim >= rank) {
      fail(
          "statistics: key \"dims\": got {}, but a batch has {} dimensions: expected at least {} and below "
          "{}",
          dim, rank, -rank, rank);
    }
    kept[static_cast<size_t>(dim < 0 ? dim + rank : dim)] = keep_listed;
  }
  kept.erase(kept.begin());
  return kept;
}

Value Reduction::shaped(const std::function<Value(size_t slot)>& value_of) const {
  size_t slot = 0;
  return shaped_from(kept_shape_, 0, slot, value_of);
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
