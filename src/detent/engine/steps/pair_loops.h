#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "detent/core/thread_pool.h"
#include "detent/engine/place.h"

namespace detent {

/// Loops over the elements of a result in the order of its memory, beside the two operands that broadcast to
/// it, as few as their shapes allow. Everything is counted in elements.
class PairLoops {
 public:
  /// Elements whose results are adjacent; those of an operand are `a_step` or `b_step` apart. The results of
  /// `rows` such lines are adjacent too, whose operands are `a_row` or `b_row` apart.
  struct Line {
    int64_t to, a, b;
    int64_t count;
    int64_t a_step, b_step;
    int64_t rows = 1;
    int64_t a_row = 0, b_row = 0;
  };

  PairLoops() = default;
  /// An operand without a place is one number.
  PairLoops(const Place& to, const Place* a, const Place* b);

  /// Elements of a line.
  int64_t line() const { return inner_.count; }

  /// Calls `compute(line)` for lines of up to `most` elements that together are the result, several at once
  /// where they have no more than `most_in_rows` elements.
  template <class Compute>
  void run(int threads, int64_t most, const Compute& compute, int64_t most_in_rows = 0) const {
    const int64_t parts = (inner_.count + most - 1) / most;  // of the innermost loop
    const int64_t at_once = std::max<int64_t>(most / std::max<int64_t>(inner_.count, 1), 1);
    ThreadPool::shared().run((lines_ + at_once - 1) / at_once * parts, threads, [&](int64_t task) {
      const int64_t first = task % parts * most;
      const int64_t end = std::min(lines_, (task / parts + 1) * at_once);
      for (int64_t at = task / parts * at_once; at < end;) {
        Line line = line_at(at, first, std::min(most, inner_.count - first));
        line.rows = std::min(rows_from(at, most_in_rows), end - at);
        compute(line);
        at += line.rows;
      }
    });
  }

 private:
  struct Loop {
    int64_t count;
    int64_t to, a, b;
  };

  void add(const Loop& next);
  Line line_at(int64_t line, int64_t first, int64_t count) const;
  /// How many lines from one on have adjacent results and no more than so many elements; 1 where not even
  /// two.
  int64_t rows_from(int64_t line, int64_t most) const;

  std::vector<Loop> loops_;  // but the innermost, ...
  Loop inner_ = {};          // which this is
  int64_t lines_ = 0;
  int64_t first_to_ = 0, first_a_ = 0, first_b_ = 0;
};

/// Where the rows of an operand begin that broadcasts to a result, both in rows.
class RowOffsets {
 public:
  RowOffsets() = default;
  /// An operand without a place is one number.
  RowOffsets(const Place* place, const Shape& result);

  int64_t of(int64_t matrix, int64_t row) const;
  /// Elements from a column to the next: 0 or 1.
  int64_t step() const { return step_; }
  /// Whether rows of a matrix that have so many columns are adjacent.
  bool are_adjacent(int64_t columns) const { return step_ == 1 && row_ == columns; }

 private:
  struct Dim {
    int64_t size;
    int64_t step;
  };
  std::vector<Dim> matrices_;  // of the dimensions before the last two
  int64_t row_ = 0;
  int64_t step_ = 0;
};

/// Lines that rows of a matrix are: one where those of both operands are adjacent, else one each.
struct RowLines {
  int64_t count;
  int64_t elements;  // of a line
};
inline RowLines lines_of(int64_t rows, int64_t columns, const RowOffsets& a, const RowOffsets& b) {
  const bool is_one = a.are_adjacent(columns) && b.are_adjacent(columns);
  return is_one ? RowLines{1, rows * columns} : RowLines{rows, columns};
}

/// Up to kMost elements that follow each other, of rows of an operand.
template <class Element, int64_t kMost>
class AdjacentElements {
 public:
  const Element* of(const Element* from, int64_t step, int64_t count, int64_t row_step = 0,
                    int64_t rows = 1) {
    if (step == 1 && (rows == 1 || row_step == count)) return from;
    Element* to = elements_.data();
    for (int64_t row = 0; row < rows; ++row, to += count) {
      const Element* const of_row = from + row * row_step;
      if (step == 1) {
        std::copy_n(of_row, count, to);
      } else if (step == 0) {
        std::fill_n(to, count, *of_row);
      } else {
        for (int64_t i = 0; i < count; ++i) to[i] = of_row[i * step];
      }
    }
    return elements_.data();
  }

 private:
  std::array<Element, static_cast<size_t>(kMost)> elements_;
};

}  // namespace detent
