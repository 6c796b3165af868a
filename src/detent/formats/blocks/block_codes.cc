#include "detent/formats/blocks/block_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/formats/elements/element_kernels.h"
#include "detent/formats/kernel_environment.h"
#include "detent/formats/packing/encode.h"

namespace detent {
namespace {

/// Codes that are packed while they are in the first-level cache.
constexpr int64_t kTile = 32 * kPackingBlock;
/// Elements that are coded, or scaled, while they are in the first-level cache.
constexpr int64_t kStep = int64_t{1} << 11;
/// Elements that one thread takes at a time.
constexpr int64_t kCodeGrain = 64 * kTile;
/// Larger slabs would leave the cache.
constexpr int64_t kMaxSlab = int64_t{1} << 17;

/// The elements and the units of some adjacent slabs.
struct SlabRange {
  int64_t begin, end;
  int64_t first_unit, last_unit;
};

/// Calls visit(SlabRange, buffer) for all slabs, kStep elements at a time or one slab, of which the buffer
/// has room for.
template <class Visit>
void for_each_slab_range(const BlockLayout::Slabs& slabs, const Visit& visit) {
  const int64_t step = std::max<int64_t>(1, kStep / slabs.elements());
  const int64_t steps_per_thread = std::max<int64_t>(1, kCodeGrain / (step * slabs.elements()));
  parallel_for(slabs.count(), step * steps_per_thread, [&](int64_t first, int64_t last) {
    const DefaultFloatEnvironment of_thread;
    const auto buffer =
        std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(step * slabs.elements()));
    for (; first < last; first += step) {
      const int64_t next = std::min(last, first + step);
      visit(SlabRange{slabs.begin(first), slabs.begin(next), slabs.first_unit(first), slabs.first_unit(next)},
            buffer.get());
    }
  });
}

template <class Visit>
void for_each_unit_range(const BlockLayout& layout, const Visit& visit) {
  parallel_for(layout.unit_count(), layout.units_per_thread(), [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment of_thread;
    visit(begin, end);
  });
}

template <class Visit>
void for_each_element_range(int64_t count, const Visit& visit) {
  parallel_for(count, kCodeGrain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment of_thread;
    visit(begin, end);
  });
}

/// Codes [begin, end) of a stream of bits; `begin` is a multiple of 8. The tiles' codes go through `wide`.
template <class Source>
void pack(int width, int64_t begin, int64_t end, uint8_t* stream, const Source& source) {
  alignas(64) uint32_t wide[kTile];
  for (; begin < end; begin += kTile) {
    const int64_t count = std::min(kTile, end - begin);
    source(begin, count, wide);
    pack_codes(Packing::kBits, width, wide, count, stream + packed_size(Packing::kBits, width, begin));
  }
}

template <class Sink>
void unpack(int width, int64_t begin, int64_t end, const uint8_t* stream, const Sink& sink) {
  alignas(64) uint32_t wide[kTile];
  for (; begin < end; begin += kTile) {
    const int64_t count = std::min(kTile, end - begin);
    const uint8_t* first = stream + packed_size(Packing::kBits, width, begin);
    unpack_codes(Packing::kBits, width, first, count, wide);
    sink(begin, count, wide);
  }
}

/// Packs the elements [begin, end); `wide` points to the code of the first.
void pack_elements(int width, const uint32_t* wide, int64_t begin, int64_t end, uint8_t* codes) {
  pack_codes(Packing::kBits, width, wide, end - begin, codes + packed_size(Packing::kBits, width, begin));
}

/// The inverse. What follows is fetched, so that memory does not idle.
void unpack_elements(int width, const uint8_t* codes, int64_t begin, int64_t end, uint32_t* wide) {
  const uint8_t* first = codes + packed_size(Packing::kBits, width, begin);
  const auto bytes = static_cast<size_t>(packed_size(Packing::kBits, width, end - begin));
  for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(address_after(first, bytes + i));
  unpack_codes(Packing::kBits, width, first, end - begin, wide);
}

void pack_scale_codes(int width, const std::vector<uint8_t>& codes, uint8_t* stream) {
  for_each_element_range(static_cast<int64_t>(codes.size()), [&](int64_t begin, int64_t end) {
    pack(width, begin, end, stream,
         [&](int64_t at, int64_t count, uint32_t* wide) { std::copy_n(codes.begin() + at, count, wide); });
  });
}

std::vector<uint8_t> unpack_scale_codes(const BlockCodec& codec, const uint8_t* stream) {
  std::vector<uint8_t> codes(static_cast<size_t>(codec.layout.block_count()));
  for_each_element_range(codec.layout.block_count(), [&](int64_t begin, int64_t end) {
    unpack(codec.scale_width, begin, end, stream, [&](int64_t at, int64_t count, const uint32_t* wide) {
      std::transform(wide, wide + count, codes.begin() + at,
                     [](uint32_t code) { return static_cast<uint8_t>(code); });
    });
  });
  return codes;
}

/// `codes` has one byte for each block.
void check_scale_codes(const BlockCodec& codec, const uint8_t* codes) {
  if (codec.scales.size() > std::numeric_limits<uint8_t>::max()) return;
  const auto largest = static_cast<uint8_t>(codec.scales.size() - 1);
  FirstIndex bad;
  for_each_element_range(codec.layout.block_count(), [&](int64_t begin, int64_t end) {
    uint8_t found = 0;
    for (int64_t i = begin; i < end; ++i) found = std::max(found, codes[i]);
    if (found <= largest) return;
    bad.report(std::find_if(codes + begin, codes + end, [&](uint8_t code) { return code > largest; }) -
               codes);
  });
  if (bad.found()) {
    fail("decode: the scale of block {} has the code {}, expected at most {}", bad.get(), codes[bad.get()],
         largest);
  }
}

}  // namespace

