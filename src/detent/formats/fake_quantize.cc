#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "detent/core/convert.h"
#include "detent/core/parallel.h"
#include "detent/formats/blocks/block_kernels.h"
#include "detent/formats/elements/element_kernels.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

/// Elements that one thread takes at a time.
constexpr int64_t kRoundingGrain = int64_t{1} << 16;

/// The input as float32, which holds all values of the dtypes taken.
Tensor float32_input(const Tensor& input) {
  const DType dtype = input.dtype();
  if (dtype != DType::kFloat32 && dtype != DType::kFloat16 && dtype != DType::kBFloat16) {
    fail("quantization: got a tensor of {}, expected float32, float16 or bfloat16", dtype_name(dtype));
  }
  return to_float32(input);
}

void check_output(const Tensor& input, const Tensor& output) {
  DETENT_CHECK(output.dtype() == DType::kFloat32 && output.shape() == input.shape(),
               "input {}, output {} of {}", shape_text(input.shape()), shape_text(output.shape()),
               dtype_name(output.dtype()));
  const std::less<> before;
  const std::byte* in = input.bytes().data();
  const std::byte* out = output.bytes().data();
  const bool apart = !before(in, out + output.byte_size()) || !before(out, in + input.byte_size());
  DETENT_CHECK(in == out || apart, "input and output overlap in part");
}

/// The interval of inputs that do not saturate, for each group.
std::vector<Interval> unsaturated_intervals(const Format& format, const GroupParameters& parameters) {
  return std::visit(
      [&]<class F>(const F& alternative) {
        std::vector<Interval> intervals;
        if constexpr (ElementFormat<F>) {
          for (const auto& group : std::get<std::vector<typename F::Parameters>>(parameters))
            intervals.push_back(alternative.unsaturated(group));
        }
        return intervals;
      },
      format);
}

/// Which elements do not saturate.
class SteMask {
 public:
  SteMask(std::vector<Interval> intervals, const Grouping& grouping)
      : intervals_(std::move(intervals)), grouping_(grouping) {
    if (!grouping.takes_turns() || intervals_.size() < 2) return;
    for (size_t i = 0; i < static_cast<size_t>(grouping.length * grouping.inner); ++i) {
      const Interval& held = intervals_[i / static_cast<size_t>(grouping.inner)];
      low_.push_back(held.low);
      high_.push_back(held.high);
    }
  }

  /// Masks the elements [begin, end); pointers are to element 0.
  void write(const float* input, float* mask, int64_t begin, int64_t end) const {
    if (!low_.empty()) return write_rows(input, mask, begin, end);
    for_each_run(grouping_, begin, end, [&](int64_t group, int64_t first, int64_t last) {
      const Interval held = intervals_[static_cast<size_t>(group)];
      for (int64_t i = first; i < last; ++i)
        mask[i] = input[i] < held.low || input[i] > held.high ? 0.0F : 1.0F;
    });
  }

 private:
  /// Where groups take turns along a row.
  void write_rows(const float* input, float* mask, int64_t begin, int64_t end) const {
    const auto row = static_cast<int64_t>(low_.size());
    while (begin < end) {
      const int64_t column = begin % row;
      const int64_t count = std::min(row - column, end - begin);
      const float* low = low_.data() + column;
      const float* high = high_.data() + column;
      const float* x = input + begin;
      float* to = mask + begin;
      for (int64_t i = 0; i < count; ++i) to[i] = x[i] < low[i] || x[i] > high[i] ? 0.0F : 1.0F;
      begin += count;
    }
  }

  std::vector<Interval> intervals_;
  Grouping grouping_;
  std::vector<float> low_, high_;  // by place in a row
};

void round_all_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                      const float* input, float* output, bool stream) {
  parallel_for(layout.unit_count(), layout.units_per_thread(), [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment of_thread;
    round_blocks(parameters, layout, kind, input, output, begin, end, stream);
  });
}

}  // namespace

void fake_quantize(const QuantSpec& spec, const Tensor& original, Tensor& output, uint64_t seed) {
  const DefaultFloatEnvironment environment;
  const Tensor input = float32_input(original);
  check_output(original, output);
  validate_with_scale(spec, "quantization");
  if (input.numel() == 0) return;
  const Grouping grouping = make_grouping(spec, input.shape());
  const GroupParameters parameters = derive_parameters(spec, input, grouping, seed);
  const float* in = input.values<float>().data();
  float* out = output.values<float>().data();
  const bool stream = in != out && output.byte_size() >= kStreamBytes;
  if (const auto layout = block_layout(spec, input.shape())) {
    round_all_blocks(parameters, *layout, BlockOutput::kValue, in, out, stream);
    return;
  }
  with_element_kernels(parameters, grouping, [&](const auto& groups, const auto& kernels) {
    parallel_for(input.numel(), kRoundingGrain, [&](int64_t begin, int64_t end) {
      const DefaultFloatEnvironment of_thread;
      kernels.round(groups, in + begin, out + begin, begin, end, stream);
    });
  });
}

Tensor fake_quantize(const QuantSpec& spec, const Tensor& input, uint64_t seed) {
  Tensor output = unfilled_tensor(DType::kFloat32, input.shape());
  fake_quantize(spec, input, output, seed);
  return output;
}

void clipped_ste_mask(const QuantSpec& spec, const Tensor& original, Tensor& mask) {
  const DefaultFloatEnvironment environment;
  const Tensor input = float32_input(original);
  check_output(original, mask);
  validate_with_scale(spec, "quantization");
  if (input.numel() == 0) return;
  const Grouping grouping = make_grouping(spec, input.shape());
  const GroupParameters parameters = derive_parameters(spec, input, grouping, 0);
  const float* in = input.values<float>().data();
  float* out = mask.values<float>().data();
  if (const auto layout = block_layout(spec, input.shape())) {
    round_all_blocks(parameters, *layout, BlockOutput::kUnsaturated, in, out, false);
    return;
  }
  const SteMask ste_mask(unsaturated_intervals(spec.format, parameters), grouping);
  parallel_for(input.numel(), kRoundingGrain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment of_thread;
    ste_mask.write(in, out, begin, end);
  });
}

Tensor clipped_ste_mask(const QuantSpec& spec, const Tensor& input) {
  Tensor mask = unfilled_tensor(DType::kFloat32, input.shape());
  clipped_ste_mask(spec, input, mask);
  return mask;
}

}  // namespace detent
