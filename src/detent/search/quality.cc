#include "detent/search/quality.h"

#include <cmath>
#include <limits>

#include "detent/core/error.h"

namespace detent {

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

double Quality::sqnr_db() const {
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

double Quality::distortion() const {
  if (samples == 0) return 0;
  return divergence > 0 ? divergence / static_cast<double>(samples) : loss(QualityKind::kSqnr);
}

double Quality::loss(QualityKind kind) const {
  DETENT_CHECK(kind != QualityKind::kAuto, "which quality is open");
  const double share = signal > 0 ? noise / signal : noise;
  if (kind == QualityKind::kSqnr) return share;
  const double rest = divergence > 0 ? divergence / static_cast<double>(samples) : share;
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

Quality Quality::from_numbers(const std::vector<double>& numbers) {
  DETENT_CHECK(numbers.size() == 6, "{} numbers", numbers.size());
  return {static_cast<int64_t>(numbers[0]),
          static_cast<int64_t>(numbers[1]),
          static_cast<int64_t>(numbers[2]),
          numbers[3],
          numbers[4],
          numbers[5]};
}

}  // namespace detent
