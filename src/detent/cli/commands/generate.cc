#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <charconv>
#include <iostream>
#include <memory>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/language_model.h"
#include "detent/cli/option_fields.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/tokenizers/chat/chat_template.h"
#include "detent/workflows/resource_use.h"
#include "detent/workflows/text_generator.h"

namespace detent {
namespace {

struct GenerateArguments {
  std::string model;
  std::vector<std::string> prompts;
  std::vector<std::string> prompt_ids;
  int64_t num_sequences = 1;
  std::string tokenizer;
  std::string template_file;
  std::string system;
  std::string cache_format;
  bool chat = false;
  bool print_ids = false;
  bool json = false;
  GenerationOptions options;
};

std::vector<int64_t> parse_ids(const std::string& text) {
  std::vector<int64_t> ids;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    int64_t id = -1;
    const auto [rest, problem] = std::from_chars(text.data() + begin, text.data() + end, id);
    if (problem != std::errc() || rest != text.data() + end || id < 0)
      throw UsageError(fmt::format("--prompt-ids: got \"{}\", expected ids of tokens as in 5,17,200", text));
    ids.push_back(id);
    begin = end + 1;
  }
  return ids;
}

void check_arguments(const GenerateArguments& arguments) {
  if (!arguments.prompts.empty() && !arguments.prompt_ids.empty())
    throw UsageError("--prompt and --prompt-ids exclude each other");
  if (arguments.prompts.empty() && arguments.prompt_ids.empty() && !arguments.chat)
    throw UsageError("`detent generate` needs --prompt TEXT, --prompt-ids IDS or --chat");
  if (arguments.num_sequences < 1)
    throw UsageError(fmt::format("--num-sequences: got {}, expected at least 1", arguments.num_sequences));
  if (arguments.chat && (arguments.prompts.size() > 1 || arguments.num_sequences > 1))
    throw UsageError("--chat answers one --prompt, by one sequence");
  if (arguments.chat && !arguments.prompt_ids.empty())
    throw UsageError("--chat and --prompt-ids exclude each other");
  if (!arguments.chat && !(arguments.system.empty() && arguments.template_file.empty()))
    throw UsageError("--system and --chat-template belong to --chat");
  check_generation_options(arguments.options);
}

/// Shows what is generated: text, ids, or JSON, a line a token.
class Display {
 public:
  /// `sequence` counts from 0 where there are several: their lines say which.
  explicit Display(const GenerateArguments& arguments, std::optional<size_t> sequence = std::nullopt)
      : arguments_(arguments), sequence_(sequence) {}

  void show(int64_t token, std::string_view text) {
    if (arguments_.json) {
      Table line = named_line();
      if (token >= 0) line["token"] = token;
      line["text"] = std::string(text);
      print(json_text(Value(line), JsonLayout::kOneLine) + "\n");
    } else if (!arguments_.print_ids) {
      print(text);
      ends_line_ = text.empty() ? ends_line_ : text.ends_with('\n');
    } else if (token >= 0) {
      print(fmt::format("{}{}", any_ ? "," : "", token));
      ends_line_ = false;
    }
    any_ = true;
  }

  void finish(const GeneratedText& generated, size_t prompt_tokens, double seconds) const {
    if (!arguments_.json) {
      if (!ends_line_) print("\n");
      return;
    }
    Table summary = named_line();
    summary["text"] = generated.text;
    summary["tokens"] = Value(generated.tokens);
    summary["stopped_by"] = generated.stopped_by;
    summary["prompt_tokens"] = static_cast<int64_t>(prompt_tokens);
    summary["seconds"] = seconds;
    print(json_text(Value(summary), JsonLayout::kOneLine) + "\n");
  }

 private:
  Table named_line() const {
    if (!sequence_) return {};
    return Table{{"sequence", static_cast<int64_t>(*sequence_)}};
  }

  const GenerateArguments& arguments_;
  std::optional<size_t> sequence_;
  bool any_ = false;
  bool ends_line_ = false;
};

GeneratedText generate(TextGenerator& generator, const GenerateArguments& arguments,
                       const std::vector<int64_t>& prompt) {
  const auto begin = std::chrono::steady_clock::now();
  Display display(arguments);
  const StopSignals signals;
  const GeneratedText generated = generator.generate(
      prompt, arguments.options, [&](int64_t token, std::string_view text) { display.show(token, text); });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  display.finish(generated, prompt.size(), seconds.count());
  if (generated.stopped_by == "signal" && !arguments.chat)
    throw Interrupted(StopSignals::received(),
                      fmt::format("stopped after {} tokens", generated.tokens.size()));
  return generated;
}

/// Messages as the tokens that the template makes of them.
class Chat {
 public:
  Chat(const GenerateArguments& arguments, const Tokenizer& tokenizer)
      : tokenizer_(tokenizer), template_(read(arguments)) {
    if (!arguments.system.empty()) messages_.push_back({"system", arguments.system});
  }

