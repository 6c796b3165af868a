#include "detent/formats/blocks/fixed_scale_rounding.h"

#include <algorithm>

#include "detent/formats/packing/encode.h"

namespace detent {
namespace {

/// The elements are what codes mean where all scales are 1.
template <BlockFormat F>
std::optional<TensorScaledBlocks> scaled_blocks(const F& format, const QuantSpec& spec,
                                                const Tensor& values) {
  const std::vector<ParameterStream> streams = format.streams();
  if (streams.size() != 1 || format.shared_bits() != 8) return std::nullopt;
  const double one = 1;
  const BlockScales scales = format.scales(&one);
  const auto unit = std::ranges::find(scales, 1.0F, &BlockScale::to_value);
  if (unit == scales.end()) return std::nullopt;
  Encoded encoded = encode(spec, values);
  TensorScaledBlocks blocks;
  for (EncodedStream& stream : encoded.streams) {
    if (stream.name == F::kScaleStream) {
      for (uint8_t& code : stream.data.template values<uint8_t>()) {
        blocks.scales.push_back(scales.at(code).to_value);
        code = static_cast<uint8_t>(unit - scales.begin());
      }
    } else if (stream.name == streams.front().name) {
      float& scale = stream.data.template values<float>()[0];
      blocks.tensor_scale = scale;
      scale = 1;
    }
  }
  blocks.elements = decode(encoded);
  return blocks;
}

}  // namespace

std::optional<TensorScaledBlocks> tensor_scaled_blocks(const QuantSpec& spec, const Tensor& values) {
  return std::visit(
      [&](const auto& format) -> std::optional<TensorScaledBlocks> {
        if constexpr (BlockFormat<std::decay_t<decltype(format)>>) {
          return scaled_blocks(format, spec, values);
        } else {
          return std::nullopt;
        }
      },
      spec.format);
}

}  // namespace detent
