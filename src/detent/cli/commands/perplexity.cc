#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/language_model.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/task_file.h"
#include "detent/core/processors.h"
#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/progress.h"
#include "detent/io/file.h"
#include "detent/io/npy.h"
#include "detent/io/output_path.h"
#include "detent/language/decoder_logits.h"
#include "detent/language/multiple_choice.h"
#include "detent/language/perplexity.h"

namespace detent {
namespace {

struct PerplexityArguments {
  std::string model;
  std::string text;
  std::string ids;
  std::string task;
  std::string tokenizer;
  std::string protocol = "windows";
  PerplexityOptions options;
  std::string reference;
  std::string reference_logits;
  std::string logits_file;
  std::string losses_file;
  bool overwrite = false;
};

PerplexityProtocol parse_protocol(const std::string& text) {
  const std::vector<std::string> known = {"windows", "halves"};
  if (text == known[0]) return PerplexityProtocol::kWindows;
  if (text == known[1]) return PerplexityProtocol::kHalves;
  throw UsageError("--protocol: " + unknown_name_message("protocol", text, known));
}

void check_arguments(PerplexityArguments& arguments) {
  const int inputs =
      (arguments.text.empty() ? 0 : 1) + (arguments.ids.empty() ? 0 : 1) + (arguments.task.empty() ? 0 : 1);
  if (inputs != 1) {
    throw UsageError("`detent perplexity` needs one of --text FILE, --ids FILE.npy and --task FILE.jsonl");
  }
  const bool keeps =
      !arguments.reference_logits.empty() || !arguments.logits_file.empty() || !arguments.losses_file.empty();
  if (!arguments.task.empty() && keeps) {
    throw UsageError("--task has no losses or logits to keep: --reference MODEL compares");
  }
  if (!arguments.reference.empty() && !arguments.reference_logits.empty()) {
    throw UsageError("--reference and --reference-logits exclude each other");
  }
  arguments.options.protocol = parse_protocol(arguments.protocol);
  const auto at_least = [](const char* option, int64_t value, int64_t least) {
    if (value < least)
      throw UsageError(fmt::format("{}: got {}, expected at least {}", option, value, least));
  };
  at_least("--window", arguments.options.window, 2);
  at_least("--stride", arguments.options.stride, 0);
  at_least("--windows", arguments.options.windows, 0);
  if (arguments.options.stride > 0 && arguments.options.protocol == PerplexityProtocol::kHalves) {
    throw UsageError("--stride: windows of the protocol halves stand one behind the other");
  }
  if (arguments.options.stride > arguments.options.window) {
    throw UsageError(fmt::format("--stride: got {}, expected at most the window, {}",
                                 arguments.options.stride, arguments.options.window));
  }
  if (!arguments.logits_file.empty())
    claim_output(arguments.logits_file, "--save-logits", arguments.overwrite);
  if (!arguments.losses_file.empty()) claim_output(arguments.losses_file, "--losses", arguments.overwrite);
}

std::vector<int64_t> read_ids(const std::string& path) {
  const Tensor array = read_npy(path);
  if (is_floating_point(array.dtype()) || array.dtype() == DType::kBool) {
    fail("{}: an array of {}, expected integers: ids of tokens", path, dtype_name(array.dtype()));
  }
  const Tensor ids = to_dtype(array, DType::kInt64);
  const auto values = ids.values<int64_t>();
  return {values.begin(), values.end()};
}

/// What the tokenizer puts in front of texts, if that is what begins a sequence.
std::optional<int64_t> begin_of_text(const Tokenizer& tokenizer) {
  const std::vector<int64_t> around = tokenizer.encode("");
  const std::optional<int64_t> begin = tokenizer.special_tokens().begin_of_sequence;
  return !around.empty() && begin == around.front() ? begin : std::nullopt;
}

/// The whole text at once, with what the tokenizer puts around a text.
std::vector<int64_t> read_tokens(PerplexityArguments& arguments) {
  std::optional<Tokenizer> tokenizer;
  const bool needs_begin = arguments.options.protocol == PerplexityProtocol::kHalves;
  if (!arguments.text.empty() || needs_begin) {
    tokenizer = find_tokenizer(arguments.tokenizer.empty() ? arguments.model : arguments.tokenizer);
  }
  if (arguments.text.empty()) {
    if (tokenizer) arguments.options.begin_of_sequence = begin_of_text(*tokenizer);
    return read_ids(arguments.ids);
  }
  if (!tokenizer) {
    fail("{}: no tokenizer comes with it: --tokenizer names one, or --ids gives the text as ids of tokens",
         arguments.model);
  }
  arguments.options.begin_of_sequence = begin_of_text(*tokenizer);
  return tokenizer->encode(read_file(arguments.text));
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

std::string comparison_text(const TokenScores& scores) {
  const auto count = static_cast<double>(scores.losses.size());
  const double reference = ordered_mean(scores.reference_losses);
  return fmt::format(
      "reference: perplexity {:.6f}, mean loss {:.6f}\n"
      "KL divergence: mean {:.6g}, median {:.6g}, 99 % {:.6g}, largest {:.6g}\n"
      "most likely token: {:.4f} % agree; {:.4f} % of the answers changed\n",
      perplexity_of(reference), reference, ordered_mean(scores.divergences),
      quantile(scores.divergences, 0.5), quantile(scores.divergences, 0.99), quantile(scores.divergences, 1),
      100 * static_cast<double>(scores.agreements) / count,
      100 * static_cast<double>(scores.changed) / count);
}

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

void show(const PerplexityArguments& arguments, const TokenScores& scores, int64_t tokens, int64_t windows,
          CommandResults& results) {
  const auto count = static_cast<int64_t>(scores.losses.size());
  const double accuracy = static_cast<double>(scores.hits) / static_cast<double>(count);
  results.say(
      fmt::format("perplexity: {:.6f} (standard error {:.6f})\nmean loss: {:.6f}\nscored: {} tokens in {} "
                  "windows of {}, of a text "
                  "of {} tokens\nmost likely token right: {:.4f} %\n",
                  scores.perplexity(), scores.perplexity_error(), scores.mean_loss(), count, windows,
                  arguments.options.window, tokens, 100 * accuracy));
  results.add("perplexity", scores.perplexity());
  results.add("perplexity_error", scores.perplexity_error());
  results.add("mean_loss", scores.mean_loss());
  results.add("top_accuracy", accuracy);
  results.add("scored_tokens", count);
  results.add("text_tokens", tokens);
  results.add("windows", Table{{"protocol", arguments.protocol},
                               {"count", windows},
                               {"tokens", arguments.options.window},
                               {"stride", arguments.options.stride == 0 ? arguments.options.window
                                                                        : arguments.options.stride}});
  if (scores.divergences.empty()) return;
  results.say(comparison_text(scores));
  results.add("reference", comparison_value(scores));
}

void show_task(const AnswerScores& scores, bool has_reference, CommandResults& results) {
  const double accuracy = scores.accuracy();
  const double error = std::sqrt(accuracy * (1 - accuracy) / static_cast<double>(scores.questions));
  results.say(fmt::format(
      "right answers: {:.4f} % of {} questions (standard error {:.4f} %)\nby likelihood per byte: {:.4f} %\n",
      100 * accuracy, scores.questions, 100 * error, 100 * scores.accuracy_per_byte()));
  Table task{{"questions", scores.questions},
             {"accuracy", accuracy},
             {"standard_error", error},
             {"accuracy_per_byte", scores.accuracy_per_byte()}};
  if (has_reference) {
    results.say(fmt::format("reference: {:.4f} % right; {:.4f} % agree; {:.4f} % of the answers changed\n",
                            100 * scores.share(scores.reference_right), 100 * scores.share(scores.agreements),
                            100 * scores.share(scores.changed)));
    task["reference"] = Table{{"accuracy", scores.share(scores.reference_right)},
                              {"agreement", scores.share(scores.agreements)},
                              {"changed_answers", scores.share(scores.changed)}};
  }
  results.add("task", std::move(task));
}

void measure_task(const PerplexityArguments& arguments, CommandResults& results) {
  const std::optional<Tokenizer> tokenizer =
      find_tokenizer(arguments.tokenizer.empty() ? arguments.model : arguments.tokenizer);
  const std::vector<Question> questions = read_questions(arguments.task, tokenizer ? &*tokenizer : nullptr);
  const Decoder decoder = read_decoder(arguments.model);
  std::optional<Decoder> other;
  LogitsOf reference;
  if (!arguments.reference.empty()) reference = logits_of(other.emplace(read_decoder(arguments.reference)));
  Progress progress("answering, questions", std::ssize(questions));
  const auto seen = [&](const AnswerScores& scores) {
    progress.update(scores.questions, fmt::format("{:.2f} % right", 100 * scores.accuracy()));
  };
  const AnswerScores scores = answer_questions(logits_of(decoder), reference, questions, seen);
  progress.finish();
  show_task(scores, static_cast<bool>(reference), results);
}

void measure_perplexity(PerplexityArguments& arguments, CommandResults& results) {
  const std::vector<int64_t> tokens = read_tokens(arguments);
  const std::vector<TokenWindow> windows = token_windows(arguments.options, std::ssize(tokens));
  const Decoder decoder = read_decoder(arguments.model);
  std::optional<Decoder> other;
  LogitsOf reference;
  if (!arguments.reference.empty()) reference = logits_of(other.emplace(read_decoder(arguments.reference)));
  if (!arguments.reference_logits.empty()) {
    reference = kept_logits(read_npy(arguments.reference_logits), windows, arguments.reference_logits);
  }
  LogitsFile logits(arguments.logits_file, windows, decoder.vocabulary());
  Progress progress("scoring, windows", std::ssize(windows));
  const auto seen = [&](int64_t done, const TokenScores& scores) {
    progress.update(done, fmt::format("perplexity {:.4f}", scores.perplexity()));
  };
  const TokenScores scores =
      score_tokens(logits_of(decoder), reference, tokens, windows, arguments.options, seen, logits.sink());
  progress.finish();
  logits.commit();
  if (!arguments.losses_file.empty()) {
    write_npy(arguments.losses_file, Tensor::from<double>({std::ssize(scores.losses)}, scores.losses));
  }
  show(arguments, scores, std::ssize(tokens), std::ssize(windows), results);
}

void add_perplexity_options(CLI::App& app, PerplexityArguments& arguments) {
  app.add_option("model", arguments.model,
                 "a language model: a folder of Hugging Face, a GGUF file, or a graph (.mz) of either")
      ->required()
      ->option_text(" ");
  app.add_option("--text", arguments.text, "the text, in UTF-8")->option_text("FILE");
  app.add_option("--ids", arguments.ids,
                 "the text as ids of tokens, .npy of integers: no tokenizer is needed")
      ->option_text("FILE");
  app.add_option(
         "--task", arguments.task,
         "instead of a text, questions of several choices, a JSON object a line: context, choices, answer "
         "(docs/language_models.md)")
      ->option_text("FILE");
  app.add_option("--tokenizer", arguments.tokenizer,
                 "folder with tokenizer.json or tokenizer.model, or a GGUF file; default: the model's")
      ->option_text("PATH");
  app.add_option(
         "--protocol", arguments.protocol,
         "windows: all of each window but its first token (GPTQ); halves: the second half of each, behind "
         "the token that begins a sequence (llama.cpp)")
      ->capture_default_str();
  app.add_option("--window", arguments.options.window, "tokens of a window")->capture_default_str();
  app.add_option(
      "--stride", arguments.options.stride,
      "from the begin of a window to that of the next, of which then only new tokens are scored; default: "
      "the window");
  app.add_option("--windows", arguments.options.windows, "at most so many; default: all that the text fills");
  app.add_option("--reference", arguments.reference,
                 "another language model to compare with: KL divergence, agreement, changed answers")
      ->option_text("MODEL");
  app.add_option("--reference-logits", arguments.reference_logits,
                 "the same of logits that --save-logits wrote")
      ->option_text("FILE");
  app.add_option("--save-logits", arguments.logits_file,
                 "write the logits of the scored tokens, float32 [tokens, vocabulary], .npy")
      ->option_text("FILE");
  app.add_option("--losses", arguments.losses_file, "write the loss of each scored token, float64, .npy")
      ->option_text("FILE");
  add_overwrite_option(app, arguments.overwrite);
}

}  // namespace

int run_perplexity(const std::vector<std::string>& args) {
  CLI::App app(
      "Measure how well a language model predicts a text: perplexity, and how far its predictions are from "
      "another's. "
      "The results do not depend on the number of threads.",
      "detent perplexity");
  PerplexityArguments arguments;
  ResultOptions result_options;
  add_perplexity_options(app, arguments);
  const OptionField& threads = option_field("num_threads");
  std::string thread_text;
  app.add_option(threads.flag, thread_text, threads.help)->option_text("VALUE");
  add_result_options(app, result_options);
  if (!parse_arguments(app, args)) return 0;
  check_arguments(arguments);
  if (!thread_text.empty()) {
    RunOptions options;
    set_flag(options, threads.name, threads.parse(thread_text));
    if (options.num_threads) set_thread_count(usable_thread_count(*options.num_threads));
  }
  CommandResults results("perplexity", result_options);
  if (arguments.task.empty()) {
    measure_perplexity(arguments, results);
  } else {
    measure_task(arguments, results);
  }
  results.finish();
  return 0;
}

}  // namespace detent
