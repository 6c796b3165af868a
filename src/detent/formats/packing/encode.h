#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// How codes become bytes.
/// bits: code i takes the bits [i * width, (i + 1) * width) of the stream; bit k of the stream is bit k % 8
/// of byte k / 8. Spare bits of the last byte are 0. base3: five codes of two bits in a byte, sum of digit_k
/// * 3^k, where the digits 0, 1, 2 stand for the codes 0, 1, 3 (0, +1, -1 in two's complement). Missing
/// digits of the last byte are 0. 1.6 bits a value.
enum class Packing { kBits, kBase3 };
constexpr std::array<const char*, 2> enum_names(Packing) { return {"bits", "base3"}; }

/// Ranges of codes are cut at multiples of this: then each begins at a byte, whatever the packing.
constexpr int64_t kPackingBlock = 40;

/// Bytes that `count` codes of `width` bits take. Throws Error when int64 cannot hold the number of bits.
int64_t packed_size(Packing packing, int width, int64_t count);

/// Writes packed_size bytes; 1 <= width <= 32, and no code has bits above `width`.
void pack_codes(Packing packing, int width, const uint32_t* codes, int64_t count, uint8_t* bytes);

/// The inverse. Returns count, or the index of the first code of a byte that base3 never writes.
int64_t unpack_codes(Packing packing, int width, const uint8_t* bytes, int64_t count, uint32_t* codes);

/// A part of an encoded tensor.
struct EncodedStream {
  std::string name;
  Tensor data;
};

/// Name, type and shape of such a part.
struct StreamLayout {
  std::string name;
  DType dtype;
  Shape shape;
};

/// A tensor as bits, with everything that decoding needs.
struct Encoded {
  QuantSpec spec;
  Shape shape;
  Packing packing = Packing::kBits;
  /// As encoded_layout says.
  std::vector<EncodedStream> streams;

  const Tensor& codes() const { return streams.front().data; }
};

/// The streams of a tensor of `shape`: first "codes" (uint8, packed bytes of all elements in row-major
/// order), then those that the format needs to decode ("scales" of the groups, in order). Throws Error on
/// packing = base3 for another format than ternary.
std::vector<StreamLayout> encoded_layout(const QuantSpec& spec, const Shape& shape, Packing packing);

/// Bits that one code takes, parameters not counted: 1.6 for base3.
double bits_per_value(const QuantSpec& spec, Packing packing);

/// decode(encode(spec, x)) == fake_quantize(spec, x), signs of zeros included. Throws Error, with the index
/// of the first NaN, where the format has no code for it, and as fake_quantize does.
Encoded encode(const QuantSpec& spec, const Tensor& input, Packing packing = Packing::kBits,
               uint64_t seed = 0);
/// The same into streams that are there already, those of a tensor of the same spec, shape and packing.
void encode(const QuantSpec& spec, const Tensor& input, Encoded& encoded, uint64_t seed = 0);

/// float32. Throws Error on streams that are not as encoded_layout says, on bytes that the packing never
/// writes and on parameters that are not finite or not what the format takes.
Tensor decode(const Encoded& encoded);
/// The same into a tensor of its shape.
void decode(const Encoded& encoded, Tensor& output);

}  // namespace detent
