#include "detent/formats/blocks/block_kernels.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/blocks/block_decoding.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "detent/formats/packing/bit_unpacking-inl.h"
#include "detent/formats/elements/minifloat-inl.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/packing/encode.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ElementTag = hn::ScalableTag<float>;
using ElementVec = hn::Vec<ElementTag>;
using CodeTag = hn::RebindToSigned<ElementTag>;
using CodeVec = hn::Vec<CodeTag>;

/// Elements in two's complement, by their codes.
class Integers {
  static constexpr ElementTag d{};

 public:
  explicit Integers(const ElementLayout& layout)
      : unused_bits_(32 - layout.width),
        step_(hn::Set(d, layout.normal ? power_of_two(layout.min_exponent) : 0.0F)) {}

  HWY_INLINE ElementVec Of(CodeVec codes) const {
    const CodeVec shifted = hn::ShiftLeftSame(codes, unused_bits_);
    return hn::Mul(hn::ConvertTo(d, hn::ShiftRightSame(shifted, unused_bits_)), step_);
  }

 private:
  int unused_bits_;
  ElementVec step_;
};

/// A sign and the number of a magnitude.
template <bool kHasNan>
class Minifloats {
  static constexpr ElementTag d{};
  static constexpr CodeTag di{};

 public:
  explicit Minifloats(const ElementLayout& layout)
      : magnitudes_(d, layout.mantissa_bits, layout.min_exponent, layout.first),
        unused_bits_(32 - layout.width),
        number_bits_(hn::Set(di, (int32_t{1} << (layout.width - 1)) - 1)),
        largest_(hn::Set(di, layout.largest)) {}

  HWY_INLINE ElementVec Of(CodeVec codes) const {
    return hn::CopySignToAbs(Magnitude(hn::And(codes, number_bits_)),
                             hn::BitCast(d, hn::ShiftLeftSame(codes, unused_bits_)));
  }

 private:
  HWY_INLINE ElementVec Magnitude(CodeVec number) const {
    const ElementVec magnitude = magnitudes_.Of(d, number);
    if constexpr (!kHasNan) return magnitude;
    const CodeVec infinity = hn::IfThenElseZero(hn::Gt(number, largest_), hn::Set(di, 0x7F800000));
    return hn::Or(magnitude, hn::BitCast(d, infinity));
  }

  MinifloatMagnitudes<ElementTag> magnitudes_;
  int unused_bits_;
  CodeVec number_bits_, largest_;
};

/// The same for as few magnitudes as a vector has lanes, by looking them up.
class FewMinifloats {
  static constexpr ElementTag d{};
  static constexpr CodeTag di{};

 public:
  static bool Hold(const ElementLayout& layout) {
    return !layout.twos_complement && size_t{1} << (layout.width - 1) <= hn::Lanes(d);
  }

  explicit FewMinifloats(const ElementLayout& layout)
      : unused_bits_(32 - layout.width),
        number_bits_(hn::Set(di, (int32_t{1} << (layout.width - 1)) - 1)),
        magnitudes_(hn::Abs(Minifloats<true>(layout).Of(hn::Iota(di, 0)))) {}

  HWY_INLINE ElementVec Of(CodeVec codes) const {
    const auto number = hn::IndicesFromVec(d, hn::And(codes, number_bits_));
    return hn::CopySignToAbs(hn::TableLookupLanes(magnitudes_, number),
                             hn::BitCast(d, hn::ShiftLeftSame(codes, unused_bits_)));
  }

 private:
  int unused_bits_;
  CodeVec number_bits_;
  ElementVec magnitudes_;
};

/// Columns that are taken at a time where blocks are narrow.
constexpr int64_t kTile = 512;

/// The scale of every column of a tile.
struct TileScales {
  bool plain = true;
  const BlockScale* scale[kTile];
  float factor[kTile];
};

/// `block` is the tile's first, of which `taken` columns lie before the tile.
void CollectScales(const BlockScales& scales, const uint8_t* codes, int64_t width, int64_t taken,
                   int64_t count, TileScales& tile) {
  tile.plain = true;
  for (int64_t begin = 0; begin < count; ++codes) {
    const int64_t end = std::min(count, begin + width - taken);
    const BlockScale& scale = scales[*codes];
    tile.plain = tile.plain && scale.plain_value;
    std::fill(tile.scale + begin, tile.scale + end, &scale);
    std::fill(tile.factor + begin, tile.factor + end, scale.to_value);
    begin = end;
    taken = 0;
  }
}

