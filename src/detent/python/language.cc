#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "detent/cli/language_model.h"
#include "detent/core/parallel.h"
#include "detent/files/array_files.h"
#include "detent/python/arrays.h"
#include "detent/python/bindings.h"
#include "detent/python/language_model.h"
#include "detent/python/work.h"
#include "detent/workflows/format_perplexities.h"
#include "detent/workflows/text_generator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace detent::python {
namespace {

/// Ids of tokens: an array of integers, or a list.
std::vector<int64_t> ids_of(nb::handle given, const std::string& what) {
  if (nb::hasattr(given, "shape")) return token_ids(tensor_of(given, DType::kInt64, what), what);
  std::vector<int64_t> ids;
  if (!nb::try_cast(given, ids))
    throw nb::type_error(
        fmt::format("{}: got {}, expected integers: ids of tokens", what, type_text(given)).c_str());
  return ids;
}

/// The same, or the path of an .npy file.
std::vector<int64_t> ids_or_file(nb::handle given) {
  if (!PyUnicode_Check(given.ptr())) return ids_of(given, "ids");
  const auto path = nb::cast<std::string>(given);
  return without_lock([&] { return token_ids(read_npy(path), path); });
}

std::optional<Tokenizer> copy_of(const Tokenizer* tokenizer) {
  return tokenizer == nullptr ? std::nullopt : std::optional(*tokenizer);
}

nb::dict special_tokens_dict(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special_tokens();
  nb::dict dict;
  const auto add = [&](const char* name, const std::optional<int64_t>& id) {
    if (id) dict[name] = *id;
  };
  add("bos", special.begin_of_sequence);
  add("eos", special.end_of_sequence);
  add("unk", special.unknown);
  add("pad", special.padding);
  add("sep", special.separator);
  add("cls", special.classification);
  add("mask", special.mask);
  return dict;
}

std::string chat_prompt(const std::string& text, const std::string& name, const nb::list& messages,
                        const Tokenizer& tokenizer, bool add_generation_prompt) {
  std::vector<ChatMessage> given;
  for (const nb::handle message : messages)
    given.push_back({nb::cast<std::string>(message["role"]), nb::cast<std::string>(message["content"])});
  return without_lock(
      [&] { return chat_text(ChatTemplate(text, name), given, tokenizer, add_generation_prompt); });
}

GenerationOptions generation_options(const nb::dict& given) {
  GenerationOptions options;
  options.max_tokens = nb::cast<int64_t>(given["max_tokens"]);
  options.stop = nb::cast<std::vector<std::string>>(given["stop"]);
  options.ignore_end = nb::cast<bool>(given["ignore_eos"]);
  SamplingOptions& sampling = options.sampling;
  sampling.temperature = nb::cast<double>(given["temperature"]);
  sampling.top_k = nb::cast<int64_t>(given["top_k"]);
  sampling.top_p = nb::cast<double>(given["top_p"]);
  sampling.min_p = nb::cast<double>(given["min_p"]);
  sampling.repetition_penalty = nb::cast<double>(given["repetition_penalty"]);
  sampling.seed = nb::cast<uint64_t>(given["seed"]);
  return options;
}

nb::dict generated_dict(const GeneratedText& generated, size_t prompt_tokens) {
  nb::dict dict;
  dict["text"] = generated.text;
  dict["tokens"] = generated.tokens;
  dict["stopped_by"] = generated.stopped_by;
  dict["prompt_tokens"] = prompt_tokens;
  return dict;
}

nb::list generated_batch(const LanguageModel& model, const nb::list& prompts, int64_t num_sequences,
                         const nb::dict& given, const Tokenizer* tokenizer, int threads) {
  const GenerationOptions options = generation_options(given);
  std::vector<std::vector<int64_t>> ids;
  for (const nb::handle prompt : prompts) ids.push_back(ids_of(prompt, "prompts"));
  const std::vector<GeneratedText> texts =
      without_lock([&] { return model.generate(ids, num_sequences, options, copy_of(tokenizer), threads); });
  nb::list list;
  for (size_t i = 0; i < texts.size(); ++i)
    list.append(generated_dict(texts[i], ids[i / static_cast<size_t>(num_sequences)].size()));
  return list;
}

std::shared_ptr<Generation> started(const LanguageModel& model, nb::handle prompt, const nb::dict& given,
                                    const Tokenizer* tokenizer, int threads) {
  const GenerationOptions options = generation_options(given);
  const std::vector<int64_t> ids = ids_of(prompt, "prompt");
  return without_lock([&] { return model.start(ids, options, copy_of(tokenizer), threads); });
}

nb::object next_piece(Generation& generation) {
  const std::optional<GeneratedPiece> piece = without_lock([&] { return generation.next(); });
  if (!piece) return nb::none();
  return nb::make_tuple(piece->token < 0 ? nb::none() : nb::object(nb::cast(piece->token)), piece->text);
}

nb::dict generated_so_far(Generation& generation) {
  return generated_dict(without_lock([&] { return generation.generated(); }), generation.prompt_tokens());
}

PerplexityOptions perplexity_options(const nb::dict& given, const Tokenizer* tokenizer) {
  PerplexityOptions options;
  options.protocol = perplexity_protocol(nb::cast<std::string>(given["protocol"]));
  options.window = nb::cast<int64_t>(given["window"]);
  options.stride = nb::cast<int64_t>(given["stride"]);
  options.windows = nb::cast<int64_t>(given["windows"]);
  check_perplexity_options(options);
  if (tokenizer != nullptr) options.begin_of_sequence = begin_of_text(*tokenizer);
  return options;
}

nb::dict measured_formats(const Network& network, nb::handle tokens, const std::vector<std::string>& formats,
                          const nb::dict& given, const Tokenizer* tokenizer, int threads) {
  const PerplexityOptions options = perplexity_options(given, tokenizer);
  std::vector<FormatPair> pairs;
  for (const std::string& text : formats) pairs.push_back(parse_format_pair(text, "formats"));
  const std::vector<int64_t> ids = ids_or_file(tokens);
  return object_of(without_lock([&] {
    const LimitThreads limit(threads);
    return format_perplexities_value(
        format_perplexities(network.graph(), pairs, ids, options, "formats", [](const FormatPerplexity&) {}),
        options);
  }));
}

nb::dict measured_perplexity(const LanguageModel& model, nb::handle tokens, const nb::dict& given,
                             const Tokenizer* tokenizer, const LanguageModel* other, nb::handle logits,
                             const std::string& logits_file, const std::string& losses_file, bool overwrite,
                             int threads) {
  const PerplexityOptions options = perplexity_options(given, tokenizer);
  for (const std::string& path : {logits_file, losses_file})
    if (!path.empty()) check_output(path, overwrite);
  PerplexityReference reference{other == nullptr ? nullptr : &other->decoder()};
  if (PyUnicode_Check(logits.ptr())) {
    reference.logits_name = nb::cast<std::string>(logits);
    reference.logits = without_lock([&] { return read_npy(reference.logits_name); });
  } else if (!logits.is_none()) {
    reference.logits_name = "reference_logits";
    reference.logits = tensor_of(logits, DType::kFloat32, reference.logits_name);
  }
  const std::vector<int64_t> ids = ids_or_file(tokens);
  const PerplexityResult result = without_lock([&] {
    const LimitThreads limit(threads);
    return measure_perplexity(model.decoder(), ids, options, reference, {logits_file, losses_file});
  });
  nb::dict dict = object_of(perplexity_value(result, options));
  const std::vector<double>& losses = result.scores.losses;
  dict["losses"] = array_of(Tensor::from<double>({std::ssize(losses)}, losses));
  return dict;
}

/// `task`: the path of a file, or a list of questions.
nb::dict measured_answers(const LanguageModel& model, nb::handle task, const Tokenizer* tokenizer,
                          const LanguageModel* other, int threads) {
  std::vector<Question> questions;
  if (PyUnicode_Check(task.ptr())) {
    const auto path = nb::cast<std::string>(task);
    questions = without_lock([&] { return read_questions(path, tokenizer); });
  } else {
    for (const nb::handle question : nb::cast<nb::list>(task)) {
      const std::string where = fmt::format("task[{}]", questions.size());
      questions.push_back(question_of(value_of(question, where), where, tokenizer));
    }
    if (questions.empty()) throw nb::value_error("task: has no questions");
  }
  return object_of(without_lock([&] {
    const LimitThreads limit(threads);
    return answers_value(
        measure_answers(model.decoder(), other == nullptr ? nullptr : &other->decoder(), questions),
        other != nullptr);
  }));
}

void bind_tokenizers(nb::module_& module) {
  nb::class_<Tokenizer>(module, "TextTokenizer", "Text to ids of tokens and back.")
      .def(
          "encode",
          [](const Tokenizer& self, const std::string& text, bool special) {
            return without_lock([&] { return self.encode(text, special); });
          },
          "text"_a, "add_special_tokens"_a)
      .def(
          "decode",
          [](const Tokenizer& self, nb::handle given, bool skips) {
            const std::vector<int64_t> ids = ids_of(given, "ids");
            return without_lock([&] { return self.decode(ids, skips); });
          },
          "ids"_a.none(), "skip_special_tokens"_a,
          nb::sig("def decode(self, ids: typing.Any, skip_special_tokens: bool) -> str"))
      .def("id_of", [](const Tokenizer& self, const std::string& token) { return self.id_of(token); })
      .def("token", &Tokenizer::token, "id"_a)
      .def("vocabulary_size", &Tokenizer::vocabulary_size)
      .def("special_tokens", special_tokens_dict, nb::sig("def special_tokens(self) -> dict[str, int]"))
      .def("description", &Tokenizer::description);
  module.def(
      "find_tokenizer",
      [](const std::string& path) { return without_lock([&] { return find_tokenizer(path); }); }, "path"_a);
  module.def(
      "find_chat_template",
      [](const std::string& path) { return without_lock([&] { return find_model_template(path); }); },
      "path"_a);
  module.def("chat_text", chat_prompt, "template"_a, "name"_a, "messages"_a, "tokenizer"_a,
             "add_generation_prompt"_a,
             nb::sig("def chat_text(template: str, name: str, messages: list[dict[str, str]], tokenizer: "
                     "TextTokenizer, add_generation_prompt: bool) -> str"));
}

}  // namespace

