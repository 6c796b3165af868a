#include "detent/formats/groups/given_parameters.h"

#include "detent/formats/blocks/block_kernels.h"
#include "detent/formats/elements/element_kernels.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/kernel_environment.h"

namespace detent {
namespace {

// Whether the keys say all that a tensor's data would: parameters of one group.

template <class F>
bool gives_parameters(const F& format) {
  if constexpr (requires { format.scale; }) return format.scale.size() == 1;
  if constexpr (BlockFormat<F>) return format.streams().empty();  // nothing of the whole tensor
  return FormatWithoutData<F>;
}

bool gives_parameters(const Nvfp4& format) { return format.tensor_scale.has_value(); }
bool gives_parameters(const BinaryResidual& format) { return !format.gamma.empty(); }
bool gives_parameters(const Ternary& format) { return format.threshold && !format.scaling_factor; }
bool gives_parameters(const Binary& format) { return format.scaling == BinaryScaling::kNone; }

}  // namespace

std::optional<RowRounding> RowRounding::of(const QuantSpec& spec) {
  const bool is_given = std::visit([](const auto& format) { return gives_parameters(format); }, spec.format);
  if (!is_given || is_stochastic(spec.format) || spec.granularity != Granularity::kTensor ||
      spec.scale_rule != ScaleRule::kGiven)
    return std::nullopt;
  RowRounding rounding;
  std::visit(
      [&]<class F>(const F& format) {
        if constexpr (BlockFormat<F>) {
          const BlockSize size = format.blocks();
          rounding.block_ = size.is_single() ? size.sizes[0] : 0;
        }
      },
      spec.format);
  const bool in_blocks = std::visit([]<class F>(const F&) { return BlockFormat<F>; }, spec.format);
  if (in_blocks && rounding.block_ == 0) return std::nullopt;
  rounding.axis_ = spec.block_axis.value_or(-1);
  const Tensor any = Tensor(DType::kFloat32, {1});
  rounding.parameters_ = derive_parameters(spec, any, make_grouping(spec, any.shape()), 0);
  return rounding;
}

void RowRounding::round(const float* from, int64_t count, int64_t row, float* to) const {
  if (count == 0) return;
  const DefaultFloatEnvironment environment;
  if (in_blocks()) {
    // Rows of whole blocks are one row to blocks.
    const bool is_whole = block_ > 0 && row % block_ == 0;
    const Shape shape = is_whole ? Shape{count} : Shape{count / row, row};
    const BlockLayout layout({{block_}}, std::nullopt, shape);
    round_blocks(parameters_, layout, BlockOutput::kValue, from, to, 0, layout.unit_count(), false);
    return;
  }
  with_element_kernels(parameters_, {.inner = count}, [&](const auto& groups, const auto& kernels) {
    kernels.round(groups, from, to, 0, count, false);
  });
}

}  // namespace detent
