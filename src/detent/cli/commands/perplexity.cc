#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/language_model.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/language/multiple_choice.h"
#include "detent/language/perplexity.h"
#include "detent/workflows/format_perplexities.h"
#include "detent/workflows/measure_perplexity.h"

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
  std::vector<std::string> formats;
  std::string cache_format;
  bool overwrite = false;
};

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
  if (!arguments.formats.empty() && (keeps || !arguments.task.empty() || !arguments.reference.empty())) {
    throw UsageError(
        "--formats takes the place of a reference, of a task and of what is kept: it compares with the "
        "network "
        "as it is");
  }
  if (!arguments.formats.empty() && !arguments.cache_format.empty())
    throw UsageError("--formats and --cache-format exclude each other");
  static_cast<void>(cache_format_option(arguments.cache_format));
  if (!arguments.reference.empty() && !arguments.reference_logits.empty()) {
    throw UsageError("--reference and --reference-logits exclude each other");
  }
  arguments.options.protocol = perplexity_protocol(arguments.protocol);
  check_perplexity_options(arguments.options);
  if (!arguments.logits_file.empty())
    claim_output(arguments.logits_file, "--save-logits", arguments.overwrite);
  if (!arguments.losses_file.empty()) claim_output(arguments.losses_file, "--losses", arguments.overwrite);
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
    return token_ids(read_npy(arguments.ids), arguments.ids);
  }
  if (!tokenizer) {
    fail("{}: no tokenizer comes with it: --tokenizer names one, or --ids gives the text as ids of tokens",
         arguments.model);
  }
  arguments.options.begin_of_sequence = begin_of_text(*tokenizer);
  return tokenizer->encode(read_file(arguments.text));
}

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

void add_all(const Table& found, CommandResults& results) {
  for (const auto& [key, value] : found) results.add(key, value);
}

void show(const PerplexityArguments& arguments, const PerplexityResult& result, CommandResults& results) {
  const TokenScores& scores = result.scores;
  const auto count = static_cast<double>(scores.losses.size());
  results.say(
      fmt::format("perplexity: {:.6f} (standard error {:.6f})\nmean loss: {:.6f}\nscored: {} tokens in {} "
                  "windows of {}, of a text "
                  "of {} tokens\nmost likely token right: {:.4f} %\n",
                  scores.perplexity(), scores.perplexity_error(), scores.mean_loss(), scores.losses.size(),
                  result.windows, arguments.options.window, result.text_tokens,
                  100 * static_cast<double>(scores.hits) / count));
  if (!scores.divergences.empty()) results.say(comparison_text(scores));
  add_all(perplexity_value(result, arguments.options), results);
}

void show_task(const AnswerScores& scores, bool has_reference, CommandResults& results) {
  results.say(fmt::format(
      "right answers: {:.4f} % of {} questions (standard error {:.4f} %)\nby likelihood per byte: {:.4f} %\n",
      100 * scores.accuracy(), scores.questions, 100 * answers_error(scores),
      100 * scores.accuracy_per_byte()));
  if (has_reference)
    results.say(fmt::format("reference: {:.4f} % right; {:.4f} % agree; {:.4f} % of the answers changed\n",
                            100 * scores.share(scores.reference_right), 100 * scores.share(scores.agreements),
                            100 * scores.share(scores.changed)));
  results.add("task", answers_value(scores, has_reference));
}

/// nullptr where there is none.
const Decoder* read_reference(const PerplexityArguments& arguments, std::optional<Decoder>& decoder) {
  if (arguments.reference.empty()) return nullptr;
  return &decoder.emplace(read_decoder(arguments.reference));
}

void measure_task(const PerplexityArguments& arguments, CommandResults& results) {
  const std::optional<Tokenizer> tokenizer =
      find_tokenizer(arguments.tokenizer.empty() ? arguments.model : arguments.tokenizer);
  const std::vector<Question> questions = read_questions(arguments.task, tokenizer ? &*tokenizer : nullptr);
  const Decoder decoder = read_decoder(arguments.model, cache_format_option(arguments.cache_format));
  std::optional<Decoder> other;
  const Decoder* const reference = read_reference(arguments, other);
  show_task(measure_answers(decoder, reference, questions), reference != nullptr, results);
}

