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
  if (kind == Kind::kGroups) return Table{{"group_size", group_size}, {"axis", listed.front()}};
  if (kind == Kind::kKeep) return Table{{"keep", Value(listed)}};
  return listed.empty() ? Value("none") : Value(listed);
}

Dims Dims::from_value(const Value& value, const std::string& where) {
  const auto wrong = [&] { fail("{}: got {}, expected {}", where, value_text(value), field_type()); };
  Dims dims{Kind::kReduce, {}, 0};
  const Value* listed = &value;
  const auto* table = value.get_if<Table>();
  if (table != nullptr && table->contains("group_size")) {
    const auto* size = table->find("group_size")->get_if<int64_t>();
    const Value* axis = table->find("axis");
    if (size == nullptr || *size < 1 || axis == nullptr || table->size() != 2) wrong();
    if (axis->get_if<int64_t>() == nullptr) wrong();
    return groups(*size, *axis->get_if<int64_t>());
  }
  if (table != nullptr) {
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
  if (!sample_shape_ && dims_.kind == Dims::Kind::kGroups) {
    const auto [before, places, after] = around_axis(sample_shape);
    kept_shape_ = {places, before * after / dims_.group_size};
    sample_shape_ = sample_shape;
  }
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

std::array<int64_t, 3> Reduction::around_axis(const Shape& sample_shape) const {
  const auto rank = static_cast<int64_t>(sample_shape.size()) + 1;
  const int64_t given = dims_.listed.front();
  const int64_t axis = given < 0 ? given + rank : given;
  if (axis < 1 || axis >= rank) {
    fail(
        "statistics: key \"dims\": got axis = {}, but a batch has {} dimensions, the first of samples: "
        "expected "
        "1 to {}, or counted from the end",
        given, rank, rank - 1);
  }
  const auto at = sample_shape.begin() + (axis - 1);
  const int64_t before = element_count(Shape(sample_shape.begin(), at));
  const int64_t after = element_count(Shape(at + 1, sample_shape.end()));
  if (before * after % dims_.group_size != 0) {
    fail(
        "statistics: key \"dims\": got group_size = {}, but {} elements of a sample of shape {} share a "
        "place of "
        "dimension {}: expected a divisor of that",
        dims_.group_size, before * after, shape_text(sample_shape), axis);
  }
  return {before, *at, after};
}

Tensor Reduction::arranged(const Tensor& batch) const {
  if (dims_.kind != Dims::Kind::kGroups || batch.rank() == 0) return batch;
  const Shape sample_shape(batch.shape().begin() + 1, batch.shape().end());
  const auto [before, places, after] = around_axis(sample_shape);
  const Shape shape = {batch.dim(0), places, before * after / dims_.group_size, dims_.group_size};
  if (before == 1) return batch.reshaped(shape);
  Tensor result(DType::kFloat32, shape);
  const float* from = batch.values<float>().data();
  float* to = result.values<float>().data();
  for (int64_t sample = 0; sample < batch.dim(0); ++sample, from += before * places * after) {
    for (int64_t place = 0; place < places; ++place) {
      for (int64_t row = 0; row < before; ++row, to += after)
        std::copy_n(from + (row * places + place) * after, after, to);
    }
  }
  return result;
}

std::vector<bool> Reduction::kept(const Shape& sample_shape) const {
  if (dims_.kind == Dims::Kind::kGroups) return {true, true, false};
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
  if (reduction.dims().kind == Dims::Kind::kGroups) table["group_size"] = reduction.dims().group_size;
  return table;
}

}  // namespace detent
