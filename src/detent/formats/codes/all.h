#pragma once

#include <variant>
#include <vector>

#include "detent/formats/all.h"
#include "detent/formats/codes/binary_codes.h"
#include "detent/formats/codes/coding.h"
#include "detent/formats/codes/fixed_codes.h"
#include "detent/formats/codes/minifloat_codes.h"
#include "detent/formats/codes/ternary_codes.h"

namespace detent {
namespace codes_detail {

template <class Variant>
struct PerGroup;
template <class... F>
struct PerGroup<std::variant<F...>> {
  using type = std::variant<std::vector<typename Coding<F>::Coder>...>;
};

}  // namespace codes_detail

/// The coders of all groups of a tensor, all of the same format.
using GroupCoders = codes_detail::PerGroup<Format>::type;

}  // namespace detent
