#include "detent/formats/group_parameters.h"

#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/formats/float_environment.h"

namespace detent {
namespace {

/// Elements that are worth handing to a thread.
constexpr int64_t kGrain = 16384;

bool groups_are_channels(const QuantSpec& spec) {
  return spec.granularity == Granularity::kChannel ||
         std::visit([](const auto& format) { return format.groups_are_channels(); }, spec.format);
}

}  // namespace

Grouping make_grouping(const QuantSpec& spec, const Shape& shape) {
  if (!groups_are_channels(spec)) return {1, 1, element_count(shape)};
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = spec.axis < 0 ? spec.axis + rank : spec.axis;
  if (axis < 0 || axis >= rank) {
    fail(
        "quantization: key \"axis\": got {}, but the tensor has the shape {}: expected at least {} and below "
        "{}",
        spec.axis, shape_text(shape), -rank, rank);
  }
  const auto middle = shape.begin() + axis;
  return {element_count(Shape(shape.begin(), middle)), *middle,
          element_count(Shape(middle + 1, shape.end()))};
}

std::optional<BlockLayout> block_layout(const QuantSpec& spec, const Shape& shape) {
  return std::visit(
      [&]<class F>(const F& format) -> std::optional<BlockLayout> {
        if constexpr (BlockFormat<F>) {
          return BlockLayout(format.blocks(), spec.block_axis, shape);
        } else {
          return std::nullopt;
        }
      },
      spec.format);
}

GroupParameters derive_parameters(const QuantSpec& spec, const Tensor& input, const Grouping& grouping,
                                  uint64_t seed) {
  const std::span<const float> values = input.values<float>();
  return std::visit(
      [&]<class F>(const F& format) -> GroupParameters {
        const auto derive = [&](int64_t group) {
          return format.parameters(Group(values, grouping, group), seed);
        };
        // A single group is left to split by itself: inside a parallel_for it could not.
        if (BlockFormat<F> || grouping.groups == 1) {
          DETENT_CHECK(grouping.groups == 1, "{} groups of {}", grouping.groups, F::kName);
          const DefaultFloatEnvironment environment;
          return std::vector{derive(0)};
        }
        if constexpr (!BlockFormat<F>) {
          std::vector<typename F::Parameters> groups(static_cast<size_t>(grouping.groups));
          const int64_t grain = std::max<int64_t>(1, kGrain / (grouping.outer * grouping.inner));
          parallel_for(grouping.groups, grain, [&](int64_t begin, int64_t end) {
            const DefaultFloatEnvironment environment;
            for (int64_t g = begin; g < end; ++g) groups[static_cast<size_t>(g)] = derive(g);
          });
          return groups;
        }
      },
      spec.format);
}

}  // namespace detent
