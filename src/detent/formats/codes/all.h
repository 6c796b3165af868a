#pragma once

#include <type_traits>
#include <variant>
#include <vector>

#include "detent/formats/all.h"
#include "detent/formats/codes/affine_codes.h"
#include "detent/formats/codes/binary_codes.h"
#include "detent/formats/codes/binary_residual_codes.h"
#include "detent/formats/codes/block_coding.h"
#include "detent/formats/codes/block_fp_codes.h"
#include "detent/formats/codes/block_log_codes.h"
#include "detent/formats/codes/block_minifloat_codes.h"
#include "detent/formats/codes/codebook_codes.h"
#include "detent/formats/codes/coding.h"
#include "detent/formats/codes/fixed_codes.h"
#include "detent/formats/codes/log_codes.h"
#include "detent/formats/codes/minifloat_codes.h"
#include "detent/formats/codes/minifloat_denorm_codes.h"
#include "detent/formats/codes/mx_codes.h"
#include "detent/formats/codes/nvfp4_codes.h"
#include "detent/formats/codes/ternary_codes.h"

namespace detent {

namespace codes_detail {

/// A vector of the coder of each element format of the variant Result; blocks are coded by one of these.
template <class Result, class... F>
struct PerGroup;
template <class... Coders>
struct PerGroup<std::variant<Coders...>> {
  using type = std::variant<Coders...>;
};
template <class... Coders, class F, class... Rest>
struct PerGroup<std::variant<Coders...>, F, Rest...> : PerGroup<std::variant<Coders...>, Rest...> {};
template <class... Coders, ElementFormat F, class... Rest>
struct PerGroup<std::variant<Coders...>, F, Rest...>
    : PerGroup<std::variant<Coders..., std::vector<typename Coding<F>::Coder>>, Rest...> {};

template <class Variant>
struct OfFormats;
template <class... F>
struct OfFormats<std::variant<F...>> {
  using type = typename PerGroup<std::variant<>, F...>::type;
};

}  // namespace codes_detail

/// What says which streams a format has beside its codes, and fills them.
template <class F>
using StreamsOf = std::conditional_t<BlockFormat<F>, BlockCoding<F>, Coding<F>>;

/// The coders of all groups of a tensor, all of the same format; for blocks one, of the elements.
using GroupCoders = codes_detail::OfFormats<Format>::type;

}  // namespace detent
