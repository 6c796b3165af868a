#include "detent/onnx/moved_rounding.h"

#include <map>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/elements/affine.h"
#include "detent/formats/elements/binary.h"
#include "detent/formats/elements/scaled.h"
#include "detent/formats/groups/grouping.h"

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

/// Those that a format gives a list of: scales, and zero points of which there may be none.
struct ListedParameters {
  std::vector<float> scale = {};
  std::vector<int> zero_point = {};
};

ListedParameters listed_parameters(const Format& format) {
  if (const auto* affine = std::get_if<Affine>(&format)) return {affine->scale, affine->zero_point};
  if (const auto* scaled = std::get_if<Scaled>(&format)) return {scaled->scale};
  return {};
}

/// The format with these, of which it is one that has them.
Format with_listed(const Format& format, ListedParameters parameters) {
  if (const auto* scaled = std::get_if<Scaled>(&format)) {
    Scaled result = *scaled;
    result.scale = std::move(parameters.scale);
    return result;
  }
  Affine result = std::get<Affine>(format);
  result.scale = std::move(parameters.scale);
  result.zero_point = std::move(parameters.zero_point);
  return result;
}

/// Places of equal parameters become one.
std::vector<int32_t> first_places(const ListedParameters& given) {
  std::map<std::pair<float, int>, int32_t> first;
  std::vector<int32_t> result;
  for (size_t i = 0; i < given.scale.size(); ++i) {
    const int zero = given.zero_point.empty() ? 0 : given.zero_point[i];
    result.push_back(first.try_emplace({given.scale[i], zero}, static_cast<int32_t>(i)).first->second);
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

ListedParameters at_places(const ListedParameters& given, const std::vector<int32_t>& places) {
  ListedParameters result;
  for (const int32_t place : places) {
    const auto at = static_cast<size_t>(place);
    result.scale.push_back(given.scale[at]);
    if (!given.zero_point.empty()) result.zero_point.push_back(given.zero_point[at]);
  }
  return result;
}

/// What may share a scale, the coarsest first.
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

size_t scale_count(const QuantSpec& spec) { return listed_parameters(spec.format).scale.size(); }

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
    const auto* binary = std::get_if<Binary>(&spec.format);
    const bool is_of_channels = binary != nullptr && binary->scaling == BinaryScaling::kPerChannel;
    return spec.granularity == Granularity::kTensor && !is_of_channels ? std::optional(spec) : std::nullopt;
  }
  const ListedParameters given = listed_parameters(spec.format);
  if (places.numel() == 0) return std::nullopt;
  const std::vector<int32_t> first = first_places(given);
  for (QuantSpec& candidate : candidates(spec, places.shape(), group_size)) {
    const Grouping grouping = grouping_of(candidate, places.shape());
    const auto of_groups = places_of_groups(grouping, places.values<int32_t>(), first);
    if (!of_groups) continue;
    candidate.format = with_listed(spec.format, at_places(given, *of_groups));
    return candidate;
  }
  return std::nullopt;
}

std::optional<QuantSpec> joined_rounding(std::span<const QuantSpec> specs) {
  QuantSpec joined = specs.front();
  if (specs.size() == 1) return joined;
  if (scale_count(joined) == 0) return std::nullopt;
  ListedParameters all = listed_parameters(joined.format);
  const bool has_zero_points = std::holds_alternative<Affine>(joined.format);
  const auto fill = [&] { all.zero_point.resize(has_zero_points ? all.scale.size() : 0, 0); };
  fill();
  const Format codes = with_listed(joined.format, {});
  for (const QuantSpec& spec : specs.subspan(1)) {
    if (scale_count(spec) == 0 || with_listed(spec.format, {}) != codes) return std::nullopt;
    const ListedParameters given = listed_parameters(spec.format);
    all.scale.insert(all.scale.end(), given.scale.begin(), given.scale.end());
    all.zero_point.insert(all.zero_point.end(), given.zero_point.begin(), given.zero_point.end());
    fill();
  }
  joined.format = with_listed(joined.format, std::move(all));
  return joined;
}

std::optional<QuantSpec> reshaped_rounding(const QuantSpec& spec, const Shape& from, const Shape& to) {
  return rounding_at_places(spec, scale_places(spec, from).reshaped(to), spec.group_size);
}

}  // namespace detent
