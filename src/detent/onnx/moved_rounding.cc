#include "detent/onnx/node_import.h"

#include <map>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/groups/grouping.h"
#include "detent/formats/verbs.h"

namespace detent {
namespace {

Grouping channels_of(const Shape& shape, int64_t axis) {
  const auto at = static_cast<size_t>(axis < 0 ? axis + std::ssize(shape) : axis);
  const auto begin = shape.begin() + static_cast<int64_t>(at);
  return {.outer = element_count({shape.begin(), begin}),
          .length = shape[at],
          .inner = element_count({begin + 1, shape.end()}),
          .run = 0};
}

Grouping grouping_of(const QuantSpec& spec, const Shape& shape) {
  if (spec.granularity == Granularity::kTensor)
    return {.outer = 1, .length = 1, .inner = element_count(shape), .run = 0};
  Grouping grouping = channels_of(shape, spec.axis);
  if (spec.granularity == Granularity::kGroup) grouping.run = *spec.group_size;
  return grouping;
}

/// Places of equal parameters become one.
std::vector<int32_t> first_places(const GivenScales& given) {
  std::map<std::pair<float, int>, int32_t> first;
  std::vector<int32_t> result;
  for (size_t i = 0; i < given.scales.size(); ++i) {
    const int zero = given.zero_points.empty() ? 0 : given.zero_points[i];
    result.push_back(first.try_emplace({given.scales[i], zero}, static_cast<int32_t>(i)).first->second);
  }
  return result;
}

/// The place that all elements of each group have; nothing where those of one differ.
std::optional<std::vector<int32_t>> places_of_groups(const Grouping& grouping,
                                                     std::span<const int32_t> places,
                                                     const std::vector<int32_t>& first) {
  std::vector<int32_t> result(static_cast<size_t>(grouping.groups()), -1);
  for (int64_t i = 0; i < grouping.elements(); ++i) {
    int32_t& place = result[static_cast<size_t>(grouping.group_of(i))];
    const int32_t own = first[static_cast<size_t>(places[static_cast<size_t>(i)])];
    if (place >= 0 && place != own) return std::nullopt;
    place = own;
  }
  return result;
}

GivenScales at_places(const GivenScales& given, const std::vector<int32_t>& places) {
  GivenScales result;
  for (const int32_t place : places) {
    const auto at = static_cast<size_t>(place);
    result.scales.push_back(given.scales[at]);
    if (!given.zero_points.empty()) result.zero_points.push_back(given.zero_points[at]);
  }
  return result;
}

/// Candidates for sharing scales, the coarsest first.
std::vector<QuantSpec> candidates(const QuantSpec& spec, const Shape& shape,
                                  std::optional<int64_t> group_size) {
  QuantSpec plain = spec;
  plain.granularity = Granularity::kTensor;
  plain.axis = 0;
  plain.group_size.reset();
  std::vector<QuantSpec> result = {plain};
  const auto add = [&](Granularity granularity) {
    for (int64_t axis = 0; axis < std::ssize(shape); ++axis) {
      result.push_back(plain);
      result.back().granularity = granularity;
      result.back().axis = axis;
    }
  };
  add(Granularity::kChannel);
  if (!group_size || shape.size() < 2) return result;
  const size_t channels = result.size();
  add(Granularity::kGroup);
  for (size_t i = channels; i < result.size(); ++i) result[i].group_size = group_size;
  return result;
}

}  // namespace

size_t scale_count(const QuantSpec& spec) { return given_scales(spec.format).scales.size(); }

Tensor scale_places(const QuantSpec& spec, const Shape& shape) {
  Tensor places(DType::kInt32, shape);
  if (scale_count(spec) < 2) return places;
  const Grouping grouping = grouping_of(spec, shape);
  const auto values = places.values<int32_t>();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int32_t>(grouping.group_of(static_cast<int64_t>(i)));
  return places;
}

std::optional<QuantSpec> rounding_at_places(const QuantSpec& spec, const Tensor& places,
                                            std::optional<int64_t> group_size) {
  if (scale_count(spec) == 0) {
    const std::optional<SignCodes> signs = sign_codes(spec.format);
    const bool is_of_channels = signs && signs->scaling == BinaryScaling::kPerChannel;
    return spec.granularity == Granularity::kTensor && !is_of_channels ? std::optional(spec) : std::nullopt;
  }
  const GivenScales given = given_scales(spec.format);
  if (places.numel() == 0) return std::nullopt;
  const std::vector<int32_t> first = first_places(given);
  for (QuantSpec& candidate : candidates(spec, places.shape(), group_size)) {
    const Grouping grouping = grouping_of(candidate, places.shape());
    const auto of_groups = places_of_groups(grouping, places.values<int32_t>(), first);
    if (!of_groups) continue;
    candidate.format = with_scales(spec.format, at_places(given, *of_groups));
    return candidate;
  }
  return std::nullopt;
}

std::optional<QuantSpec> joined_rounding(std::span<const QuantSpec> specs) {
  QuantSpec joined = specs.front();
  if (specs.size() == 1) return joined;
  if (scale_count(joined) == 0) return std::nullopt;
  GivenScales all = given_scales(joined.format);
  const bool has_zero_points = integer_codes(joined.format).has_value();
  const auto fill = [&] { all.zero_points.resize(has_zero_points ? all.scales.size() : 0, 0); };
  fill();
  const Format codes = with_scales(joined.format, {});
  for (const QuantSpec& spec : specs.subspan(1)) {
    if (scale_count(spec) == 0 || with_scales(spec.format, {}) != codes) return std::nullopt;
    const GivenScales given = given_scales(spec.format);
    all.scales.insert(all.scales.end(), given.scales.begin(), given.scales.end());
    all.zero_points.insert(all.zero_points.end(), given.zero_points.begin(), given.zero_points.end());
    fill();
  }
  joined.format = with_scales(joined.format, std::move(all));
  return joined;
}

std::optional<QuantSpec> reshaped_rounding(const QuantSpec& spec, const Shape& from, const Shape& to) {
  return rounding_at_places(spec, scale_places(spec, from).reshaped(to), spec.group_size);
}

}  // namespace detent
