#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/formats/blocks/fixed_scale_rounding.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/reconstruction/matrix.h"

namespace detent {

struct GptqOptions {
  double percdamp = 0.01;
  bool act_order = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("percdamp", self.percdamp, "what is added to the Gram matrix's diagonal, as a share of its mean",
          Between{1e-9, 1e3});
    visit("act_order", self.act_order, "round the columns with the largest inputs first");
  }
};

/// Moments of a layer's inputs for GPTQ: several roundings of a weight share it.
class GptqColumns {
 public:
  /// `gram` [n, n] is proportional to the sum of x x^T over the inputs x that the rows multiply; its lower
  /// triangle is read. Throws Error, beginning with `where`, when the damped matrix is not positive definite,
  /// as with NaN.
  GptqColumns(const Matrix<double>& gram, const GptqOptions& options, const std::string& where);
  /// With another order of the columns than `options` asks for.
  GptqColumns(const Matrix<double>& gram, std::vector<int64_t> order, const GptqOptions& options,
              const std::string& where);

  int64_t count() const { return factor_.rows(); }
  /// The order in which columns are rounded.
  const std::vector<int64_t>& order() const { return order_; }
  /// Upper triangular U with U^T U the inverse of the damped matrix in that order.
  const Matrix<double>& factor() const { return factor_; }
  /// The first element on the diagonal of the damped matrix, in that order.
  double first_moment() const { return first_moment_; }

 private:
  std::vector<int64_t> order_;
  double first_moment_ = 0;
  Matrix<double> factor_;
};

/// Columns for a block format: those of a block one after another.
GptqColumns block_columns(const Matrix<double>& gram, const BlockRounding& rounding,
                          const GptqOptions& options, const std::string& where);

/// Replaces each row w in [row_begin, row_end) by the row whose outputs for the inputs x are nearest, in mean
/// squares, to those of w for the float network's inputs f: w + w D H^-1, `shift` being D = mean of (f - x)
/// x^T and H the damped Gram matrix of the columns. To be rounded then, which is asymmetric calibration (Li
/// et al. 2025, arXiv:2504.02692).
void match_float_outputs(const GptqColumns& columns, const Matrix<double>& shift, Tensor& weight,
                         int64_t row_begin, int64_t row_end);

/// First column of each row w by Qronos (Zhang et al. 2025, arXiv:2505.11695), before match_float_outputs:
/// the value that brings outputs nearest to the float network's while all other columns stay as they are, w_1
/// + (w D)_1 / H_11. From then on it is what match_float_outputs and gptq_round are: the columns that follow
/// are those with which outputs are nearest, and each is rounded to nearest.
std::vector<double> best_first_columns(const GptqColumns& columns, const Matrix<double>& shift,
                                       const Tensor& weight, int64_t row_begin, int64_t row_end);

/// Rounds the rows [row_begin, row_end) of `weight` (float32, [rows, ...], with n elements a row), in place,
/// to values of `grid`, one column after another: what a column's rounding does to the output is made up for
/// by the columns that follow (Frantar et al. 2022, arXiv:2210.17323). `gram` [n, n] is proportional to the
/// sum of x x^T over the inputs x that these rows multiply; its lower triangle is read. A column whose input
/// is always 0 is rounded to nearest. Throws Error, beginning with `where`, when the damped matrix is not
/// positive definite, as with NaN.
void gptq_round(const Matrix<double>& gram, const ValueGrid& grid, const GptqOptions& options,
                const std::string& where, Tensor& weight, int64_t row_begin, int64_t row_end);

/// The same in a block format, block by block. The scale of a block is that of its weights as they are when
/// the first of its columns is rounded, earlier columns' errors already made up for.
void gptq_round(const Matrix<double>& gram, const BlockRounding& rounding, const GptqOptions& options,
                const std::string& where, Tensor& weight, int64_t row_begin, int64_t row_end);

/// Both, with what several roundings share. `first`: what the first column of each row is rounded from
/// instead of its own value; none: from that.
void gptq_round(const GptqColumns& columns, const ValueGrid& grid, const std::string& where, Tensor& weight,
                int64_t row_begin, int64_t row_end, std::span<const double> first = {});
void gptq_round(const GptqColumns& columns, const BlockRounding& rounding, const std::string& where,
                Tensor& weight, int64_t row_begin, int64_t row_end, std::span<const double> first = {});

}  // namespace detent