/// UnpackedCodes as vectors.
class WideSource {
  static constexpr CodeTag di{};

 public:
  explicit WideSource(const UnpackedCodes& codes) : codes_(codes) {}

  class Cursor {
   public:
    explicit Cursor(const uint32_t* from) : from_(reinterpret_cast<const int32_t*>(from)) {}
    HWY_INLINE CodeVec Next() {
      const CodeVec codes = hn::LoadU(di, from_);
      from_ += hn::Lanes(di);
      return codes;
    }
    /// Fewer than a vector holds.
    CodeVec Last(int64_t count) const {
      HWY_ALIGN int32_t last[hn::MaxLanes(di)] = {};
      std::copy_n(from_, count, last);
      return hn::Load(di, last);
    }

   private:
    const int32_t* from_;
  };
  HWY_INLINE Cursor At(int64_t element) const { return Cursor(codes_.codes + (element - codes_.first)); }

  const uint32_t* Unpacked(int64_t element, int64_t /*count*/, uint32_t* /*buffer*/) const {
    return codes_.codes + (element - codes_.first);
  }

 private:
  UnpackedCodes codes_;
};

#if DETENT_UNPACKS_VECTORS
/// PackedCodes as vectors; elements are asked for from multiples of a vector's.
class PackedSource {
  static constexpr hn::RebindToUnsigned<CodeTag> du{};
  static constexpr CodeTag di{};
  using Unpacker = VectorUnpacker<hn::RebindToUnsigned<CodeTag>>;

 public:
  PackedSource(const PackedCodes& codes, int width) : codes_(codes), width_(width), unpacker_(width) {}

  static bool Takes(int width) { return Unpacker::Takes(width); }

  class Cursor {
   public:
    Cursor(const PackedSource& source, const uint8_t* from)
        : unpacker_(source.unpacker_), from_(from), left_(source.codes_.bytes + source.codes_.size - from) {}
    HWY_INLINE CodeVec Next() {
      const CodeVec codes =
          HWY_LIKELY(left_ >= Unpacker::kBytes) ? hn::BitCast(di, unpacker_.Of(from_)) : Last(left_);
      from_ += unpacker_.step();
      left_ -= unpacker_.step();
      return codes;
    }
    /// Where the stream ends before all that is read at a time.
    HWY_NOINLINE CodeVec Last(int64_t /*count*/) const {
      HWY_ALIGN uint8_t last[Unpacker::kBytes] = {};
      std::copy_n(from_, std::min(Unpacker::kBytes, left_), last);
      return hn::BitCast(di, unpacker_.Of(last));
    }

   private:
    Unpacker unpacker_;
    const uint8_t* from_;
    int64_t left_;  // bytes of the stream
  };
  HWY_INLINE Cursor At(int64_t element) const { return Cursor(*this, codes_.bytes + element * width_ / 8); }

  const uint32_t* Unpacked(int64_t element, int64_t count, uint32_t* buffer) const {
    unpack_codes(Packing::kBits, width_, codes_.bytes + element * width_ / 8, count, buffer);
    return buffer;
  }

 private:
  PackedCodes codes_;
  int width_;
  Unpacker unpacker_;
};
#endif

/// One tensor's work; `Elements` are what codes stand for.
template <class Elements, class Source>
class BlockDecoder {
  static constexpr ElementTag d{};

 public:
  /// With `stream`, stores bypass the caches.
  BlockDecoder(const BlockLayout& layout, const BlockCodeInput& input, const Source& source, float* values,
               bool stream)
      : layout_(layout),
        input_(input),
        elements_(input.layout),
        source_(source),
        values_(values),
        stream_(stream) {}

  void DecodeUnits(int64_t begin, int64_t end) const {
    BlockLayout::Unit unit;
    for (int64_t i = begin; i < end; ++i) {
      layout_.locate(i, unit);
      DecodeUnit(unit);
    }
  }

