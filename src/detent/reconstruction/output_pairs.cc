#include "detent/reconstruction/output_pairs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/core/error.h"

namespace detent {
namespace {

double clamped(double value, const Clamp& clamp) { return std::min(std::max(value, clamp.low), clamp.high); }

}  // namespace

void OutputPairs::add(const Tensor& wanted, const Tensor& got, size_t channel_axis) {
  DETENT_CHECK(wanted.shape() == got.shape(), "{} and {}", shape_text(wanted.shape()),
               shape_text(got.shape()));
  const Shape& shape = wanted.shape();
  const auto axis = shape.begin() + static_cast<int64_t>(channel_axis);
  channels_ = *axis;
  const int64_t outer = element_count({shape.begin(), axis});
  const int64_t inner = element_count({axis + 1, shape.end()});
  const float* from = wanted.values<float>().data();
  const float* of = got.values<float>().data();
  for (int64_t n = 0; n < outer; ++n) {
    for (int64_t i = 0; i < inner; ++i) {
      if (seen_++ % step_ != 0) continue;
      for (int64_t c = 0; c < channels_; ++c) {
        wanted_.push_back(from[(n * channels_ + c) * inner + i]);
        got_.push_back(of[(n * channels_ + c) * inner + i]);
      }
      if (2 * std::ssize(wanted_) > most_numbers_ && positions() > 1) halve();
    }
  }
}

void OutputPairs::halve() {
  const int64_t kept = (positions() + 1) / 2;
  for (int64_t p = 1; p < kept; ++p) {
    for (std::vector<float>* values : {&wanted_, &got_}) {
      const auto source = values->begin() + 2 * p * channels_;
      std::copy(source, source + channels_, values->begin() + p * channels_);
    }
  }
  wanted_.resize(static_cast<size_t>(kept * channels_));
  got_.resize(static_cast<size_t>(kept * channels_));
  step_ *= 2;
}

double OutputPairs::error(int64_t channel, const Clamp& clamp, double shift) const {
  double sum = 0;
  for (auto at = static_cast<size_t>(channel); at < wanted_.size(); at += static_cast<size_t>(channels_)) {
    const double difference = clamped(static_cast<double>(wanted_[at]), clamp) -
                              clamped(static_cast<double>(got_[at]) + shift, clamp);
    sum += difference * difference;
  }
  return sum;
}

double OutputPairs::next(int64_t channel, const Clamp& clamp, double shift) const {
  double sum = 0;
  int64_t count = 0;
  for (auto at = static_cast<size_t>(channel); at < wanted_.size(); at += static_cast<size_t>(channels_)) {
    const double value = static_cast<double>(got_[at]) + shift;
    if (!(value > clamp.low && value < clamp.high)) continue;
    sum += clamped(static_cast<double>(wanted_[at]), clamp) - static_cast<double>(got_[at]);
    ++count;
  }
  return count == 0 ? shift : sum / static_cast<double>(count);
}

double OutputPairs::shift(int64_t channel, const Clamp& clamp) const {
  constexpr int kMostSteps = 16;
  const Clamp none;
  double best = 0;
  double least = error(channel, clamp, 0);
  for (const double start : {0.0, next(channel, none, 0)}) {
    double shift = start;
    double before = std::numeric_limits<double>::infinity();
    for (int step = 0; step < kMostSteps; ++step) {
      const double now = error(channel, clamp, shift);
      if (now < least) {
        least = now;
        best = shift;
      }
      if (!(now < before)) break;
      before = now;
      shift = next(channel, clamp, shift);
    }
  }
  return best;
}

}  // namespace detent
