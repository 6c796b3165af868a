#include "detent/operators/onnx_import.h"

#include <algorithm>
#include <map>

#include "detent/core/error.h"

namespace detent {
namespace {

using Converters = std::map<std::string_view, OnnxConverter>;

Converters joined(std::initializer_list<OnnxConverterList> lists) {
  Converters converters;
  for (const OnnxConverterList& list : lists) {
    for (const auto& [name, converter] : list)
      DETENT_CHECK(converters.emplace(name, converter).second, "two converters for {}", name);
  }
  return converters;
}

/// Converters of another domain's list that have the same operators.
OnnxConverterList chosen(const OnnxConverterList& list, std::initializer_list<std::string_view> names) {
  OnnxConverterList result;
  for (const auto& converter : list)
    if (std::ranges::find(names, converter.first) != names.end()) result.push_back(converter);
  return result;
}

/// By domain.
const Converters& converters_of(std::string_view domain) {
  static const std::map<std::string_view, Converters> domains = {
      {"", joined({layer_converters(),       normalization_converters(), layer_norm_converters(),
                   pooling_converters(),     elementwise_converters(),   cast_converters(),
                   integer_converters(),     reduction_converters(),     shape_converters(),
                   gather_converters(),      resize_converters(),        recurrent_converters(),
                   attention_converters(),   loss_converters(),          spectrum_converters(),
                   sampling_converters(),    region_converters(),        generator_converters(),
                   noise_converters(),       rearrangement_converters(), sequence_converters(),
                   linear_code_converters(), quantized_converters(),     state_space_converters(),
                   early_converters(),       einsum_converters(),        same_operator_converters()})},
      {"com.microsoft",
       joined({microsoft_converters(), microsoft_attention_converters(), grouped_attention_converters(),
               microsoft_normalization_converters(), fused_layer_converters(), block_weight_converters(),
               channels_last_pooling_converters(), layer_norm_converters(), linear_code_converters(),
               quantized_recurrent_converters(), microsoft_window_converters(), microsoft_matrix_converters(),
               microsoft_state_space_converters(), crop_converters(),
               chosen(same_operator_converters(), {"GatherND"}), chosen(gather_converters(), {"Trilu"}),
               chosen(shape_converters(), {"Pad", "Range"}), chosen(sampling_converters(), {"GridSample"})})},
      {"ai.onnx.ml", joined({feature_converters(), tree_converters(), support_vector_converters()})},
      {"detent", joined({format_converters()})},
      {"qonnx", joined({rounding_converters(), qonnx_converters(), channels_last_pooling_converters()})}};
  static const Converters none;
  const auto found = domains.find(domain == "ai.onnx" ? "" : is_qonnx(domain) ? "qonnx" : domain);
  return found == domains.end() ? none : found->second;
}

}  // namespace

bool is_channels_last(std::string_view domain) { return domain.ends_with(".custom_op.channels_last"); }

bool is_qonnx(std::string_view domain) {
  if (is_channels_last(domain)) return false;
  return domain == "onnx.brevitas" || domain == "qonnx" || domain.starts_with("qonnx.") || domain == "finn" ||
         domain.starts_with("finn.");
}

OnnxConverter find_onnx_converter(std::string_view domain, std::string_view op) {
  constexpr std::string_view kChannelsLast[] = {"BatchNormalization", "Conv", "MaxPool"};
  if (is_channels_last(domain)) {
    if (std::ranges::find(kChannelsLast, op) == std::end(kChannelsLast)) return nullptr;
    domain = "";
  }
  const Converters& converters = converters_of(domain);
  const auto found = converters.find(op);
  return found == converters.end() ? nullptr : found->second;
}

}  // namespace detent
