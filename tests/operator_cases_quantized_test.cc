#include <ATen/TensorOperators.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/round.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "operator_cases_test.h"

// Quantization as operators of a network, and the choice among boxes.

namespace detent {
namespace {

using Inputs = std::vector<at::Tensor>;
using Lookup = OperatorCase::Lookup;

OperatorCase of_codes(const char* op, std::vector<CaseInput> inputs, Table attributes,
                      OperatorCase::Reference reference, size_t result = 0) {
  return {.op = op,
          .inputs = std::move(inputs),
          .attributes = std::move(attributes),
          .reference = std::move(reference),
          .gradient = CaseGradient::kNone,
          .result = result};
}

at::Tensor range_of(const at::Tensor& x) { return x.max().clamp_min(0) - x.min().clamp_max(0); }

at::Tensor zero_point_of(const at::Tensor& x) {
  return at::round(-x.min().clamp_max(0) / (range_of(x) / 255));
}

/// The share that two boxes, y and x of two corners, have in common.
float overlap(const at::Tensor& a, const at::Tensor& b) {
  const auto low = [](const at::Tensor& box) {
    return at::minimum(box.narrow(0, 0, 2), box.narrow(0, 2, 2));
  };
  const auto high = [](const at::Tensor& box) {
    return at::maximum(box.narrow(0, 0, 2), box.narrow(0, 2, 2));
  };
  const at::Tensor shared = (at::minimum(high(a), high(b)) - at::maximum(low(a), low(b))).clamp_min(0).prod();
  const at::Tensor all = (high(a) - low(a)).prod() + (high(b) - low(b)).prod() - shared;
  return (shared / all).item<float>();
}

/// At most two boxes of each class, of which none shares more than a tenth with a better one.
at::Tensor best_boxes(const Inputs& x, const Lookup&) {
  std::vector<int64_t> rows;
  for (int64_t sample = 0; sample < x[0].size(0); ++sample) {
    for (int64_t c = 0; c < x[1].size(1); ++c) {
      std::vector<int64_t> kept;
      const at::Tensor order = x[1][sample][c].argsort(0, /*descending=*/true);
      for (int64_t i = 0; i < order.size(0) && kept.size() < 2; ++i) {
        const auto box = order[i].item<int64_t>();
        bool is_hidden = x[1][sample][c][box].item<float>() <= -0.5F;
        for (const int64_t other : kept) is_hidden |= overlap(x[0][sample][box], x[0][sample][other]) > 0.1F;
        if (is_hidden) continue;
        kept.push_back(box);
        rows.insert(rows.end(), {sample, c, box});
      }
    }
  }
  return at::tensor(rows, at::kLong).view({-1, 3});
}

/// Image x between pixels, of which those beyond the border repeat it.
at::Tensor between_pixels(const at::Tensor& image, double y, double x) {
  const auto share = [](double at, int64_t place) {
    return std::max(0.0, 1 - std::abs(at - static_cast<double>(place)));
  };
  const double row = std::clamp(y, 0.0, static_cast<double>(image.size(1) - 1));
  const double column = std::clamp(x, 0.0, static_cast<double>(image.size(2) - 1));
  at::Tensor sum = at::zeros({image.size(0)});
  if (y < -1 || y > static_cast<double>(image.size(1)) || x < -1 || x > static_cast<double>(image.size(2)))
    return sum;
  for (int64_t i = 0; i < image.size(1); ++i) {
    for (int64_t j = 0; j < image.size(2); ++j)
      sum = sum + image.select(1, i).select(1, j) * (share(row, i) * share(column, j));
  }
  return sum;
}

/// Two rows and three columns of bins, each of two times two samples, with half a pixel a unit.
at::Tensor regions_of_images(const Inputs& x, const Lookup&) {
  std::vector<at::Tensor> regions;
  for (int64_t r = 0; r < x[1].size(0); ++r) {
    double box[4];
    for (int64_t i = 0; i < 4; ++i) box[i] = x[1][r][i].item<double>() * 0.5 - 0.5;
    std::vector<at::Tensor> bins;
    for (int bin = 0; bin < 6; ++bin) {
      at::Tensor sum = at::zeros({x[0].size(1)});
      for (int sample = 0; sample < 4; ++sample) {
        const int row = bin / 3 * 2 + sample / 2;
        const int column = bin % 3 * 2 + sample % 2;
        const double down = (row + 0.5) / 4;
        const double across = (column + 0.5) / 6;
        sum = sum + between_pixels(x[0][x[2][r].item<int64_t>()], box[1] + (box[3] - box[1]) * down,
                                   box[0] + (box[2] - box[0]) * across);
      }
      bins.push_back(sum / 4);
    }
    regions.push_back(at::stack(bins, 1).view({-1, 2, 3}));
  }
  return at::stack(regions);
}

}  // namespace

std::vector<OperatorCase> quantized_cases() {
  const CaseInput numbers = CaseInput({3, 4}).between(-4, 4);
  const CaseInput scales = CaseInput({3}).without_batch().between(0.01, 0.1);
  const CaseInput zeros = CaseInput({3}).without_batch().of(DType::kInt8, -9, 9);
  const CaseInput codes = CaseInput({3, 4}).of(DType::kUInt8, 0, 255);
  const CaseInput weights = CaseInput({4, 5}).without_batch().of(DType::kInt8, -128, 127);
  const CaseInput zero = CaseInput(Shape()).without_batch().of(DType::kUInt8, 0, 255);
  OperatorCase suppression =
      of_codes("non_max_suppression", {CaseInput({9, 4}).between(0, 1), {2, 9}}, {}, best_boxes);
  suppression.constants = {NodeInput::of_constant(2), NodeInput::of_constant(0.1),
                           NodeInput::of_constant(-0.5)};
  return {
      suppression,
      {.op = "roi_align",
       .inputs = {{3, 5, 4},
                  CaseInput({5, 4}).without_batch().of(DType::kFloat32, -3, 12),
                  CaseInput({5}).without_batch().of(DType::kInt64, 0, 0)},
       .attributes = {{"output_size", Value(std::vector<int64_t>{2, 3})},
                      {"sampling_ratio", 2},
                      {"spatial_scale", 0.5}},
       .reference = regions_of_images},
      of_codes("quantize_linear", {numbers, scales, zeros}, {{"axis", 1}, {"dtype", "int8"}},
               [](const Inputs& x, const Lookup&) {
                 const at::Tensor shifted = at::round(x[0] / x[1].view({3, 1})) + x[2].view({3, 1});
                 return shifted.clamp(-128, 127).to(at::kChar);
               }),
      of_codes("dequantize_linear", {CaseInput({3, 4}).of(DType::kInt8, -128, 127), scales, zeros},
               {{"axis", -2}},
               [](const Inputs& x, const Lookup&) {
                 return (x[0].to(at::kFloat) - x[2].view({3, 1})) * x[1].view({3, 1});
               }),
      of_codes("dynamic_quantize_linear", {numbers}, {},
               [](const Inputs& x, const Lookup&) {
                 const at::Tensor rounded = at::round(x[0] / (range_of(x[0]) / 255));
                 return (rounded + zero_point_of(x[0])).clamp(0, 255).to(at::kByte);
               }),
      of_codes(
          "dynamic_quantize_linear", {numbers}, {},
          [](const Inputs& x, const Lookup&) { return range_of(x[0]) / 255; }, 1),
      of_codes(
          "dynamic_quantize_linear", {numbers}, {},
          [](const Inputs& x, const Lookup&) { return zero_point_of(x[0]).to(at::kByte); }, 2),
      of_codes("integer_matmul", {codes, weights, zero}, {},
               [](const Inputs& x, const Lookup&) {
                 return at::matmul(x[0].to(at::kInt) - x[2].to(at::kInt), x[1].to(at::kInt));
               }),
      of_codes("integer_convolution",
               {CaseInput({2, 5, 6}).of(DType::kUInt8, 0, 255),
                CaseInput({3, 2, 2, 3}).without_batch().of(DType::kInt8, -128, 127), zero},
               {{"padding", 1}},
               [](const Inputs& x, const Lookup&) {
                 const at::Tensor centred = x[0].to(at::kDouble) - x[2];
                 return at::conv2d(centred, x[1].to(at::kDouble), {}, 1, 1).to(at::kInt);
               }),
  };
}

}  // namespace detent