namespace {

ElementLayout layout_of(const FixedParameters& element) {
  return {.width = element.width, .twos_complement = true, .min_exponent = std::ilogb(element.step)};
}

ElementLayout layout_of(const LogParameters& element) {
  const int max_exponent = std::ilogb(element.largest);
  return {.width = element.width,
          .min_exponent = element.min_exponent,
          .first = 1,
          .normal = element.min_exponent >= -125 && max_exponent <= 126};
}

ElementLayout layout_of(const MinifloatParameters& element) {
  const MinifloatGrid& grid = element.grid;
  ElementLayout layout{.width = element.width,
                       .mantissa_bits = grid.mantissa_bits,
                       .min_exponent = grid.min_exponent,
                       .normal = grid.min_exponent >= -125 && std::ilogb(grid.largest) <= 126};
  if (element.reserved != ReservedCodes::kNone) layout.largest = element.largest_number;
  return layout;
}

}  // namespace

BlockCodec block_codec(const Format& format, const BlockLayout& layout, const double* numbers) {
  BlockCodec codec{.layout = layout};
  std::visit(
      [&]<class F>(const F& of_blocks) {
        if constexpr (BlockFormat<F>) {
          codec.scale_width = of_blocks.shared_bits();
          codec.scales = of_blocks.scales(numbers);
          std::visit(
              [&]<class E>(const E& element) {
                const auto parameters = element.parameters();
                codec.elements = std::vector{parameters};
                codec.element_layout = layout_of(parameters);
                codec.has_nan_code = E::kHasNan;
              },
              of_blocks.elements());
        }
      },
      format);
  return codec;
}

void encode_blocks(const BlockCodec& codec, const GroupParameters& parameters, const Tensor& input,
                   uint8_t* codes, uint8_t* scale_codes, FirstIndex& nan) {
  BlockLayout layout = codec.layout;
  layout.cut_units(kStep);
  const float* in = input.values<float>().data();
  std::vector<uint8_t> unpacked(codec.scale_width < 8 ? static_cast<size_t>(layout.block_count()) : 0);
  const BlockCodeOutput output{.elements = codec.elements,
                               .scales = codec.scales,
                               .width = codec.element_layout.width,
                               .twos_complement = codec.element_layout.twos_complement,
                               .nan_allowed = codec.has_nan_code,
                               .scale_codes = codec.scale_width < 8 ? unpacked.data() : scale_codes,
                               .nan = nan};
  const BlockLayout::Slabs slabs = layout.slabs();
  if (slabs.elements() <= kMaxSlab) {
    for_each_slab_range(slabs, [&](const SlabRange& range, uint32_t* wide) {
      code_blocks(parameters, layout, output, in, wide, range.begin, range.first_unit, range.last_unit);
      pack_elements(codec.element_layout.width, wide, range.begin, range.end, codes);
    });
  } else {
    const auto wide = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(input.numel()));
    for_each_unit_range(layout, [&](int64_t begin, int64_t end) {
      code_blocks(parameters, layout, output, in, wide.get(), 0, begin, end);
    });
    for_each_element_range(input.numel(), [&](int64_t begin, int64_t end) {
      pack_elements(codec.element_layout.width, wide.get() + begin, begin, end, codes);
    });
  }
  if (codec.scale_width < 8) pack_scale_codes(codec.scale_width, unpacked, scale_codes);
}

void decode_blocks(const BlockCodec& codec, const uint8_t* codes, const uint8_t* scale_codes,
                   Tensor& output) {
  BlockLayout layout = codec.layout;
  layout.cut_units(kStep);
  float* out = output.values<float>().data();
  std::vector<uint8_t> unpacked;
  if (codec.scale_width < 8) {
    unpacked = unpack_scale_codes(codec, scale_codes);
    scale_codes = unpacked.data();
  }
  check_scale_codes(codec, scale_codes);
  const BlockCodeInput input{.elements = codec.elements,
                             .layout = codec.element_layout,
                             .scales = codec.scales,
                             .scale_codes = scale_codes};
  const bool stream = output.byte_size() >= kStreamBytes;
  const BlockLayout::Slabs slabs = layout.slabs();
  if (takes_packed_codes(layout, codec.element_layout.width, out)) {
    const PackedCodes packed{codes, packed_size(Packing::kBits, codec.element_layout.width, output.numel())};
    for_each_unit_range(layout, [&](int64_t begin, int64_t end) {
      value_blocks(layout, input, packed, out, begin, end, stream);
    });
  } else if (slabs.elements() <= kMaxSlab) {
    for_each_slab_range(slabs, [&](const SlabRange& range, uint32_t* wide) {
      unpack_elements(codec.element_layout.width, codes, range.begin, range.end, wide);
      value_blocks(layout, input, UnpackedCodes{wide, range.begin}, out, range.first_unit, range.last_unit,
                   stream);
    });
  } else {
    const auto wide = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(output.numel()));
    for_each_element_range(output.numel(), [&](int64_t begin, int64_t end) {
      unpack_elements(codec.element_layout.width, codes, begin, end, wide.get() + begin);
    });
    for_each_unit_range(layout, [&](int64_t begin, int64_t end) {
      value_blocks(layout, input, UnpackedCodes{wide.get(), 0}, out, begin, end, false);
    });
  }
}

}  // namespace detent
