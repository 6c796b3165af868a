#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/grid_sampler.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "detent/autograd/float32_results.h"
#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/inference/region_samples.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

/// Positions, which have no gradient: those of the layer float32.
Results evaluate_suppression(const Evaluation& e) { return float32_results(e).front(); }

/// The bins [C, height, width] of a region of an image [C, H, W].
at::Tensor aligned(const at::Tensor& image, const RegionGrid& grid, const RegionSamples& rows,
                   const RegionSamples& columns) {
  if (rows.per_bin == 0 || columns.per_bin == 0)
    return at::zeros({image.size(0), grid.height(), grid.width()}, image.options());
  at::Tensor samples;
  for (const auto& [row, row_share] :
       {std::pair(&rows.low, &rows.low_share), std::pair(&rows.high, &rows.high_share)}) {
    for (const auto& [column, column_share] :
         {std::pair(&columns.low, &columns.low_share), std::pair(&columns.high, &columns.high_share)}) {
      const at::Tensor pixels =
          image.index_select(1, at::tensor(*row, at::kLong)).index_select(2, at::tensor(*column, at::kLong));
      const at::Tensor part = pixels * (at::tensor(*row_share).unsqueeze(1) * at::tensor(*column_share));
      const bool is_first = !samples.defined();
      samples = is_first ? part : grid.takes_largest() ? at::maximum(samples, part) : samples + part;
    }
  }
  const at::Tensor bins =
      samples.view({image.size(0), grid.height(), rows.per_bin, grid.width(), columns.per_bin});
  return grid.takes_largest() ? bins.amax({2, 4}) : bins.mean(at::IntArrayRef{2, 4});
}

/// With a gradient for the images, none for the regions.
Results evaluate_region_alignment(const Evaluation& e) {
  const at::Tensor& images = e.tensor(0);
  const at::Tensor regions = e.as_tensor(1).detach().contiguous();
  const std::vector<int64_t> which = e.integers(2);
  const RegionGrid grid(e.node);
  std::vector<at::Tensor> results;
  for (int64_t r = 0; r < regions.size(0); ++r) {
    const float* const box = regions.data_ptr<float>() + r * 4;
    const int64_t image = which.at(static_cast<size_t>(r));
    if (image < 0 || image >= images.size(0))
      fail("node \"{}\": got the image {} of {}", e.node.name, image, images.size(0));
    results.push_back(aligned(images[image], grid, grid.rows(box[1], box[3], images.size(2)),
                              grid.columns(box[0], box[2], images.size(3))));
  }
  if (results.empty()) return at::zeros({0, images.size(1), grid.height(), grid.width()}, images.options());
  return at::stack(results);
}

/// Images of one dimension are sampled as of two, one of which has one pixel. The choices of modes are in
/// the order of ATen's numbers.
Results evaluate_grid_samples(const Evaluation& e) {
  const auto curve = static_cast<int64_t>(choice_index(e.node, "mode"));
  const auto padding = static_cast<int64_t>(choice_index(e.node, "padding_mode"));
  const bool from_centres = boolean_attribute(e.node, "align_corners");
  const at::Tensor& images = e.tensor(0);
  const at::Tensor grid = e.as_tensor(1);
  if (images.dim() > 3) return at::grid_sampler(images, grid, curve, padding, from_centres);
  const at::Tensor places = at::cat({grid, at::zeros_like(grid)}, -1).unsqueeze(1);
  return at::grid_sampler(images.unsqueeze(2), places, curve, padding, from_centres).squeeze(2);
}

}  // namespace

EvaluatorList detection_evaluators() {
  return {{"grid_sample", evaluate_grid_samples},
          {"non_max_suppression", evaluate_suppression},
          {"roi_align", evaluate_region_alignment}};
}

}  // namespace detent
