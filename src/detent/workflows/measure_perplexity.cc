#include "detent/workflows/measure_perplexity.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include <fmt/format.h>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/files/array_files.h"
#include "detent/language/perplexity.h"
#include "detent/workflows/resource_use.h"

namespace detent {
namespace {

const std::vector<std::string>& protocol_names() {
  static const std::vector<std::string> names = {"windows", "halves"};
  return names;
}

/// The logits of scored tokens, written one by one.
class LogitsFile {
 public:
  LogitsFile(const std::string& path, const std::vector<TokenWindow>& windows, int64_t vocabulary) {
    if (path.empty()) return;
    writer_.emplace(path, DType::kFloat32, Shape{scored_tokens(windows), vocabulary});
  }
  std::function<void(std::span<const float>)> sink() {
    if (!writer_) return {};
    return [this](std::span<const float> row) {
      writer_->append(Tensor::from<float>({1, std::ssize(row)}, row));
    };
  }
  void commit() {
    if (writer_) writer_->commit();
  }

 private:
  std::optional<NpyWriter> writer_;
};

Table comparison_value(const TokenScores& scores) {
  const auto count = static_cast<double>(scores.losses.size());
  const double reference = ordered_mean(scores.reference_losses);
  return Table{{"perplexity", perplexity_of(reference)},
               {"mean_loss", reference},
               {"kl_mean", ordered_mean(scores.divergences)},
               {"kl_median", quantile(scores.divergences, 0.5)},
               {"kl_99_percent", quantile(scores.divergences, 0.99)},
               {"kl_largest", quantile(scores.divergences, 1)},
               {"top_agreement", static_cast<double>(scores.agreements) / count},
               {"changed_answers", static_cast<double>(scores.changed) / count}};
}

}  // namespace

PerplexityProtocol perplexity_protocol(const std::string& name) {
  if (name == protocol_names()[0]) return PerplexityProtocol::kWindows;
  if (name == protocol_names()[1]) return PerplexityProtocol::kHalves;
  throw UsageError("--protocol: " + unknown_name_message("protocol", name, protocol_names()));
}

void check_perplexity_options(const PerplexityOptions& options) {
  const auto at_least = [](const char* option, int64_t value, int64_t least) {
    if (value < least)
      throw UsageError(fmt::format("{}: got {}, expected at least {}", option, value, least));
  };
  at_least("--window", options.window, 2);
  at_least("--stride", options.stride, 0);
  at_least("--windows", options.windows, 0);
  if (options.stride > 0 && options.protocol == PerplexityProtocol::kHalves)
    throw UsageError("--stride: windows of the protocol halves stand one after the other");
  if (options.stride > options.window)
    throw UsageError(
        fmt::format("--stride: got {}, expected at most the window, {}", options.stride, options.window));
}

std::optional<int64_t> begin_of_text(const Tokenizer& tokenizer) {
  const std::vector<int64_t> around = tokenizer.encode("");
  const std::optional<int64_t> begin = tokenizer.special_tokens().begin_of_sequence;
  return !around.empty() && begin == around.front() ? begin : std::nullopt;
}

std::vector<int64_t> token_ids(const Tensor& array, const std::string& name) {
  if (is_floating_point(array.dtype()) || array.dtype() == DType::kBool)
    fail("{}: an array of {}, expected integers: ids of tokens", name, dtype_name(array.dtype()));
  const Tensor ids = to_dtype(array, DType::kInt64);
  const auto values = ids.values<int64_t>();
  return {values.begin(), values.end()};
}

PerplexityResult measure_perplexity(const Decoder& network, std::span<const int64_t> tokens,
                                    const PerplexityOptions& options, const PerplexityReference& reference,
                                    const PerplexityFiles& files) {
  const std::vector<TokenWindow> windows = token_windows(options, std::ssize(tokens));
  LogitsOf compared;
  if (reference.network != nullptr) compared = logits_of(*reference.network);
  if (reference.logits) compared = kept_logits(*reference.logits, windows, reference.logits_name);
  announce_length(network, options.window, options.window);
  announce_memory(network, {.tokens = options.window,
                            .at_once = std::min(options.window, piece_of_logits(network)),
                            .all_logits = true});
  LogitsFile logits(files.logits, windows, network.vocabulary());
  Progress progress("scoring, windows", std::ssize(windows));
  const auto seen = [&](int64_t done, const TokenScores& scores) {
    progress.update(done, fmt::format("perplexity {:.4f}", scores.perplexity()));
  };
  PerplexityResult result;
  result.scores = score_tokens(logits_of(network), compared, tokens, windows, options, seen, logits.sink());
  progress.finish();
  logits.commit();
  if (!files.losses.empty()) {
    const std::vector<double>& losses = result.scores.losses;
    write_npy(files.losses, Tensor::from<double>({std::ssize(losses)}, losses));
  }
  result.text_tokens = std::ssize(tokens);
  result.windows = std::ssize(windows);
  return result;
}

AnswerScores measure_answers(const Decoder& network, const Decoder* reference,
                             std::span<const Question> questions) {
  LogitsOf compared;
  if (reference != nullptr) compared = logits_of(*reference);
  Progress progress("answering, questions", std::ssize(questions));
  const auto seen = [&](const AnswerScores& scores) {
    progress.update(scores.questions, fmt::format("{:.2f} % right", 100 * scores.accuracy()));
  };
  return answer_questions(logits_of(network), compared, questions, seen);
}

Table perplexity_value(const PerplexityResult& result, const PerplexityOptions& options) {
  const TokenScores& scores = result.scores;
  const auto count = static_cast<int64_t>(scores.losses.size());
  const bool is_halves = options.protocol == PerplexityProtocol::kHalves;
  Table value{{"perplexity", scores.perplexity()},
              {"perplexity_error", scores.perplexity_error()},
              {"mean_loss", scores.mean_loss()},
              {"top_accuracy", static_cast<double>(scores.hits) / static_cast<double>(count)},
              {"scored_tokens", count},
              {"text_tokens", result.text_tokens},
              {"windows", Table{{"protocol", protocol_names()[is_halves ? 1 : 0]},
                                {"count", result.windows},
                                {"tokens", options.window},
                                {"stride", options.stride == 0 ? options.window : options.stride}}}};
  if (!scores.divergences.empty()) value["reference"] = comparison_value(scores);
  return value;
}

double answers_error(const AnswerScores& scores) {
  const double accuracy = scores.accuracy();
  return std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(scores.questions));
}

Table answers_value(const AnswerScores& scores, bool has_reference) {
  Table value{{"questions", scores.questions},
              {"accuracy", scores.accuracy()},
              {"standard_error", answers_error(scores)},
              {"accuracy_per_byte", scores.accuracy_per_byte()}};
  if (has_reference)
    value["reference"] = Table{{"accuracy", scores.share(scores.reference_right)},
                               {"agreement", scores.share(scores.agreements)},
                               {"changed_answers", scores.share(scores.changed)}};
  return value;
}

}  // namespace detent
