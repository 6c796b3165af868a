#include "detent/cli/format_display.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include <fmt/format.h>

#include "detent/cli/tensor_files.h"
#include "detent/core/error.h"
#include "detent/core/random_numbers.h"
#include "detent/files/svg.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/measure/distortion.h"
#include "detent/statistics/calibration.h"

namespace detent {
namespace {

constexpr int64_t kDrawn = 65536;
constexpr size_t kLineWidth = 72;

/// In (0, 1).
double uniform(uint64_t index) {
  return (static_cast<double>(splitmix64((index + 1) * kSplitmixStep) >> 11) + 0.5) * 0x1p-53;
}

template <class Draw>
Tensor drawn(const Draw& draw) {
  Tensor values(DType::kFloat32, {kDrawn / 256, 256});
  for (int64_t i = 0; i < kDrawn; ++i)
    values.values<float>()[static_cast<size_t>(i)] = static_cast<float>(draw(static_cast<uint64_t>(i)));
  return values;
}

/// Box and Muller 1958.
double normal(uint64_t index) {
  return std::sqrt(-2 * std::log(uniform(2 * index))) *
         std::cos(2 * std::numbers::pi * uniform(2 * index + 1));
}

/// By the inverse of its distribution function.
double laplace(uint64_t index) {
  const double share = uniform(index) - 0.5;
  const double magnitude = -std::log(1 - 2 * std::fabs(share)) / std::numbers::sqrt2;
  return share < 0 ? -magnitude : magnitude;
}

/// The place of a value in [0, largest] on the line.
size_t column_of(float value, float largest) {
  const double share = static_cast<double>(value) / static_cast<double>(largest);
  return static_cast<size_t>(std::lround(share * static_cast<double>(kLineWidth - 1)));
}

}  // namespace

std::vector<NamedValues> drawn_distributions() {
  return {{"normal", drawn(normal)}, {"Laplace", drawn(laplace)}};
}

QuantSpec fitted_to(const QuantSpec& spec, const Tensor& values) {
  if (values.numel() == 0 || spec.granularity != Granularity::kTensor) return spec;
  if (is_fitted(spec.format)) {
    return calibrate(spec, std::vector{Distribution::of(values.values<float>())},
                     {.calibrator = Calibrator::kMse}, "the format");
  }
  return completed_from(values, spec);
}

std::vector<float> values_within_one(const QuantSpec& spec, size_t most) {
  constexpr int64_t kBlock = 256;  // of which the first holds the largest magnitude, and every 16th
  Tensor values(DType::kFloat32, {kDrawn / kBlock, kBlock});
  const std::span<float> elements = values.values<float>();
  for (size_t i = 0; i < elements.size(); ++i) {
    const bool is_largest = i % 16 == 0;
    const auto sign = static_cast<float>(i % 32 == 0 ? 1 : -1);
    elements[i] = is_largest ? sign : static_cast<float>(2 * uniform(i) - 1);
  }
  const Tensor rounded = fake_quantize(fitted_to(spec, values), values);
  std::set<float> distinct;
  for (const float value : rounded.values<float>()) {
    if (std::isfinite(value)) distinct.insert(value + 0.0F);
    if (distinct.size() > most) return {};
  }
  return {distinct.begin(), distinct.end()};
}

std::string number_line(const std::vector<float>& values) {
  const float largest = values.empty() ? 0 : values.back();
  if (!(largest > 0)) return "";
  std::vector<int> counts(kLineWidth, 0);
  for (const float value : values) {
    if (value >= 0) ++counts[column_of(value, largest)];
  }
  std::string line;
  for (const int count : counts) {
    if (count == 0) line += '.';
    if (count == 1) line += '|';
    if (count > 1) line += count < 10 ? static_cast<char>('0' + count) : '#';
  }
  const std::string end = fmt::format("{}", largest);
  return fmt::format("{}\n0{:>{}}\n", line, end, kLineWidth - 1);
}

TextTable format_errors(const QuantSpec& spec, const std::vector<NamedValues>& data) {
  std::vector<std::string> header = distortion_columns();
  header.insert(header.begin(), "values");
  TextTable table(header);
  for (const NamedValues& one : data) {
    std::vector<std::string> cells =
        distortion_cells(measure_distortion(fitted_to(spec, one.values), one.values));
    cells.insert(cells.begin(), one.name);
    table.add_row(std::move(cells));
  }
  return table;
}

std::string format_drawing(const std::string& title, const std::vector<float>& values,
                           const TextTable& errors) {
  constexpr double kWidth = 760;
  constexpr double kMargin = 30;
  constexpr double kAxis = 90;
  constexpr double kTick = 32;
  constexpr double kText = 13;
  constexpr double kRow = 20;
  const double height = kAxis + 60 + kRow * static_cast<double>(errors.row_count() + 1);
  SvgDrawing drawing(kWidth, height);
  drawing.text(kMargin, 28, title, 16);
  const double length = kWidth - 2 * kMargin;
  drawing.line(kMargin, kAxis, kWidth - kMargin, kAxis, "#888888");
  const double low = values.empty() ? 0 : static_cast<double>(values.front());
  const double high = values.empty() ? 0 : static_cast<double>(values.back());
  for (const float value : values) {
    const double x =
        kMargin + (high > low ? (static_cast<double>(value) - low) / (high - low) : 0.5) * length;
    drawing.line(x, kAxis - kTick, x, kAxis, value == 0 ? "#cc3311" : "#4477aa");
  }
  if (!values.empty()) {
    drawing.text(kMargin, kAxis + 18, fmt::format("{}", values.front()), kText);
    drawing.text(kWidth - kMargin, kAxis + 18, fmt::format("{}", values.back()), kText,
                 SvgDrawing::Anchor::kEnd);
  }
  const auto write_row = [&](const std::vector<std::string>& cells, double y) {
    const double step = length / static_cast<double>(cells.size());
    for (size_t i = 0; i < cells.size(); ++i)
      drawing.text(kMargin + step * static_cast<double>(i), y, cells[i], kText);
  };
  double y = kAxis + 50;
  write_row(errors.header(), y);
  for (const std::vector<std::string>& row : errors.rows()) write_row(row, y += kRow);
  return drawing.to_text();
}

}  // namespace detent
