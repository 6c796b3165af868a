#include "detent/engine/steps/pair_loops.h"

#include "detent/graph/element_movement.h"

namespace detent {
namespace {

/// Elements from one to the next in each dimension of a value.
std::vector<int64_t> steps_of(const Place& place) {
  if (!place.has_positions()) return StridedView::of(place.shape).strides;
  const int64_t depth = place.halo.front + place.depth() + place.halo.back;
  std::vector<int64_t> steps = {depth * place.image(), 1, place.image(), place.row(), place.pitch()};
  steps.erase(steps.begin() + 2, steps.end() - (std::ssize(place.shape) - 2));
  return steps;
}

/// Strides in the dimensions of `shape`, 0 where the value is repeated.
std::vector<int64_t> repeated_steps(const Place* place, const Shape& shape) {
  std::vector<int64_t> steps(shape.size(), 0);
  if (place == nullptr) return steps;
  const std::vector<int64_t> own = steps_of(*place);
  for (size_t i = 1; i <= own.size(); ++i) {
    if (place->shape[own.size() - i] != 1) steps[shape.size() - i] = own[own.size() - i];
  }
  return steps;
}

}  // namespace

PairLoops::PairLoops(const Place& to, const Place* a, const Place* b)
    : first_to_(to.at(0, 0, 0)),
      first_a_(a == nullptr ? 0 : a->at(0, 0, 0)),
      first_b_(b == nullptr ? 0 : b->at(0, 0, 0)) {
  const std::vector<int64_t> of_result = steps_of(to);
  const std::vector<int64_t> of_a = repeated_steps(a, to.shape);
  const std::vector<int64_t> of_b = repeated_steps(b, to.shape);
  for (size_t d = 0; d < to.shape.size(); ++d) {
    if (!to.has_positions() || d != 1) add({to.shape[d], of_result[d], of_a[d], of_b[d]});
  }
  if (to.has_positions()) add({to.shape[1], of_result[1], of_a[1], of_b[1]});
  // Results of the innermost are adjacent, which those of single channels in columns with a border between
  // them are not.
  if (loops_.empty() || loops_.back().to != 1) loops_.push_back({1, 1, 1, 1});
  inner_ = loops_.back();
  loops_.pop_back();
  lines_ = 1;
  for (const Loop& loop : loops_) lines_ *= loop.count;
}

/// Joins the loop to the one around it where that steps over all of it.
void PairLoops::add(const Loop& next) {
  if (next.count == 1) return;
  const bool joins = !loops_.empty() && loops_.back().to == next.to * next.count &&
                     loops_.back().a == next.a * next.count && loops_.back().b == next.b * next.count;
  if (joins) {
    loops_.back() = {loops_.back().count * next.count, next.to, next.a, next.b};
  } else {
    loops_.push_back(next);
  }
}

PairLoops::Line PairLoops::line_at(int64_t line, int64_t first, int64_t count) const {
  Line result{.to = first_to_ + first * inner_.to,
              .a = first_a_ + first * inner_.a,
              .b = first_b_ + first * inner_.b,
              .count = count,
              .a_step = inner_.a,
              .b_step = inner_.b,
              .a_row = loops_.empty() ? 0 : loops_.back().a,
              .b_row = loops_.empty() ? 0 : loops_.back().b};
  for (size_t i = loops_.size(); i-- > 0; line /= loops_[i].count) {
    const int64_t index = line % loops_[i].count;
    result.to += index * loops_[i].to;
    result.a += index * loops_[i].a;
    result.b += index * loops_[i].b;
  }
  return result;
}

int64_t PairLoops::rows_from(int64_t line, int64_t most) const {
  if (loops_.empty() || loops_.back().to != inner_.count) return 1;
  const int64_t left = loops_.back().count - line % loops_.back().count;
  return std::max<int64_t>(std::min(left, most / std::max<int64_t>(inner_.count, 1)), 1);
}

RowOffsets::RowOffsets(const Place* place, const Shape& result) {
  const std::vector<int64_t> steps = repeated_steps(place, result);
  const size_t rank = result.size();
  step_ = rank > 0 ? steps[rank - 1] : 0;
  row_ = rank > 1 ? steps[rank - 2] : 0;
  for (size_t d = 0; d + 2 < rank; ++d) matrices_.push_back({result[d], steps[d]});
}

int64_t RowOffsets::of(int64_t matrix, int64_t row) const {
  int64_t offset = row * row_;
  for (size_t d = matrices_.size(); d-- > 0; matrix /= matrices_[d].size)
    offset += matrix % matrices_[d].size * matrices_[d].step;
  return offset;
}

}  // namespace detent
