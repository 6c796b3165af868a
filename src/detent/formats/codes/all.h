#pragma once

#include <variant>
#include <vector>

#include "detent/formats/all.h"
#include "detent/formats/codes/affine_codes.h"
#include "detent/formats/codes/binary_codes.h"
#include "detent/formats/codes/binary_residual_codes.h"
#include "detent/formats/codes/codebook_codes.h"
#include "detent/formats/codes/coding.h"
#include "detent/formats/codes/fixed_codes.h"
#include "detent/formats/codes/log_codes.h"
#include "detent/formats/codes/minifloat_codes.h"
#include "detent/formats/codes/minifloat_denorm_codes.h"
#include "detent/formats/codes/ternary_codes.h"

namespace detent {

template <class F>
concept Encodable = requires {
  sizeof(typename Coding<F>::Coder);
};

namespace codes_detail {

/// Stands for the coders of a format that has no codes.
struct NoCoder {
  static constexpr bool kHasNan = false;
};

template <class F>
struct CoderOf {
  using type = NoCoder;
};
template <Encodable F>
struct CoderOf<F> {
  using type = typename Coding<F>::Coder;
};

template <class Variant>
struct PerGroup;
template <class... F>
struct PerGroup<std::variant<F...>> {
  using type = std::variant<std::vector<typename CoderOf<F>::type>...>;
};

}  // namespace codes_detail

/// The coders of all groups of a tensor, all of the same format.
using GroupCoders = codes_detail::PerGroup<Format>::type;

}  // namespace detent