 private:
  void DecodeUnit(const BlockLayout::Unit& unit) const {
    const int64_t width = layout_.block_columns();
    if (width >= BlockLayout::kWide) {
      for_each_row(layout_, unit, [&](int64_t row) { DecodeRow(unit, row); });
      return;
    }
    TileScales tile;
    for (int64_t at = unit.begin; at < unit.end; at += kTile) {
      const int64_t count = std::min(kTile, unit.end - at);
      const int64_t before = at - unit.begin;
      const uint8_t* code = input_.scale_codes + unit.block + before / width;
      CollectScales(input_.scales, code, width, before % width, count, tile);
      for_each_row(layout_, unit, [&](int64_t row) { DecodeTileRow(tile, row + at, count); });
    }
  }

  /// Blocks whose factors are looked up before their elements are decoded.
  static constexpr int64_t kBatch = 64;

  /// The columns of a unit in the row that begins at `row`, in wide blocks.
  void DecodeRow(const BlockLayout::Unit& unit, int64_t row) const {
    const int64_t width = layout_.block_columns();
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    const uint8_t* codes = input_.scale_codes + unit.block;
    float factors[kBatch];
    for (int64_t at = unit.begin; at < unit.end;) {
      const int64_t blocks = std::min(kBatch, (unit.end - at) / width);
      if (blocks > 0 && width % lanes == 0 && CollectFactors(codes, blocks, factors)) {
        DecodeBlocks(factors, blocks, row + at);
        at += blocks * width;
        codes += blocks;
      } else {
        const int64_t count = std::min(width, unit.end - at);
        DecodeBlock(input_.scales[*codes++], row + at, count);
        at += count;
      }
    }
  }

  /// Returns false where one of the blocks needs more than a factor.
  bool CollectFactors(const uint8_t* codes, int64_t blocks, float* factors) const {
    const BlockScale* scales = input_.scales.data();
    bool plain = input_.layout.normal;
    for (int64_t i = 0; i < blocks; ++i) {
      const BlockScale& scale = scales[codes[i]];
      plain = plain && scale.plain_value;
      factors[i] = scale.to_value;
    }
    return plain;
  }

  /// Adjacent blocks of whole vectors.
  HWY_INLINE void DecodeBlocks(const float* factors, int64_t blocks, int64_t at) const {
    const int64_t vectors = layout_.block_columns() / static_cast<int64_t>(hn::Lanes(d));
    if (vectors == 1) return DecodeBlocksOf<1>(factors, blocks, at);
    if (vectors == 2) return DecodeBlocksOf<2>(factors, blocks, at);
    DecodeBlocksOf<0>(factors, blocks, at);
  }

  /// For kVectors vectors a block, or any number for 0.
  template <size_t kVectors>
  HWY_INLINE void DecodeBlocksOf(const float* factors, int64_t blocks, int64_t at) const {
    const Elements elements = elements_;  // in registers
    const bool stream = stream_;
    const size_t width =
        kVectors > 0 ? kVectors * hn::Lanes(d) : static_cast<size_t>(layout_.block_columns());
    auto codes = source_.At(at);
    float* to = values_ + at;
    for (int64_t block = 0; block < blocks; ++block, to += width) {
      const ElementVec factor = hn::Set(d, factors[block]);
      for (size_t i = 0; i < width; i += hn::Lanes(d))
        Write(hn::Mul(elements.Of(codes.Next()), factor), to + i, stream);
    }
  }

  void DecodeBlock(const BlockScale& scale, int64_t at, int64_t count) const {
    if (scale.plain_value && input_.layout.normal) {
      const ElementVec factor = hn::Set(d, scale.to_value);
      DecodePlain([&](int64_t /*i*/) HWY_ATTR { return factor; }, at, count);
    } else {
      DecodeAny([&](int64_t /*i*/) { return &scale; }, at, count);
    }
  }

  HWY_INLINE void DecodeTileRow(const TileScales& tile, int64_t at, int64_t count) const {
    if (tile.plain && input_.layout.normal) {
      DecodePlain([&](int64_t i) HWY_ATTR { return hn::LoadU(d, tile.factor + i); }, at, count);
    } else {
      DecodeAny([&](int64_t i) { return tile.scale[i]; }, at, count);
    }
  }