void measure_text(PerplexityArguments& arguments, CommandResults& results) {
  const std::vector<int64_t> tokens = read_tokens(arguments);
  // Before the network is read, which takes its time.
  static_cast<void>(token_windows(arguments.options, std::ssize(tokens)));
  const Decoder decoder = read_decoder(arguments.model, cache_format_option(arguments.cache_format));
  std::optional<Decoder> other;
  PerplexityReference reference{read_reference(arguments, other)};
  if (!arguments.reference_logits.empty()) {
    reference.logits = read_npy(arguments.reference_logits);
    reference.logits_name = arguments.reference_logits;
  }
  const PerplexityFiles files{arguments.logits_file, arguments.losses_file};
  show(arguments, measure_perplexity(decoder, tokens, arguments.options, reference, files), results);
}

void show_formats(const PerplexityArguments& arguments, std::span<const FormatPerplexity> found,
                  CommandResults& results) {
  results.say("\n" + format_perplexities_table(found).to_text());
  add_all(format_perplexities_value(found, arguments.options), results);
}

void measure_formats(PerplexityArguments& arguments, CommandResults& results) {
  std::vector<FormatPair> pairs;
  for (const std::string& text : arguments.formats) pairs.push_back(parse_format_pair(text, "--formats"));
  const std::vector<int64_t> tokens = read_tokens(arguments);
  const auto seen = [&](const FormatPerplexity& one) {
    results.say(fmt::format("{}: perplexity {:.6f}\n", one.format, one.scores.perplexity()));
  };
  show_formats(
      arguments,
      format_perplexities(read_network(arguments.model), pairs, tokens, arguments.options, "--formats", seen),
      results);
}

void add_perplexity_options(CLI::App& app, PerplexityArguments& arguments) {
  app.add_option("model", arguments.model,
                 "Hugging Face folder, GGUF file, or graph (.mz) of a language model")
      ->required()
      ->option_text(" ");
  app.add_option("--text", arguments.text, "the text, in UTF-8")->option_text("FILE");
  app.add_option("--ids", arguments.ids, "the text as token ids, .npy of integers")->option_text("FILE");
  app.add_option("--task", arguments.task,
                 "instead of a text: multiple-choice questions, JSON lines (docs/language_models.md)")
      ->option_text("FILE");
  app.add_option("--tokenizer", arguments.tokenizer,
                 "tokenizer.json or tokenizer.model, a folder with one, or a GGUF file; default: the model's")
      ->option_text("PATH");
  app.add_option("--protocol", arguments.protocol,
                 "scored tokens: windows: all but the first (GPTQ); halves: the second half (llama.cpp)")
      ->capture_default_str();
  app.add_option("--window", arguments.options.window, "tokens per window")->capture_default_str();
  app.add_option("--stride", arguments.options.stride,
                 "tokens between starts of windows; only new tokens are scored; default: the window");
  app.add_option("--windows", arguments.options.windows, "most windows; default: all");
  app.add_option("--reference", arguments.reference, "language model to compare with")->option_text("MODEL");
  app.add_option("--reference-logits", arguments.reference_logits,
                 "logits to compare with, from --save-logits")
      ->option_text("FILE");
  app.add_option("--save-logits", arguments.logits_file,
                 "write logits of scored tokens, float32 [tokens, vocabulary], .npy")
      ->option_text("FILE");
  app.add_option("--losses", arguments.losses_file, "write losses of scored tokens, float64, .npy")
      ->option_text("FILE");
  app.add_option(
         "--formats", arguments.formats,
         "quantize both operands of every product to each of these in turn: a format, or WEIGHTS/ACTIVATIONS")
      ->option_text("FORMAT ...");
  app.add_option("--cache-format", arguments.cache_format, kCacheFormatHelp)->option_text("FORMAT");
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
  if (!arguments.formats.empty()) {
    measure_formats(arguments, results);
  } else if (arguments.task.empty()) {
    measure_text(arguments, results);
  } else {
    measure_task(arguments, results);
  }
  results.finish();
  return 0;
}

}  // namespace detent
