#include "detent/search/quality.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/formats/measure/distortion.h"

namespace detent {
namespace {

/// Losses above this, noise that is not finite among them, count as this: of use is neither.
constexpr double kLost = 1e6;

/// A number that a file may hold.
int64_t count_of(double number, const std::string& where) {
  constexpr double kMost = 0x1p53;
  if (!(number >= 0 && number <= kMost)) fail("{}: got {}, expected a number of samples", where, number);
  return static_cast<int64_t>(number);
}

}  // namespace

bool Quality::is_finite() const { return std::isfinite(noise) && std::isfinite(divergence); }

void Quality::add(const Quality& part) {
  samples += part.samples;
  labelled += part.labelled;
  correct += part.correct;
  signal += part.signal;
  noise += part.noise;
  divergence += part.divergence;
}

double Quality::accuracy() const {
  return labelled == 0 ? 0 : static_cast<double>(correct) / static_cast<double>(labelled);
}

double Quality::sqnr_db() const { return detent::sqnr_db(signal, noise); }

double Quality::distortion() const {
  if (samples == 0) return 0;
  return divergence > 0 ? std::min(divergence / static_cast<double>(samples), kLost)
                        : loss(QualityKind::kSqnr);
}

double Quality::loss(QualityKind kind) const {
  DETENT_CHECK(kind != QualityKind::kAuto, "which quality is open");
  const double share = std::min(signal > 0 ? noise / signal : noise, kLost);
  if (kind == QualityKind::kSqnr) return share;
  const double rest = divergence > 0 ? distortion() : share;
  return static_cast<double>(labelled - correct) + rest / (1 + rest);
}

std::vector<double> Quality::to_numbers() const {
  return {static_cast<double>(samples),
          static_cast<double>(labelled),
          static_cast<double>(correct),
          signal,
          noise,
          divergence};
}

Quality Quality::from_numbers(const std::vector<double>& numbers, const std::string& where) {
  DETENT_CHECK(numbers.size() == 6, "{} numbers", numbers.size());
  return {.samples = count_of(numbers[0], where),
          .labelled = count_of(numbers[1], where),
          .correct = count_of(numbers[2], where),
          .signal = numbers[3],
          .noise = numbers[4],
          .divergence = numbers[5]};
}

}  // namespace detent