  static HWY_INLINE void Write(ElementVec value, float* to, bool stream) {
    if (stream) {
      hn::Stream(value, d, to);
    } else {
      hn::StoreU(value, d, to);
    }
  }

  /// factor_at(i) is for the elements from at + i on; lanes beyond `count` mean nothing.
  template <class FactorAt>
  HWY_INLINE void DecodePlain(const FactorAt& factor_at, int64_t at, int64_t count) const {
    const Elements elements = elements_;  // in registers
    const bool stream = stream_;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    auto codes = source_.At(at);
    float* to = values_ + at;
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes)
      Write(hn::Mul(elements.Of(codes.Next()), factor_at(i)), to + i, stream);
    if (i == count) return;
    HWY_ALIGN float last[hn::MaxLanes(d)];
    hn::Store(hn::Mul(elements.Of(codes.Last(count - i)), factor_at(i)), d, last);
    std::copy_n(last, count - i, to + i);
  }

  /// scale_at(i) is that of element at + i.
  template <class ScaleAt>
  HWY_NOINLINE void DecodeAny(const ScaleAt& scale_at, int64_t at, int64_t count) const {
    uint32_t codes[kTile];
    float elements[kTile];
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t size = std::min(kTile, count - begin);
      decode_elements(input_.elements, source_.Unpacked(at + begin, size, codes), elements, size);
      for (int64_t i = 0; i < size; ++i) values_[at + begin + i] = scale_at(begin + i)->value_of(elements[i]);
    }
  }

  const BlockLayout& layout_;
  const BlockCodeInput& input_;
  Elements elements_;
  const Source& source_;
  float* values_;
  bool stream_;
};

template <class Source>
void DecodeFrom(const BlockLayout& layout, const BlockCodeInput& input, const Source& source, float* values,
                int64_t begin, int64_t end, bool stream) {
  const ElementLayout& elements = input.layout;
  const bool streams = stream && layout.in_whole_vectors(values, HWY_MAX_BYTES);
  const auto decode = [&]<class Elements>(std::type_identity<Elements> /*of*/) {
    BlockDecoder<Elements, Source>(layout, input, source, values, streams).DecodeUnits(begin, end);
  };
  if (elements.twos_complement) {
    decode(std::type_identity<Integers>());
  } else if (FewMinifloats::Hold(elements)) {
    decode(std::type_identity<FewMinifloats>());
  } else if (elements.largest < std::numeric_limits<int32_t>::max()) {
    decode(std::type_identity<Minifloats<true>>());
  } else {
    decode(std::type_identity<Minifloats<false>>());
  }
  if (streams) hwy::FlushStream();
}

bool TakesPackedCodes([[maybe_unused]] const BlockLayout& layout, [[maybe_unused]] int width,
                      [[maybe_unused]] const float* values) {
#if DETENT_UNPACKS_VECTORS
  return layout.in_whole_vectors(values, HWY_MAX_BYTES) && PackedSource::Takes(width);
#else
  return false;
#endif
}

void ValueBlocks(const BlockLayout& layout, const BlockCodeInput& input, const ElementCodes& codes,
                 float* values, int64_t begin, int64_t end, bool stream) {
  if (const auto* wide = std::get_if<UnpackedCodes>(&codes))
    return DecodeFrom(layout, input, WideSource(*wide), values, begin, end, stream);
#if DETENT_UNPACKS_VECTORS
  const PackedSource source(std::get<PackedCodes>(codes), input.layout.width);
  return DecodeFrom(layout, input, source, values, begin, end, stream);
#else
  DETENT_CHECK(false, "packed codes of {} bits", input.layout.width);
#endif
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(TakesPackedCodes);
HWY_EXPORT(ValueBlocks);

bool takes_packed_codes(const BlockLayout& layout, int width, const float* values) {
  return HWY_DYNAMIC_DISPATCH(TakesPackedCodes)(layout, width, values);
}

void value_blocks(const BlockLayout& layout, const BlockCodeInput& input, const ElementCodes& codes,
                  float* values, int64_t begin, int64_t end, bool stream) {
  HWY_DYNAMIC_DISPATCH(ValueBlocks)(layout, input, codes, values, begin, end, stream);
}

}  // namespace detent
#endif  // HWY_ONCE
