#include "detent/formats/block_codes.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/formats/bit_packing.h"
#include "detent/formats/block_kernels.h"
#include "detent/formats/block_scaling.h"
#include "detent/formats/code_kernels.h"
#include "detent/formats/float_environment.h"

namespace detent {
namespace {

/// Codes that are packed while they are in the first-level cache.
constexpr int64_t kTile = 64 * kPackingBlock;
/// Elements that are rounded, or scaled, while they are in the second-level cache.
constexpr int64_t kStep = int64_t{1} << 14;
/// Elements that one thread takes at a time.
constexpr int64_t kGrain = 32 * kTile;
/// Larger slabs would leave the cache.
constexpr int64_t kMaxSlab = int64_t{1} << 17;

/// The elements and the units of some adjacent slabs.
struct SlabRange {
  int64_t begin, end;
  int64_t first_unit, last_unit;
};

/// Calls visit(SlabRange) for all slabs, kStep elements at a time or one slab.
template <class Visit>
void for_each_slab_range(const BlockLayout::Slabs& slabs, const Visit& visit) {
  const int64_t step = std::max<int64_t>(1, kStep / slabs.elements());
  const int64_t steps_per_thread = std::max<int64_t>(1, kGrain / (step * slabs.elements()));
  parallel_for(slabs.count(), step * steps_per_thread, [&](int64_t first, int64_t last) {
    const DefaultFloatEnvironment of_thread;
    for (; first < last; first += step) {
      const int64_t next = std::min(last, first + step);
      visit(
          SlabRange{slabs.begin(first), slabs.begin(next), slabs.first_unit(first), slabs.first_unit(next)});
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
  parallel_for(count, kGrain, [&](int64_t begin, int64_t end) {
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
    if (!source(begin, count, wide)) return;
    pack_codes(Packing::kBits, width, wide, count, stream + packed_size(Packing::kBits, width, begin));
  }
}

template <class Sink>
void unpack(int width, int64_t begin, int64_t end, const uint8_t* stream, const Sink& sink) {
  alignas(64) uint32_t wide[kTile];
  for (; begin < end; begin += kTile) {
    const int64_t count = std::min(kTile, end - begin);
    unpack_codes(Packing::kBits, width, stream + packed_size(Packing::kBits, width, begin), count, wide);
    sink(begin, count, wide);
  }
}

/// Codes and packs the elements [begin, end); `elements` points to the first.
void code_elements(const BlockCodec& codec, bool nan_allowed, const float* elements, int64_t begin,
                   int64_t end, uint8_t* codes, FirstIndex& nan) {
  pack(codec.width, begin, end, codes, [&](int64_t at, int64_t count, uint32_t* wide) {
    const float* tile = elements + (at - begin);
    const int64_t first = nan_allowed ? count : first_nan(tile, count);
    if (first < count) return nan.report(at + first), false;
    code_range(codec.coders, {1, 1, count}, tile, wide, 0, count);
    return true;
  });
}

void value_elements(const BlockCodec& codec, const uint8_t* codes, int64_t begin, int64_t end,
                    float* elements) {
  unpack(codec.width, begin, end, codes, [&](int64_t at, int64_t count, const uint32_t* wide) {
    value_range(codec.coders, {1, 1, count}, wide, elements + at, 0, count);
  });
}

void pack_scale_codes(int width, const std::vector<uint8_t>& codes, uint8_t* stream) {
  for_each_element_range(static_cast<int64_t>(codes.size()), [&](int64_t begin, int64_t end) {
    pack(width, begin, end, stream, [&](int64_t at, int64_t count, uint32_t* wide) {
      std::copy_n(codes.begin() + at, count, wide);
      return true;
    });
  });
}

std::vector<uint8_t> unpack_scale_codes(const BlockCodec& codec, const uint8_t* stream) {
  std::vector<uint8_t> codes(static_cast<size_t>(codec.layout.block_count()));
  FirstIndex bad;
  for_each_element_range(codec.layout.block_count(), [&](int64_t begin, int64_t end) {
    unpack(codec.scale_width, begin, end, stream, [&](int64_t at, int64_t count, const uint32_t* wide) {
      std::transform(wide, wide + count, codes.begin() + at,
                     [](uint32_t code) { return static_cast<uint8_t>(code); });
      const uint32_t* known =
          std::find_if(wide, wide + count, [&](uint32_t code) { return code >= codec.scales.size(); });
      if (known != wide + count) bad.report(at + (known - wide));
    });
  });
  if (bad.found()) {
    fail("decode: the scale of block {} has the code {}, expected at most {}", bad.get(),
         codes[static_cast<size_t>(bad.get())], codec.scales.size() - 1);
  }
  return codes;
}

}  // namespace

void encode_blocks(const BlockCodec& codec, const GroupParameters& parameters, const Tensor& input,
                   bool nan_allowed, uint8_t* codes, uint8_t* scale_codes, FirstIndex& nan) {
  const BlockLayout& layout = codec.layout;
  const float* in = input.values<float>().data();
  std::vector<uint8_t> block_codes(static_cast<size_t>(layout.block_count()));
  const auto round = [&](int64_t first_unit, int64_t last_unit, float* elements, int64_t first) {
    round_elements(parameters, layout, codec.scales, in, elements, first, block_codes.data(), first_unit,
                   last_unit);
  };
  const BlockLayout::Slabs slabs = layout.slabs();
  if (slabs.elements() <= kMaxSlab) {
    for_each_slab_range(slabs, [&](const SlabRange& range) {
      const auto count = static_cast<size_t>(range.end - range.begin);
      const auto elements = std::make_unique_for_overwrite<float[]>(count);
      round(range.first_unit, range.last_unit, elements.get(), range.begin);
      code_elements(codec, nan_allowed, elements.get(), range.begin, range.end, codes, nan);
    });
  } else {
    Tensor elements(DType::kFloat32, input.shape());
    float* all = elements.values<float>().data();
    for_each_unit_range(layout, [&](int64_t begin, int64_t end) { round(begin, end, all, 0); });
    for_each_element_range(input.numel(), [&](int64_t begin, int64_t end) {
      code_elements(codec, nan_allowed, all + begin, begin, end, codes, nan);
    });
  }
  pack_scale_codes(codec.scale_width, block_codes, scale_codes);
}

void decode_blocks(const BlockCodec& codec, const uint8_t* codes, const uint8_t* scale_codes,
                   Tensor& output) {
  const BlockLayout& layout = codec.layout;
  float* out = output.values<float>().data();
  const std::vector<uint8_t> block_codes = unpack_scale_codes(codec, scale_codes);
  const auto scale = [&](int64_t first_unit, int64_t last_unit) {
    scale_elements(layout, codec.scales, block_codes.data(), out, first_unit, last_unit);
  };
  const BlockLayout::Slabs slabs = layout.slabs();
  if (slabs.elements() <= kMaxSlab) {
    for_each_slab_range(slabs, [&](const SlabRange& range) {
      value_elements(codec, codes, range.begin, range.end, out);
      scale(range.first_unit, range.last_unit);
    });
  } else {
    for_each_element_range(
        output.numel(), [&](int64_t begin, int64_t end) { value_elements(codec, codes, begin, end, out); });
    for_each_unit_range(layout, scale);
  }
}

}  // namespace detent
