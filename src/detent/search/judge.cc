#include "detent/search/judge.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/value_sizes.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/passes/analysis/output_gain.h"

namespace detent {
namespace {

constexpr int64_t kMicroBatch = 64;
constexpr int64_t kVariantBatch = 32;
constexpr int64_t kKeptBytes = int64_t{512} << 20;
/// Variants at once: each keeps a graph of its own.
constexpr int64_t kVariantBytes = int64_t{512} << 20;

/// Kullback-Leibler divergence of softmax(q) from softmax(p).
double divergence(std::span<const double> p, std::span<const double> q) {
  const auto log_sum = [](std::span<const double> x) {
    const double most = std::ranges::max(x);
    double sum = 0;
    for (const double value : x) sum += std::exp(value - most);
    return most + std::log(sum);
  };
  const double p_sum = log_sum(p);
  const double q_sum = log_sum(q);
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double log_p = p[i] - p_sum;
    total += std::exp(log_p) * (log_p - (q[i] - q_sum));
  }
  return std::max(total, 0.0);
}

bool all_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

enum class Probe { kLeast, kLargest, kRandom };

/// An input of floats with values of the range that `all` have; others stay.
Tensor probed_input(const Tensor& sample, const Tensor& all, Probe probe, std::mt19937& random) {
  if (sample.dtype() != DType::kFloat32 || sample.numel() == 0) return sample;
  constexpr double kDraws = 0x1p32;
  const auto [least, largest] = std::ranges::minmax(all.values<float>());
  Tensor result(DType::kFloat32, sample.shape());
  for (float& value : result.values<float>()) {
    const double share = static_cast<double>(random()) / kDraws;
    const auto between =
        static_cast<float>((1 - share) * static_cast<double>(least) + share * static_cast<double>(largest));
    value = probe == Probe::kLeast ? least : probe == Probe::kLargest ? largest : between;
  }
  return result;
}

std::span<const double> row_of(const std::vector<double>& values, size_t row, size_t length) {
  return std::span(values).subspan(row * length, length);
}

/// Sums of one process's micro-batches, as bytes for the others.
std::vector<std::byte> as_bytes(const std::vector<double>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

std::vector<double> output_numbers(const std::vector<std::byte>& bytes) {
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

}  // namespace

Judge::Judge(const Graph& network, const Executor& executor, JudgedSamples samples, int64_t count)
    : network_(network),
      executor_(executor),
      samples_(std::move(samples)),
      count_(std::min(count, samples_.inputs->size())),
      micro_batch_(
          fixed_samples(network).value_or(std::min(kMicroBatch, samples_within(network, kActivationBytes)))) {
  if (count_ == 0) fail("there are no samples to judge networks by");
  const std::optional<size_t> output = measured_output(network);
  if (!output) fail("graph \"{}\" has no output of floats: networks cannot be compared", network.name());
  output_ = *output;
  keep_inputs();
  const std::vector<Part> all = parts(count_, micro_batch_);
  std::vector<Tensor> results(all.size());
  const auto start = std::chrono::steady_clock::now();
  const std::unique_ptr<const Program> program = executor_.compile(network_);
  parallel_for(std::ssize(all), 1, [&](int64_t begin, int64_t) {
    const auto i = static_cast<size_t>(begin);
    results[i] = program->run(inputs(all[i])).at(output_).clone();
  });
  seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (results.front().numel() == 0)
    fail("graph \"{}\": its output is empty: networks cannot be compared", network_.name());
  classifies_ = is_classifier(results.front());
  for (size_t i = 0; i < all.size(); ++i) {
    const Tensor& result = results[i];
    const bool is_of_samples =
        results[0].numel() % all[0].end == 0 &&
        result.numel() * all[0].end == results[0].numel() * (all[i].end - all[i].begin);
    if (!is_of_samples)
      fail("graph \"{}\": the size of its output depends on the samples: networks cannot be compared",
           network_.name());
    const std::vector<double> values = compared_values(network_, output_, result);
    if (!all_finite(values))
      fail("graph \"{}\" gives NaN or infinities: networks cannot be compared with it", network_.name());
    expected_.insert(expected_.end(), values.begin(), values.end());
  }
  values_per_sample_ = expected_.size() / static_cast<size_t>(count_);
  for (size_t i = 0; i < all.size(); ++i) reference_.add(compare(all[i], results[i]));
  if (!reference_.is_finite())
    fail("graph \"{}\": outputs in float are NaN or infinite: networks cannot be compared", network.name());
  add_probes(*program);
}

void Judge::keep_inputs() {
  int64_t bytes = 0;
  const Part first{0, std::min(count_, micro_batch_)};
  for (const Tensor& input : samples_.inputs->inputs(first.begin, first.end))
    bytes += static_cast<int64_t>(input.byte_size());
  if (bytes / first.end * count_ > kKeptBytes) return;
  kept_ = samples_.inputs->inputs(0, count_);
}

/// Rows of the first samples, with other floats.
void Judge::add_probes(const Program& program) {
  const Part first{0, fixed_samples(network_).value_or(1)};
  if (first.end > count_) return;
  const std::vector<Tensor> samples = inputs(first);
  const std::vector<Tensor> all = kept_.empty() ? inputs({0, std::min(count_, micro_batch_)}) : kept_;
  std::mt19937 random;
  for (const Probe probe : {Probe::kLeast, Probe::kLargest, Probe::kRandom, Probe::kRandom}) {
    std::vector<Tensor> probed;
    for (size_t i = 0; i < samples.size(); ++i)
      probed.push_back(probed_input(samples[i], all[i], probe, random));
    try {
      if (all_finite(compared_values(network_, output_, program.run(probed).at(output_))))
        probes_.push_back(std::move(probed));
    } catch (const Error&) {  // no input of this network
    }
  }
}

std::vector<Judge::Part> Judge::parts(int64_t samples, int64_t size) const {
  std::vector<Part> parts;
  for (int64_t begin = 0; begin < std::min(samples, count_); begin += size)
    parts.push_back({begin, std::min({begin + size, samples, count_})});
  for (int64_t probe = 0; probe < std::ssize(probes_); ++probe)
    parts.push_back({count_ + probe, count_ + probe});
  return parts;
}

std::vector<Tensor> Judge::inputs(const Part& part) const {
  if (part.begin >= count_) return probes_[static_cast<size_t>(part.begin - count_)];
  if (kept_.empty()) return samples_.inputs->inputs(part.begin, part.end);
  std::vector<Tensor> rows;
  const std::vector<std::string> names = network_.input_names();
  for (size_t i = 0; i < kept_.size(); ++i) {
    const Tensor& tensor = kept_[i];
    rows.push_back(tensor.rank() == 0 ? tensor : tensor.rows(part.begin, part.end));
    // A network that takes a number takes one sample at a time.
    const bool is_number = network_.input_types().find(names[i])->second.shape.empty();
    if (is_number && rows.back().numel() == 1) rows.back() = rows.back().reshaped({});
  }
  return rows;
}

Quality Judge::compare(const Part& part, const Tensor& output) const {
  const std::vector<double> values = compared_values(network_, output_, output);
  Quality quality;
  quality.samples = part.end - part.begin;
  if (quality.samples == 0) {
    if (!all_finite(values)) quality.noise = std::numeric_limits<double>::infinity();
    return quality;
  }
  if (values.size() != values_per_sample_ * static_cast<size_t>(quality.samples)) {
    quality.noise = std::numeric_limits<double>::infinity();  // as where a comparison of values chooses rows
    return quality;
  }
  for (size_t i = 0; i < static_cast<size_t>(quality.samples); ++i) {
    const size_t sample = static_cast<size_t>(part.begin) + i;
    const auto expected = row_of(expected_, sample, values_per_sample_);
    const auto actual = row_of(values, i, values_per_sample_);
    const bool is_labelled = classifies_ && sample < samples_.labels.size() && samples_.labels[sample] >= 0;
    quality.labelled += is_labelled ? 1 : 0;
    for (const double value : expected) quality.signal += value * value;
    if (!all_finite(actual)) {
      quality.noise = std::numeric_limits<double>::infinity();
      continue;
    }
    for (size_t k = 0; k < values_per_sample_; ++k)
      quality.noise += (expected[k] - actual[k]) * (expected[k] - actual[k]);
    if (!classifies_) continue;
    quality.divergence += divergence(expected, actual);
    const auto best = std::ranges::max_element(actual) - actual.begin();
    quality.correct += is_labelled && best == samples_.labels[sample] ? 1 : 0;
  }
  return quality;
}

std::optional<Quality> Judge::judge(const Graph& candidate, int64_t samples, const Stop& stop) const {
  const std::vector<Part> all = parts(samples, micro_batch_);
  std::vector<std::optional<Quality>> qualities(all.size());
  const std::unique_ptr<const Program> program = executor_.compile(candidate);
  parallel_for(std::ssize(all), 1, [&](int64_t begin, int64_t) {
    const auto i = static_cast<size_t>(begin);
    if (!stop()) qualities[i] = compare(all[i], program->run(inputs(all[i])).at(output_));
  });
  Quality sum;
  for (const std::optional<Quality>& quality : qualities) {
    if (!quality) return std::nullopt;
    sum.add(*quality);
  }
  return sum;
}

size_t Judge::family_size() const {
  return static_cast<size_t>(std::max<int64_t>(4, kVariantBytes / (1 + parameter_bytes(network_))));
}

std::optional<std::vector<Quality>> Judge::judge_family(const Graph& base,
                                                        const std::vector<Variant>& variants, int64_t samples,
                                                        const Stop& stop, ProcessGroup& group) const {
  const std::vector<Part> all = parts(samples, std::min(kVariantBatch, micro_batch_));
  const std::unique_ptr<const Program> program = executor_.compile(base);
  VariantRuns runs(base, output_);
  for (const Variant& variant : variants) runs.add(variant);
  std::vector<std::vector<double>> own(
      all.size());  // by micro-batch: the base's numbers, then each variant's
  const auto worker = static_cast<int64_t>(group.rank());
  parallel_for(std::ssize(all), 1, [&](int64_t begin, int64_t) {
    const auto i = static_cast<size_t>(begin);
    if (begin % group.size() != worker || stop()) return;
    std::vector<Quality> qualities(variants.size() + 1);
    const Tensor result = runs.run(
        inputs(all[i]), *program, executor_,
        [&](size_t variant, const Tensor& output) { qualities[variant + 1] = compare(all[i], output); });
    qualities[0] = compare(all[i], result);
    for (const Quality& quality : qualities) {
      DETENT_CHECK(quality.samples == all[i].end - all[i].begin, "a variant did not run");
      const std::vector<double> numbers = quality.to_numbers();
      own[i].insert(own[i].end(), numbers.begin(), numbers.end());
    }
  });
  std::vector<Quality> sums(variants.size() + 1);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto given = group.all_gather(as_bytes(own[i]));
    const std::vector<double> numbers = output_numbers(given[i % static_cast<size_t>(group.size())]);
    if (numbers.empty()) return std::nullopt;
    const std::ptrdiff_t each = std::ssize(numbers) / std::ssize(sums);
    for (size_t v = 0; v < sums.size(); ++v) {
      const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(v) * each;
      sums[v].add(Quality::from_numbers({begin, begin + each}, "a worker"));
    }
  }
  return sums;
}

std::optional<std::vector<double>> Judge::judge_variants(const Graph& base,
                                                         const std::vector<Variant>& variants,
                                                         QualityKind kind, int64_t samples, const Stop& stop,
                                                         ProcessGroup& group) const {
  const size_t most = family_size();
  const double signal_per_sample = reference_.signal / static_cast<double>(reference_.samples);
  const auto loss = [&](Quality quality) {
    if (kind != QualityKind::kSqnr) return quality.distortion();
    quality.signal = signal_per_sample * static_cast<double>(quality.samples);
    return quality.loss(kind);
  };
  std::vector<double> losses;
  for (size_t first = 0; first == 0 || first < variants.size(); first += most) {
    const std::vector<Variant> some(
        variants.begin() + static_cast<std::ptrdiff_t>(first),
        variants.begin() + static_cast<std::ptrdiff_t>(std::min(first + most, variants.size())));
    const auto qualities = judge_family(base, some, samples, stop, group);
    if (!qualities) return std::nullopt;
    if (first == 0) losses.push_back(loss(qualities->front()));
    for (size_t v = 1; v < qualities->size(); ++v) losses.push_back(loss((*qualities)[v]));
  }
  return losses;
}

}  // namespace detent
