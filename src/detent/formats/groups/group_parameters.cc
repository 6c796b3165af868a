#include "detent/formats/groups/group_parameters.h"

#include <algorithm>

#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

/// Elements that are worth handing to a thread.
constexpr int64_t kParameterGrain = 16384;

bool groups_are_channels(const QuantSpec& spec) {
  return spec.granularity == Granularity::kChannel ||
         std::visit([](const auto& format) { return format.groups_are_channels(); }, spec.format);
}

/// The shape as outer x length x inner, `axis` being the dimension in the middle.
Grouping split_at(const Shape& shape, int64_t axis) {
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t dimension = axis < 0 ? axis + rank : axis;
  if (dimension < 0 || dimension >= rank) {
    fail(
        "quantization: key \"axis\": got {}, but the tensor has the shape {}: expected at least {} and below "
        "{}",
        axis, shape_text(shape), -rank, rank);
  }
  const auto middle = shape.begin() + dimension;
  return {.outer = element_count(Shape(shape.begin(), middle)),
          .length = *middle,
          .inner = element_count(Shape(middle + 1, shape.end()))};
}

}  // namespace

Grouping make_grouping(const QuantSpec& spec, const Shape& shape) {
  Grouping grouping{.inner = element_count(shape)};
  const bool in_groups = spec.granularity == Granularity::kGroup;
  if (groups_are_channels(spec) || (in_groups && shape.size() > 1)) grouping = split_at(shape, spec.axis);
  if (in_groups) grouping.run = std::clamp<int64_t>(grouping.outer * grouping.inner, 1, *spec.group_size);
  return grouping;
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
        const int64_t count = grouping.groups();
        if constexpr (FormatWithoutData<F>) {
          DETENT_CHECK(count == 1, "{} groups of {}", count, F::kName);
          return std::vector{format.parameters()};
        } else {
          std::vector<Interval> ranges;
          if constexpr (RangedFormat<F> && ScaledFormat<F>) {
            if (grouping.takes_turns() && format.given_scale().empty())
              ranges = ranges_of_columns(values, grouping);
          }
          const auto derive = [&](int64_t group) {
            const Interval* range = ranges.empty() ? nullptr : &ranges[static_cast<size_t>(group)];
            return format.parameters(Group(values, grouping, group, range), seed);
          };
          // A single group is left to split by itself: inside a parallel_for it could not.
          if (BlockFormat<F> || count == 1) {
            DETENT_CHECK(count == 1, "{} groups of {}", count, F::kName);
            return std::vector{derive(0)};
          }
          if constexpr (!BlockFormat<F>) {
            std::vector<typename F::Parameters> groups(static_cast<size_t>(count));
            const int64_t grain = std::max<int64_t>(1, kParameterGrain / grouping.size(0));
            parallel_for(count, grain, [&](int64_t begin, int64_t end) {
              const DefaultFloatEnvironment environment;
              for (int64_t g = begin; g < end; ++g) groups[static_cast<size_t>(g)] = derive(g);
            });
            return groups;
          }
        }
      },
      spec.format);
}

std::vector<ParameterStream> parameter_streams(const Format& format) {
  return std::visit(
      []<class F>(const F& alternative) -> std::vector<ParameterStream> {
        if constexpr (FormatWithoutData<F>) {
          return {};
        } else {
          return alternative.streams();
        }
      },
      format);
}

void encode_elements(const GroupParameters& parameters, const float* values, uint32_t* codes, int64_t count) {
  with_element_kernels(parameters, {.inner = count}, [&](const auto& groups, const auto& kernels) {
    kernels.encode(groups, values, codes, 0, count);
  });
}

void decode_elements(const GroupParameters& parameters, const uint32_t* codes, float* values, int64_t count) {
  with_element_kernels(parameters, {.inner = count}, [&](const auto& groups, const auto& kernels) {
    kernels.decode(groups, codes, values, 0, count);
  });
}

}  // namespace detent
