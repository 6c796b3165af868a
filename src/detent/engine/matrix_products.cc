#include "detent/engine/matrix_products.h"

#include <cmath>

#include "detent/engine/place.h"

namespace detent {

std::string why_not_multiplied(const ProductForm& form, const Shape& a, const Shape& b) {
  if (a.size() < 2 || b.size() < 2) return "a product of vectors";
  if (!fits_bytes(form.a) || !fits_bytes(form.b)) return "inputs of more than 8 bits";
  if (form.output && !fits_bytes(*form.output)) return "results of more than 8 bits";
  if (!form.fits_depth(a.back())) return "sums beyond 32 bits";
  const float factor = form.output ? form.multiplier : form.scale;
  if (!std::isfinite(factor)) return "infinite scales";
  if (form.output && form.output->is_sign) {
    if (form.fixed) return "signs in fixed point";
    if (factor == 0) return "scales of 0";  // products with it have no sign
  }
  return "";
}

}  // namespace detent
