#include <algorithm>
#include <functional>

#include "detent/core/convert.h"
#include "detent/core/parallel.h"
#include "detent/formats/block_kernels.h"
#include "detent/formats/float_environment.h"
#include "detent/formats/group_parameters.h"
#include "detent/formats/kernels.h"
#include "detent/formats/quant_spec.h"
#include "detent/formats/unsaturated_mask.h"

namespace detent {
namespace {

/// Elements that one thread takes at a time.
constexpr int64_t kGrain = int64_t{1} << 16;

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
std::vector<Interval> unsaturated_intervals(const GroupParameters& parameters) {
  return std::visit(
      []<class P>(const std::vector<P>& groups) {
        std::vector<Interval> intervals;
        if constexpr (requires(const P& group) { group.unsaturated; }) {
          for (const P& group : groups) intervals.push_back(group.unsaturated);
        }
        return intervals;
      },
      parameters);
}

void mask_range(const std::vector<Interval>& intervals, const Grouping& grouping, const float* input,
                float* mask, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end;) {
    const int64_t run = i / grouping.inner;
    const int64_t run_end = std::min(end, (run + 1) * grouping.inner);
    const Interval& held = intervals[static_cast<size_t>(run % grouping.groups)];
    for (; i < run_end; ++i) mask[i] = input[i] < held.low || input[i] > held.high ? 0.0F : 1.0F;
  }
}

void round_all_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                      const float* input, float* output, bool stream) {
  parallel_for(layout.unit_count(), layout.units_per_thread(), [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment of_thread;
    round_blocks(parameters, layout, kind, input, output, begin, end, stream);
  });
}

}  // namespace

void simulate(const QuantSpec& spec, const Tensor& original, Tensor& output, uint64_t seed) {
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
  parallel_for(input.numel(), kGrain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment of_thread;
    simulate_range(parameters, grouping, in + begin, out + begin, begin, end, stream);
  });
}

Tensor simulate(const QuantSpec& spec, const Tensor& input, uint64_t seed) {
  Tensor output(DType::kFloat32, input.shape());
  simulate(spec, input, output, seed);
  return output;
}

void unsaturated_mask(const QuantSpec& spec, const Tensor& original, Tensor& mask) {
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
  const std::vector<Interval> intervals = unsaturated_intervals(parameters);
  parallel_for(input.numel(), kGrain, [&](int64_t begin, int64_t end) {
    const DefaultFloatEnvironment of_thread;
    mask_range(intervals, grouping, in, out, begin, end);
  });
}

Tensor unsaturated_mask(const QuantSpec& spec, const Tensor& input) {
  Tensor mask(DType::kFloat32, input.shape());
  unsaturated_mask(spec, input, mask);
  return mask;
}

}  // namespace detent
