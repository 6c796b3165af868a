// The loops over elements, of every element format: what ElementKernels points to.
//
// A format's kernel is a class template Kernel<D> for vectors of tag D, made from a group's parameters once a
// run. It has the three verbs of a format:
//
//     V Round(D d, V x, uint64_t index) const;    // the nearest value; NaN stays
//     VI Encode(D d, V x, uint64_t index) const;  // the code of that value
//     V Decode(D d, VI code) const;               // the value of any code
//
// where `index` is the place in the tensor of the first lane. Scalar use is a tag of one lane. It is made by
// one of these:
//
//     Kernel(D d, const P&, uint64_t first_index);             // all later indices agree in the upper 32
//     bits Kernel(D d, const P&, uint64_t first_index, const At&);  // at(k): the k-th of P::lanes(), lane by
//     lane static void With(D d, const P&, uint64_t first_index, const Visit&);  // calls visit(kernel) with
//     one
//                                                                           // made for these parameters
//
// Per-target include guard
#if defined(DETENT_FORMATS_ELEMENTS_ELEMENT_LOOPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_ELEMENTS_ELEMENT_LOOPS_INL_H_
#undef DETENT_FORMATS_ELEMENTS_ELEMENT_LOOPS_INL_H_
#else
#define DETENT_FORMATS_ELEMENTS_ELEMENT_LOOPS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "detent/formats/elements/element_kernels.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using CodeTag = hn::RebindToUnsigned<FloatTag>;

/// Elements before `output` is aligned to whole vectors.
HWY_INLINE size_t UnalignedCount(FloatTag d, const float* output) {
  const size_t bytes = hn::Lanes(d) * sizeof(float);
  const size_t misaligned = reinterpret_cast<uintptr_t>(output) % bytes;
  return misaligned == 0 ? 0 : (bytes - misaligned) / sizeof(float);
}

/// Fewer elements than a vector, through buffers: the same code as for whole vectors.
template <class From, class To, class Function>
HWY_INLINE void TransformPartial(const Function& function, const From* input, To* output, size_t count,
                                 size_t i) {
  constexpr FloatTag d;
  HWY_ALIGN From from[hn::MaxLanes(d)] = {};
  HWY_ALIGN To to[hn::MaxLanes(d)];
  std::memcpy(from, input + i, count * sizeof(From));
  hn::Store(function(hn::Load(hn::Rebind<From, FloatTag>(), from), i), hn::Rebind<To, FloatTag>(), to);
  std::memcpy(output + i, to, count * sizeof(To));
}

/// output[i] = function(input[i], i), lane by lane.
template <class From, class To, class Function>
HWY_INLINE void Transform(const Function function, const From* input, To* output, size_t count, bool stream) {
  constexpr hn::Rebind<From, FloatTag> from;
  constexpr hn::Rebind<To, FloatTag> to;
  const size_t lanes = hn::Lanes(FloatTag());
  size_t i = 0;
  if constexpr (std::is_same_v<To, float>) {
    if (stream) {
      i = std::min(count, UnalignedCount(to, output));
      if (i > 0) TransformPartial(function, input, output, i, 0);
      for (; i + lanes <= count; i += lanes)
        hn::Stream(function(hn::LoadU(from, input + i), i), to, output + i);
    }
  }
  for (; i + lanes <= count; i += lanes) hn::StoreU(function(hn::LoadU(from, input + i), i), to, output + i);
  if (i < count) TransformPartial(function, input, output, count - i, i);
}

/// The same number in every lane.
template <size_t kCount>
struct SameLanes {
  std::array<float, kCount> values;
  HWY_INLINE hn::Vec<FloatTag> operator()(size_t k) const { return hn::Set(FloatTag(), values[k]); }
};

/// Entries of a LaneTable from `offset` on.
struct LanesAt {
  const LaneTable& table;
  size_t offset;
  HWY_INLINE hn::Vec<FloatTag> operator()(size_t k) const {
    return hn::LoadU(FloatTag(), table.row(k) + offset);
  }
};

