#pragma once

#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/reconstruction/im2col.h"
#include "detent/reconstruction/matrix.h"

namespace detent {

/// The mean of x x^T over the rows x of im2col that a layer's weight multiplies, one matrix for each group of
/// rows. With the rows d of (chosen - original weight), the mean squared error of the layer's output is the
/// sum over rows of d H d^T: all that rounding needs to know of the data, in n^2 numbers.
///
/// Products are added up in float32 over runs of at most kRun rows, runs in double: the relative error of
/// an element is at most (kRun + 1) * 2^-24 of what the magnitudes would add up to. Runs are cut by the
/// inputs alone, so threads do not change a bit.
class GramMatrices {
 public:
  explicit GramMatrices(const Im2Col& im2col);

  /// A batch of the layer's inputs (float32, batch first), quantized as the layer will see them.
  void add(const Tensor& input);

  int64_t row_count() const { return count_; }
  /// Both triangles. Throws Error, beginning with `where`, when there was no patch and when
  /// an input was NaN or infinite.
  Matrix<double> mean(int64_t group, const std::string& where) const;
  /// The mean of the rows themselves. Throws likewise.
  std::vector<double> mean_row(int64_t group, const std::string& where) const;

  static constexpr int64_t kRun = 512;

 private:
  Im2Col im2col_;
  int64_t count_ = 0;
  std::vector<Matrix<double>> sums_;           // lower triangles
  std::vector<std::vector<double>> row_sums_;  // of each group
};

/// How far the rows x of im2col are from the rows f that the float network has in their place: the means of
/// (f - x) x^T and of (f - x) (f - x)^T, added up as in GramMatrices.
class ShiftMatrices {
 public:
  explicit ShiftMatrices(const Im2Col& im2col);

  /// Two batches of one shape: the layer's inputs, quantized as it will see them, and the float network's.
  void add(const Tensor& input, const Tensor& in_float);

  /// The mean of (f - x) x^T; throws as GramMatrices::mean does, like the other.
  Matrix<double> mean(int64_t group, const std::string& where) const;
  /// The mean of (f - x) (f - x)^T.
  Matrix<double> gram(int64_t group, const std::string& where) const { return grams_.mean(group, where); }

 private:
  Im2Col im2col_;
  GramMatrices grams_;
  std::vector<Matrix<double>> sums_;
};

/// All that rounding needs to know of the inputs x of a group of rows.
struct InputMoments {
  Matrix<double> gram;        // mean of x x^T
  Matrix<double> shift;       // of (f - x) x^T; empty where outputs are to be as with x, not as with f
  Matrix<double> shift_gram;  // of (f - x) (f - x)^T, likewise
  int64_t number = 0;         // where several layers take the same inputs, the same of all and of no others
};

/// For each row w in [row_begin, row_end) the mean square of w y - v x, where y is f where there is a shift,
/// else x, and v the row of `chosen`. With v = 0 it is the mean square of the outputs.
std::vector<double> row_errors(const InputMoments& inputs, const Tensor& weight, const Tensor& chosen,
                               int64_t row_begin, int64_t row_end);

/// For each row r in [row_begin, row_end) of two weights of equal shape: what b's output is below a's on
/// average, where `mean_row` is the mean of the inputs.
std::vector<double> output_shifts(const std::vector<double>& mean_row, const Tensor& a, const Tensor& b,
                                  int64_t row_begin, int64_t row_end);

/// For each row r in [row_begin, row_end) of two weights of equal shape: d H d^T, d being the difference of
/// the rows.
std::vector<double> output_errors(const Matrix<double>& gram, const Tensor& a, const Tensor& b,
                                  int64_t row_begin, int64_t row_end);

}  // namespace detent
