#include "detent/workflows/format_perplexities.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "detent/core/log.h"
#include "detent/core/progress.h"
#include "detent/engine/fast_executor.h"
#include "detent/language/decoder.h"
#include "detent/language/perplexity.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/static_quantize.h"
#include "detent/report/page.h"

namespace detent {
namespace {

constexpr int64_t kCalibrationWindows = 8;
constexpr int64_t kCalibrationTokens = 128;

/// Short windows of a text, all of which is seen.
class TextWindows final : public CalibrationSet {
 public:
  /// Windows from the token `first` on, as far as there are some, else the last ones.
  TextWindows(std::span<const int64_t> tokens, int64_t first)
      : length_(std::min<int64_t>(kCalibrationTokens, std::ssize(tokens))),
        count_(std::min(kCalibrationWindows, std::ssize(tokens) / length_)) {
    const int64_t needed = count_ * length_;
    first_ = std::min(first, std::ssize(tokens) - needed);
    tokens_ = tokens.subspan(static_cast<size_t>(first_), static_cast<size_t>(needed));
  }

  int64_t size() const override { return count_; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    const auto from = static_cast<size_t>(begin * length_);
    Tensor mask(DType::kInt64, {end - begin, length_});
    std::ranges::fill(mask.values<int64_t>(), 1);
    return {Tensor::from<int64_t>({end - begin, length_},
                                  tokens_.subspan(from, static_cast<size_t>(end * length_) - from)),
            std::move(mask)};
  }
  uint64_t fingerprint() const override { return static_cast<uint64_t>(first_); }

 private:
  int64_t length_;
  int64_t count_;
  int64_t first_ = 0;
  std::span<const int64_t> tokens_;
};

TokenScores scores_of(Graph graph, const std::string& name, std::span<const int64_t> tokens,
                      const std::vector<TokenWindow>& windows, const PerplexityOptions& options) {
  const Decoder decoder(std::move(graph));
  Progress progress(name + ", windows", std::ssize(windows));
  const auto seen = [&](int64_t done, const TokenScores& scores) {
    progress.update(done, fmt::format("perplexity {:.4f}", scores.perplexity()));
  };
  TokenScores scores = score_tokens(logits_of(decoder, options.window), {}, tokens, windows, options, seen);
  progress.finish();
  return scores;
}

Graph quantized(const Graph& network, const FormatPair& pair, PassContext& context) {
  StaticQuantizeOptions options;
  options.weights = pair.weights;
  options.activations = pair.activations;
  options.num_samples = kCalibrationWindows;
  options.report = false;
  options.check(context.where);
  const MeasuredNetwork measured = measured_for(network, options, context);
  return quantized_for_integers(network, measured, options, context).graph;
}

}  // namespace

FormatPair parse_format_pair(const std::string& text, const std::string& where) {
  const size_t slash = text.find('/');
  const std::string weights = text.substr(0, slash);
  const std::string activations = slash == std::string::npos ? weights : text.substr(slash + 1);
  return {text, OperandFormat::parse(weights, where), OperandFormat::parse(activations, where)};
}

std::vector<FormatPerplexity> format_perplexities(const Graph& network, std::span<const FormatPair> formats,
                                                  std::span<const int64_t> tokens,
                                                  const PerplexityOptions& options, const std::string& where,
                                                  const std::function<void(const FormatPerplexity&)>& seen) {
  const std::vector<TokenWindow> windows = token_windows(options, std::ssize(tokens));
  FastExecutor executor;
  PassContext context;
  context.report = [](const std::string&) {};
  context.warn = [](const std::string& text) { log_warning("{}", text); };
  context.executor = [&]() -> Executor& { return executor; };
  context.where = where;
  context.open_calibration = [&] { return std::make_unique<TextWindows>(tokens, windows.back().end); };
  std::vector<FormatPerplexity> found;
  const auto add = [&](FormatPerplexity one) {
    found.push_back(std::move(one));
    seen(found.back());
  };
  add({"float", 32, 32, scores_of(network, "float", tokens, windows, options)});
  for (const FormatPair& pair : formats) {
    Graph graph = quantized(network, pair, context);
    add({pair.text, pair.weights.bits(), pair.activations.bits(),
         scores_of(std::move(graph), pair.text, tokens, windows, options)});
  }
  return found;
}

TextTable format_perplexities_table(std::span<const FormatPerplexity> found) {
  TextTable table(
      {"format", "bits a weight", "bits an activation", "perplexity", "standard error", "of float"});
  for (const FormatPerplexity& one : found) {
    const double perplexity = one.scores.perplexity();
    table.add_row({one.format, fmt::format("{:.2f}", one.weight_bits),
                   fmt::format("{:.2f}", one.activation_bits), fmt::format("{:.4f}", perplexity),
                   fmt::format("{:.4f}", one.scores.perplexity_error()),
                   fmt::format("{:.4f}", perplexity / found.front().scores.perplexity())});
  }
  return table;
}

Table format_perplexities_value(std::span<const FormatPerplexity> found, const PerplexityOptions& options) {
  return {{"formats", table_value(format_perplexities_table(found))},
          {"scored_tokens", std::ssize(found.front().scores.losses)},
          {"window", options.window}};
}

}  // namespace detent
