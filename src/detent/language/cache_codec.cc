#include "detent/language/cache_codec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/formats/groups/given_parameters.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/verbs.h"

namespace detent {
namespace {

constexpr int kByteBits = 8;
constexpr int kNibbleBits = 4;

bool is_element_format(const Format& format) {
  return std::visit([]<class F>(const F&) { return ElementFormat<F>; }, format);
}

bool derives_nothing(const Format& format) {
  return std::visit([]<class F>(const F&) { return FormatWithoutData<F>; }, format);
}

/// Values of codes 0, 1, ... of the format, in a row with this scale, if it has scales.
std::vector<float> values_of_codes(const QuantSpec& spec, int width, bool has_scales, float scale) {
  const int64_t count = int64_t{1} << width;
  Encoded encoded{spec, {1, count}, Packing::kBits, {}};
  for (StreamLayout& stream : encoded_layout(spec, encoded.shape, encoded.packing))
    encoded.streams.push_back({std::move(stream.name), Tensor(stream.dtype, std::move(stream.shape))});
  std::vector<uint32_t> codes(static_cast<size_t>(count));
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint32_t>(i);
  pack_codes(Packing::kBits, width, codes.data(), count,
             encoded.streams.front().data.values<uint8_t>().data());
  if (has_scales) encoded.streams[1].data.values<float>()[0] = scale;
  const Tensor values = decode(encoded);
  return {values.values<float>().begin(), values.values<float>().end()};
}

bool are_same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

}  // namespace

/// Whether a scale multiplies the values of the table, with one rounding.
bool CacheCodec::multiplies() const {
  for (const float scale : {0.7F, 1.0F / 3, 3.3e-5F, 0x1.fffffep-7F, 117.3F}) {
    const std::vector<float> scaled = values_of_codes(*spec_, width_, true, scale);
    for (size_t code = 0; code < scaled.size(); ++code) {
      if (!are_same_bits(scaled[code], (*table_)[code] * scale)) return false;
    }
  }
  return true;
}

std::shared_ptr<const CacheCodec> CacheCodec::of_format(const Format& format) {
  const double bits = bits_per_value(format);
  if (!is_element_format(format) || is_stochastic(format) || bits > kByteBits) return nullptr;
  CacheCodec codec;
  codec.width_ = static_cast<int>(bits);
  codec.in_nibbles_ = codec.width_ <= kNibbleBits;
  codec.spec_ = QuantSpec{.format = format};
  if (!derives_nothing(format)) codec.spec_->granularity = Granularity::kChannel;
  validate(*codec.spec_, "cache");
  const std::vector<ParameterStream> streams = parameter_streams(format);
  codec.has_scales_ = !streams.empty();
  if (const std::optional<IntegerCodes> integers = integer_codes(format)) {
    codec.has_zero_points_ = streams.size() > 1;
    codec.is_signed_ = integers->is_signed;
    codec.middle_ = integers->is_signed ? 0 : 1 << (codec.width_ - 1);
    return std::make_shared<const CacheCodec>(std::move(codec));
  }
  const bool is_scale =
      streams.size() == 1 && streams[0].dtype == DType::kFloat32 && streams[0].per_group == 1;
  if (!streams.empty() && !is_scale) return nullptr;
  const std::vector<float> values = values_of_codes(*codec.spec_, codec.width_, codec.has_scales_, 1);
  std::ranges::copy(values, codec.table_.emplace().begin());
  if (codec.has_scales_ && !codec.multiplies()) return nullptr;
  return std::make_shared<const CacheCodec>(std::move(codec));
}

std::shared_ptr<const CacheCodec> CacheCodec::of_codes(const CodeType& type) {
  if (type.size() > 1 << kByteBits) return nullptr;
  CacheCodec codec;
  codec.in_nibbles_ = type.size() <= 1 << kNibbleBits;
  codec.offset_ = type.low + (codec.in_nibbles_ ? 1 << (kNibbleBits - 1) : 1 << (kByteBits - 1));
  return std::make_shared<const CacheCodec>(std::move(codec));
}

CacheCodec::Rows CacheCodec::encoded(const Tensor& rows) const {
  if (spec_) return encoded_values(rows);
  Rows result{Tensor(DType::kInt8, rows.shape()), {}, {}};
  std::ranges::transform(rows.values<int32_t>(), result.bytes.values<int8_t>().begin(),
                         [&](int32_t code) { return static_cast<int8_t>(code - *offset_); });
  return result;
}

CacheCodec::Rows CacheCodec::encoded_values(const Tensor& rows) const {
  const Encoded encoded = encode(*spec_, rows);
  Tensor words(DType::kInt32, rows.shape());
  auto* const codes = reinterpret_cast<uint32_t*>(words.values<int32_t>().data());
  unpack_codes(Packing::kBits, width_, encoded.codes().values<uint8_t>().data(), rows.numel(), codes);
  Rows result{Tensor(DType::kInt8, rows.shape()), {}, {}};
  int8_t* const bytes = result.bytes.values<int8_t>().data();
  const uint32_t sign = table_ || !is_signed_ ? 0 : uint32_t{1} << static_cast<unsigned>(width_ - 1);
  for (int64_t i = 0; i < rows.numel(); ++i)
    bytes[i] = static_cast<int8_t>((codes[i] ^ sign) - sign - static_cast<uint32_t>(middle_));
  if (has_scales_) {
    const auto scales = encoded.streams[1].data.values<float>();
    result.scales.assign(scales.begin(), scales.end());
  }
  if (has_zero_points_) {
    for (const int32_t zero : encoded.streams[2].data.values<int32_t>())
      result.zero_points.push_back(static_cast<float>(zero - middle_));
  }
  return result;
}

}  // namespace detent