void bind_language(nb::module_& module) {
  bind_tokenizers(module);
  module.def("format_perplexities", measured_formats, "network"_a, "tokens"_a, "formats"_a, "options"_a,
             "tokenizer"_a.none(), "threads"_a,
             nb::sig("def format_perplexities(network: NetworkGraph, tokens: typing.Any, formats: list[str], "
                     "options: dict[str, typing.Any], tokenizer: TextTokenizer | None, threads: int) -> "
                     "dict[str, typing.Any]"));
  nb::class_<Generation>(module, "Generation", "A text that is being continued.")
      .def("next", next_piece, nb::sig("def next(self) -> tuple[int | None, str] | None"))
      .def("generated", generated_so_far, nb::sig("def generated(self) -> dict[str, typing.Any]"));
  nb::class_<LanguageModel>(module, "LanguageModel", "A network of language, ready to run.")
      .def(
          "__init__",
          [](LanguageModel* self, const Network& network, const std::string& cache_format) {
            without_lock([&] {
              new (self) LanguageModel(network, cache_format);
              return true;
            });
          },
          "network"_a, "cache_format"_a,
          nb::sig("def __init__(self, network: NetworkGraph, cache_format: str) -> None"))
      .def("start", started, "prompt"_a.none(), "options"_a, "tokenizer"_a.none(), "threads"_a,
           nb::sig("def start(self, prompt: typing.Any, options: dict[str, typing.Any], tokenizer: "
                   "TextTokenizer | None, threads: int) -> Generation"))
      .def("generate", generated_batch, "prompts"_a, "num_sequences"_a, "options"_a, "tokenizer"_a.none(),
           "threads"_a,
           nb::sig("def generate(self, prompts: list[typing.Any], num_sequences: int, options: dict[str, "
                   "typing.Any], tokenizer: TextTokenizer | None, threads: int) -> list[dict[str, "
                   "typing.Any]]"))
      .def("perplexity", measured_perplexity, "tokens"_a.none(), "options"_a, "tokenizer"_a.none(),
           "reference"_a.none(), "reference_logits"_a.none(), "save_logits"_a, "losses"_a, "overwrite"_a,
           "threads"_a,
           nb::sig("def perplexity(self, tokens: typing.Any, options: dict[str, typing.Any], tokenizer: "
                   "TextTokenizer | None, reference: LanguageModel | None, reference_logits: typing.Any, "
                   "save_logits: str, losses: str, overwrite: bool, threads: int) -> dict[str, typing.Any]"))
      .def("answers", measured_answers, "task"_a, "tokenizer"_a.none(), "reference"_a.none(), "threads"_a,
           nb::sig("def answers(self, task: typing.Any, tokenizer: TextTokenizer | None, reference: "
                   "LanguageModel | None, threads: int) -> dict[str, typing.Any]"));
}

}  // namespace detent::python