  void add(std::string role, std::string content) {
    messages_.push_back({std::move(role), std::move(content)});
  }

  std::vector<int64_t> prompt() const { return chat_tokens(template_, messages_, tokenizer_); }

 private:
  static ChatTemplate read(const GenerateArguments& arguments) {
    if (!arguments.template_file.empty())
      return {read_text_file(arguments.template_file, uint64_t{1} << 24), arguments.template_file};
    const auto text = find_model_template(arguments.model);
    if (!text) fail("{}: no chat template comes with it: --chat-template names one", arguments.model);
    return {*text, arguments.model + ": chat template"};
  }

  const Tokenizer& tokenizer_;
  ChatTemplate template_;
  std::vector<ChatMessage> messages_;
};

void chat(const Decoder& decoder, TextGenerator& generator, const GenerateArguments& arguments,
          const Tokenizer& tokenizer) {
  Chat chat(arguments, tokenizer);
  const auto answer = [&] {
    const std::vector<int64_t> prompt = chat.prompt();
    const auto given = std::ssize(prompt);
    announce_length(decoder, given, given + arguments.options.max_tokens - 1);
    return generate(generator, arguments, prompt).text;
  };
  if (!arguments.prompts.empty()) {
    chat.add("user", arguments.prompts.front());
    answer();
    return;
  }
  const bool asks = ::isatty(STDIN_FILENO) != 0 && !arguments.json;
  std::string line;
  while ((asks ? print("> ") : void()), std::getline(std::cin, line)) {
    if (line.empty()) continue;
    chat.add("user", line);
    chat.add("assistant", answer());
  }
  if (asks) print("\n");
}

/// All prompts, each as often as asked for, with seeds that follow each other.
struct Sequences {
  std::vector<TextGenerator> generators;
  std::vector<size_t> prompt_tokens;
};

Sequences started_sequences(const GenerateArguments& arguments, const std::shared_ptr<const Decoder>& decoder,
                            const std::optional<Tokenizer>& tokenizer,
                            const std::vector<std::vector<int64_t>>& prompts) {
  Sequences started;
  const std::vector<int64_t> ends = end_tokens(arguments.model, tokenizer);
  for (const std::vector<int64_t>& prompt : prompts) {
    for (int64_t i = 0; i < arguments.num_sequences; ++i) {
      GenerationOptions options = arguments.options;
      options.sampling.seed += static_cast<decltype(options.sampling.seed)>(i);
      started.generators.emplace_back(decoder, tokenizer, ends).start(prompt, options);
      started.prompt_tokens.push_back(prompt.size());
    }
  }
  return started;
}

/// Several at once: lines of JSON as they come, texts when all of them have ended.
void generate_several(const GenerateArguments& arguments, const Decoder& decoder, Sequences sequences) {
  const auto begin = std::chrono::steady_clock::now();
  const StopSignals signals;
  std::vector<Display> displays;
  for (size_t i = 0; i < sequences.generators.size(); ++i) displays.emplace_back(arguments, i);
  generate_texts(decoder, sequences.generators, [&](size_t i, const GeneratedPiece& piece) {
    if (arguments.json) displays[i].show(piece.token, piece.text);
  });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  bool is_stopped = false;
  for (size_t i = 0; i < displays.size(); ++i) {
    const GeneratedText& generated = sequences.generators[i].generated();
    if (!arguments.json && !arguments.print_ids) print(fmt::format("== {}\n", i + 1));
    if (!arguments.json)
      print(arguments.print_ids ? fmt::format("{}", fmt::join(generated.tokens, ",")) : generated.text);
    displays[i].finish(generated, sequences.prompt_tokens[i], seconds.count());
    is_stopped = is_stopped || generated.stopped_by == "signal";
  }
  if (is_stopped) throw Interrupted(StopSignals::received(), "stopped before all texts had ended");
}

std::vector<std::vector<int64_t>> read_prompts(const GenerateArguments& arguments,
                                               const std::optional<Tokenizer>& tokenizer) {
  std::vector<std::vector<int64_t>> prompts;
  for (const std::string& ids : arguments.prompt_ids) prompts.push_back(parse_ids(ids));
  for (const std::string& text : arguments.prompts) prompts.push_back(tokenizer->encode(text));
  return prompts;
}

void run(const GenerateArguments& arguments) {
  const std::optional<Format> cache_format = cache_format_option(arguments.cache_format);
  for (const std::string& ids : arguments.prompt_ids) static_cast<void>(parse_ids(ids));
  const std::optional<Tokenizer> tokenizer =
      find_tokenizer(arguments.tokenizer.empty() ? arguments.model : arguments.tokenizer);
  const bool needs_text = !arguments.prompts.empty() || arguments.chat || !arguments.options.stop.empty();
  if (!tokenizer && needs_text)
    fail("{}: no tokenizer comes with it: --tokenizer names one, or --prompt-ids gives ids of tokens",
         arguments.model);
  if (!tokenizer && !arguments.print_ids && !arguments.json)
    fail("{}: no tokenizer comes with it: --tokenizer names one, or --print-ids shows ids of tokens",
         arguments.model);
  const auto decoder = std::make_shared<const Decoder>(read_decoder(arguments.model, cache_format));
  TextGenerator generator(decoder, tokenizer, end_tokens(arguments.model, tokenizer));
  if (arguments.chat) return chat(*decoder, generator, arguments, *tokenizer);
  const std::vector<std::vector<int64_t>> prompts = read_prompts(arguments, tokenizer);
  const auto longest = std::ssize(*std::ranges::max_element(prompts, {}, &std::vector<int64_t>::size));
  announce_length(*decoder, longest, longest + arguments.options.max_tokens - 1);
  announce_memory(*decoder, {.sequences = std::ssize(prompts) * arguments.num_sequences,
                             .tokens = longest + arguments.options.max_tokens,
                             .at_once = longest});
  if (prompts.size() == 1 && arguments.num_sequences == 1) {
    generate(generator, arguments, prompts.front());
  } else {
    generate_several(arguments, *decoder, started_sequences(arguments, decoder, tokenizer, prompts));
  }
}

void add_prompt_options(CLI::App& app, GenerateArguments& arguments) {
  app.add_option("model", arguments.model,
                 "Hugging Face folder, GGUF file, or graph (.mz) of a language model")
      ->required()
      ->option_text(" ");
  app.add_option("--prompt", arguments.prompts,
                 "text to continue; with --chat, the only message; may be repeated")
      ->allow_extra_args(false)
      ->option_text("TEXT");
  app.add_option("--prompt-ids", arguments.prompt_ids, "the same as token ids, such as 5,17,200")
      ->allow_extra_args(false)
      ->option_text("IDS");
  app.add_option("--num-sequences", arguments.num_sequences,
                 "continuations of each prompt, with consecutive seeds")
      ->capture_default_str();
  app.add_flag("--chat", arguments.chat,
               "answer lines of standard input by the model's chat template; Ctrl-C ends an answer");
  app.add_option("--system", arguments.system, "system message of a chat")->option_text("TEXT");
  app.add_option("--chat-template", arguments.template_file, "another chat template, in Jinja")
      ->option_text("FILE");
  app.add_option("--tokenizer", arguments.tokenizer,
                 "tokenizer.json or tokenizer.model, a folder with one, or a GGUF file; default: the model's")
      ->option_text("PATH");
  app.add_option("--cache-format", arguments.cache_format, kCacheFormatHelp)->option_text("FORMAT");
  app.add_flag("--print-ids", arguments.print_ids, "show token ids instead of text");
  app.add_flag("--json", arguments.json, "print JSON lines: each token, then the whole");
}

void add_sampling_options(CLI::App& app, GenerationOptions& options) {
  app.add_option("--max-tokens", options.max_tokens, "at most so many")->capture_default_str();
  app.add_option("--stop", options.stop, "end before this text; may be repeated")->option_text("TEXT");
  app.add_flag("--ignore-eos", options.ignore_end, "never draw an end-of-text token");
  SamplingOptions& sampling = options.sampling;
  app.add_option("--temperature", sampling.temperature, "divisor of logits; 0: the most likely token")
      ->capture_default_str();
  app.add_option("--top-k", sampling.top_k, "draw among the N most likely tokens; 0: all")
      ->capture_default_str();
  app.add_option("--top-p", sampling.top_p, "draw among the most likely tokens with this joint probability")
      ->capture_default_str();
  app.add_option("--min-p", sampling.min_p, "draw among tokens with this fraction of the largest probability")
      ->capture_default_str();
  app.add_option("--repetition-penalty", sampling.repetition_penalty,
                 "divides positive logits of seen tokens, multiplies negative ones")
      ->capture_default_str();
  app.add_option("--seed", sampling.seed, "seed of the draws")->capture_default_str();
}

}  // namespace

int run_generate(const std::vector<std::string>& args) {
  CLI::App app(
      "Continue a text with a language model, or chat. The same options give the same text, on every "
      "processor, with any "
      "number of threads.",
      "detent generate");
  GenerateArguments arguments;
  add_prompt_options(app, arguments);
  add_sampling_options(app, arguments.options);
  const OptionField& threads = option_field("num_threads");
  std::string thread_text;
  app.add_option(threads.flag, thread_text, threads.help)->option_text("VALUE");
  if (!parse_arguments(app, args)) return 0;
  check_arguments(arguments);
  if (!thread_text.empty()) {
    RunOptions options;
    set_flag(options, threads.name, threads.parse(thread_text));
    if (options.num_threads) set_thread_count(usable_thread_count(*options.num_threads));
  }
  run(arguments);
  return 0;
}

}  // namespace detent