template <template <class> class Kernel, class P, class Visit>
HWY_INLINE void WithKernel(const P& group, uint64_t first_index, const Visit& visit) {
  constexpr FloatTag d;
  if constexpr (requires { Kernel<FloatTag>::With(d, group, first_index, visit); }) {
    Kernel<FloatTag>::With(d, group, first_index, visit);
  } else if constexpr (requires { group.lanes(); }) {
    using Lanes = SameLanes<std::tuple_size_v<decltype(group.lanes())>>;
    visit(Kernel<FloatTag>(d, group, first_index, Lanes{group.lanes()}));
  } else {
    visit(Kernel<FloatTag>(d, group, first_index));
  }
}

/// Calls act(kernel, input, output, count, index) for every run of a group, or, where these are short, with
/// kernels whose lanes belong to several groups.
template <template <class> class Kernel, class P, class From, class To, class Verb>
HWY_INLINE void ForEachRun(const ElementGroups<P>& tensor, const From* input, To* output, int64_t begin,
                           int64_t end, bool stream, const Verb& verb) {
  if constexpr (requires(const P& group) { group.lanes(); }) {
    if (!tensor.lanes.empty()) {
      const auto period = static_cast<size_t>(tensor.lanes.period());
      const auto first = static_cast<size_t>(begin % tensor.lanes.period());
      size_t offset = first;
      size_t previous = 0;
      return Transform(
          [&](auto x, size_t i) HWY_ATTR {
            offset += i - previous;
            previous = i;
            if (offset >= period) offset -= period;
            const auto index = static_cast<uint64_t>(begin) + i;
            return verb(Kernel<FloatTag>(FloatTag(), tensor.groups[0], index, LanesAt{tensor.lanes, offset}),
                        x, index);
          },
          input, output, static_cast<size_t>(end - begin), stream);
    }
  }
  for_each_run(tensor.grouping, begin, end, [&](int64_t group, int64_t first, int64_t last) HWY_ATTR {
    WithKernel<Kernel>(tensor.groups[static_cast<size_t>(group)], static_cast<uint64_t>(first),
                       [&](const auto& made) HWY_ATTR {
                         Transform([kernel = made, first, &verb](auto x, size_t i)
                                       HWY_ATTR { return verb(kernel, x, static_cast<uint64_t>(first) + i); },
                                   input + (first - begin), output + (first - begin),
                                   static_cast<size_t>(last - first), stream);
                       });
  });
}

template <class P, template <class> class Kernel>
void RoundRange(const ElementGroups<P>& tensor, const float* input, float* output, int64_t begin, int64_t end,
                bool stream) {
  ForEachRun<Kernel>(tensor, input, output, begin, end, stream,
                     [](const auto& kernel, auto x, uint64_t index)
                         HWY_ATTR { return kernel.Round(FloatTag(), x, index); });
  if (stream) hwy::FlushStream();
}

template <class P, template <class> class Kernel>
void EncodeRange(const ElementGroups<P>& tensor, const float* input, uint32_t* codes, int64_t begin,
                 int64_t end) {
  ForEachRun<Kernel>(tensor, input, codes, begin, end, false,
                     [](const auto& kernel, auto x, uint64_t index)
                         HWY_ATTR { return hn::BitCast(CodeTag(), kernel.Encode(FloatTag(), x, index)); });
}

template <class P, template <class> class Kernel>
void DecodeRange(const ElementGroups<P>& tensor, const uint32_t* codes, float* output, int64_t begin,
                 int64_t end) {
  ForEachRun<Kernel>(tensor, codes, output, begin, end, false,
                     [](const auto& kernel, auto code, uint64_t /*index*/) HWY_ATTR {
                       const hn::RebindToSigned<FloatTag> di;
                       return kernel.Decode(FloatTag(), hn::BitCast(di, code));
                     });
}

template <class P, template <class> class Kernel>
ElementKernels<P> KernelsOf() {
  return {&RoundRange<P, Kernel>, &EncodeRange<P, Kernel>, &DecodeRange<P, Kernel>};
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_ELEMENTS_ELEMENT_LOOPS_INL_H_
