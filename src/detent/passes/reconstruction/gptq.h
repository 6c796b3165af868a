#pragma once

#include <cstdint>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/formats/blocks/fixed_scale_rounding.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/passes/reconstruction/matrix.h"

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

}  // namespace detent
