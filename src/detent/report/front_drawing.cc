#include "detent/report/page.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "detent/files/svg.h"

namespace detent {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 420;
constexpr double kLeft = 80;
constexpr double kRight = 30;
constexpr double kTop = 30;
constexpr double kBottom = 50;
constexpr double kText = 12;

struct Point {
  std::string name;
  double cost = 0;
  double value = 0;
  bool on_front = false;
  bool chosen = false;
};

double number(const Table& table, const char* key) {
  double scratch = 0;
  const double* found = table.find(key)->number(scratch);
  return found == nullptr ? std::nan("") : *found;
}

std::vector<Point> points_of(const Table& pareto) {
  std::vector<Point> points;
  for (const Value& entry : *pareto.find("points")->get_if<List>()) {
    const Table& table = *entry.get_if<Table>();
    Point point{.name = *table.find("name")->get_if<std::string>(),
                .cost = number(table, "cost"),
                .value = number(table, "value"),
                .on_front = *table.find("on_front")->get_if<bool>(),
                .chosen = *table.find("chosen")->get_if<bool>()};
    if (std::isfinite(point.cost) && std::isfinite(point.value)) points.push_back(std::move(point));
  }
  std::ranges::stable_sort(points, {}, &Point::cost);
  return points;
}

/// From a value to a place in the drawing.
class Axis {
 public:
  Axis(const std::vector<Point>& points, double Point::*field, double begin, double end)
      : begin_(begin), end_(end) {
    const auto [least, most] = std::ranges::minmax(points, {}, field);
    const double low = least.*field;
    const double high = most.*field;
    constexpr double kAround = 0.05;
    const double margin = high > low ? kAround * (high - low) : std::max(1.0, std::fabs(high)) * kAround;
    low_ = low - margin;
    high_ = high + margin;
  }

  double place(double value) const { return begin_ + (value - low_) / (high_ - low_) * (end_ - begin_); }

  /// Round numbers, 1, 2 or 5 times a power of 10 apart.
  std::vector<double> ticks() const {
    constexpr double kMost = 6;
    const double rough = (high_ - low_) / kMost;
    const double power = std::pow(10.0, std::floor(std::log10(rough)));
    const double digit = rough / power;
    const double step = power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
    std::vector<double> ticks;
    const double first = std::ceil(low_ / step);
    for (int i = 0; i <= static_cast<int>(kMost) && (first + i) * step <= high_; ++i)
      ticks.push_back((first + i) * step);
    return ticks;
  }

 private:
  double begin_;
  double end_;
  double low_ = 0;
  double high_ = 0;
};

void draw_axes(SvgDrawing& drawing, const Axis& x, const Axis& y, const Table& pareto) {
  const char* const grey = "#888888";
  drawing.line(kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom, grey);
  drawing.line(kLeft, kTop, kLeft, kHeight - kBottom, grey);
  for (const double tick : x.ticks()) {
    drawing.line(x.place(tick), kHeight - kBottom, x.place(tick), kHeight - kBottom + 5, grey);
    drawing.text(x.place(tick), kHeight - kBottom + 18, fmt::format("{:g}", tick), kText,
                 SvgDrawing::Anchor::kMiddle);
  }
  for (const double tick : y.ticks()) {
    drawing.line(kLeft - 5, y.place(tick), kLeft, y.place(tick), grey);
    drawing.text(kLeft - 8, y.place(tick) + 4, fmt::format("{:g}", tick), kText, SvgDrawing::Anchor::kEnd);
  }
  drawing.text(kWidth - kRight, kHeight - 10, *pareto.find("cost_name")->get_if<std::string>(), kText,
               SvgDrawing::Anchor::kEnd);
  drawing.text(kLeft, kTop - 10, *pareto.find("value_name")->get_if<std::string>(), kText,
               SvgDrawing::Anchor::kMiddle);
}

}  // namespace

std::string front_drawing(const Table& pareto) {
  SvgDrawing drawing(kWidth, kHeight);
  const std::vector<Point> points = points_of(pareto);
  if (points.empty()) return drawing.to_text();
  const Axis x(points, &Point::cost, kLeft, kWidth - kRight);
  const Axis y(points, &Point::value, kHeight - kBottom, kTop);
  draw_axes(drawing, x, y, pareto);
  const Point* before = nullptr;
  for (const Point& point : points) {
    if (!point.on_front) continue;
    if (before != nullptr) {
      drawing.line(x.place(before->cost), y.place(before->value), x.place(point.cost), y.place(point.value),
                   "#4477aa");
    }
    before = &point;
  }
  for (const Point& point : points) {
    const double half = point.chosen ? 5 : 3.5;
    const char* const colour = point.chosen ? "#cc3311" : point.on_front ? "#4477aa" : "#bbbbbb";
    drawing.rectangle(x.place(point.cost) - half, y.place(point.value) - half, 2 * half, 2 * half, colour);
    const bool is_right = x.place(point.cost) > kWidth / 2;
    if (point.on_front)
      drawing.text(x.place(point.cost) + (is_right ? -8 : 8), y.place(point.value) - 6, point.name, kText - 2,
                   is_right ? SvgDrawing::Anchor::kEnd : SvgDrawing::Anchor::kStart);
  }
  return drawing.to_text();
}

}  // namespace detent
