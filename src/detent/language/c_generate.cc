#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/engine.h"
#include "detent/engine/c_status.h"
#include "detent/files/file.h"
#include "detent/graph_files/graph_file.h"
#include "detent/language/cache_format.h"
#include "detent/language/decoder.h"
#include "detent/language/language_model.h"
#include "detent/language/sampling.h"

struct detent_generator {
  detent::Decoder decoder;
  std::vector<int64_t> ends;
};

namespace {

using detent::failed;
using detent::guarded;

constexpr const char* kNull = "got a null pointer";

/// A graph, and the tokens that end a text by the files that quantize and its kin put beside it.
detent::LanguageModel read_graph_model(const std::filesystem::path& file) {
  detent::LanguageModel model{{}, detent::read_graph(file)};
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  const std::filesystem::path header = folder / "tokenizer.gguf";
  if (std::filesystem::exists(header)) {
    model.config.eos = detent::gguf_end_tokens(detent::read_gguf(header).metadata);
  } else if (auto ends = detent::generation_end_tokens(folder)) {
    model.config.eos = std::move(*ends);
  }
  return model;
}

detent_generator* loaded_generator(const std::filesystem::path& path,
                                   const std::optional<detent::Format>& cache_format) {
  const auto of_model = [&](detent::LanguageModel model) {
    if (cache_format) detent::quantize_cache(model.graph, *cache_format);
    return new detent_generator{detent::Decoder(std::move(model.graph), std::move(model.weights)),
                                std::move(model.config.eos)};
  };
  if (std::filesystem::is_directory(path) && std::filesystem::exists(path / "graph_module.mz"))
    return of_model(read_graph_model(path / "graph_module.mz"));
  if (std::filesystem::is_directory(path)) return of_model(detent::read_folder_model(path));
  if (!std::filesystem::is_regular_file(path))
    detent::fail("{}: expected a folder, a GGUF file or a graph (.mz)", path.string());
  if (detent::is_gguf(detent::map_file(path)->bytes())) return of_model(detent::read_gguf_model(path));
  return of_model(read_graph_model(path));
}

detent_status check_options(const detent_generate_options& options) {
  if (options.max_tokens < 1) {
    return failed(DETENT_BAD_ARGUMENT,
                  fmt::format("got max_tokens of {}, expected at least 1", options.max_tokens));
  }
  if (options.end_count > 0 && options.ends == nullptr) return failed(DETENT_BAD_ARGUMENT, kNull);
  return DETENT_OK;
}

struct Drawn {
  detent_token_callback callback;
  void* user;
  std::span<int64_t> tokens;
  size_t count = 0;

  /// Whether the caller wants more.
  bool take(int64_t token) {
    if (count < tokens.size()) tokens[count] = token;
    ++count;
    return callback == nullptr || callback(user, token) == 0;
  }
};

void generate(const detent_generator& generator, std::vector<int64_t> sequence,
              const detent_generate_options& options, Drawn& drawn) {
  const detent::SamplingOptions sampling{.temperature = options.temperature,
                                         .top_k = options.top_k,
                                         .top_p = options.top_p,
                                         .min_p = options.min_p,
                                         .repetition_penalty = options.repetition_penalty,
                                         .seed = options.seed};
  detent::check_sampling_options(sampling);
  const std::span<const int64_t> ends(options.ends, options.end_count);
  detent::SequenceCache cache = generator.decoder.start();
  std::span<const int64_t> next = sequence;
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    const detent::Tensor logits = generator.decoder.run(cache, next);
    const int64_t token =
        detent::draw_token(logits.values<float>(), sequence, std::ssize(sequence), sampling);
    sequence.push_back(token);
    next = std::span(sequence).last(1);
    if (!drawn.take(token) || std::ranges::find(ends, token) != ends.end()) return;
  }
}

}  // namespace

extern "C" {

detent_status detent_generate_load(const char* path, detent_generator** generator) {
  if (path == nullptr || generator == nullptr) return failed(DETENT_BAD_ARGUMENT, kNull);
  *generator = nullptr;
  return guarded(DETENT_BAD_FILE, [&] {
    *generator = loaded_generator(path, std::nullopt);
    return DETENT_OK;
  });
}

detent_status detent_generate_load_with_cache(const char* path, const char* cache_format,
                                              detent_generator** generator) {
  if (path == nullptr || cache_format == nullptr || generator == nullptr)
    return failed(DETENT_BAD_ARGUMENT, kNull);
  *generator = nullptr;
  std::optional<detent::Format> format;
  const detent_status status = guarded(DETENT_BAD_ARGUMENT, [&] {
    format = detent::parse_cache_format(cache_format, "cache_format");
    return DETENT_OK;
  });
  if (status != DETENT_OK) return status;
  return guarded(DETENT_BAD_FILE, [&] {
    *generator = loaded_generator(path, format);
    return DETENT_OK;
  });
}

void detent_generate_free(detent_generator* generator) { delete generator; }

int64_t detent_generate_vocabulary(const detent_generator* generator) {
  return generator == nullptr ? 0 : generator->decoder.vocabulary();
}

detent_status detent_generate_ends(const detent_generator* generator, int64_t* tokens, size_t capacity,
                                   size_t* count) {
  if (generator == nullptr || count == nullptr || (tokens == nullptr && capacity > 0))
    return failed(DETENT_BAD_ARGUMENT, kNull);
  *count = generator->ends.size();
  std::copy_n(generator->ends.begin(), std::min(*count, capacity), tokens);
  return DETENT_OK;
}

void detent_generate_defaults(detent_generate_options* options) {
  if (options == nullptr) return;
  const detent::SamplingOptions sampling;
  *options = {.max_tokens = 256,
              .temperature = sampling.temperature,
              .top_k = sampling.top_k,
              .top_p = sampling.top_p,
              .min_p = sampling.min_p,
              .repetition_penalty = sampling.repetition_penalty,
              .seed = sampling.seed,
              .ends = nullptr,
              .end_count = 0};
}

detent_status detent_generate_run(const detent_generator* generator, const int64_t* prompt,
                                  size_t prompt_count, const detent_generate_options* options,
                                  detent_token_callback callback, void* user, int64_t* tokens,
                                  size_t capacity, size_t* count) {
  if (count != nullptr) *count = 0;
  if (generator == nullptr || prompt == nullptr || (tokens == nullptr && capacity > 0))
    return failed(DETENT_BAD_ARGUMENT, kNull);
  if (prompt_count == 0) return failed(DETENT_BAD_ARGUMENT, "got a prompt without tokens");
  detent_generate_options used;
  detent_generate_defaults(&used);
  if (options != nullptr) used = *options;
  if (const detent_status status = check_options(used); status != DETENT_OK) return status;
  Drawn drawn{callback, user, {tokens, capacity}};
  const detent_status status = guarded(DETENT_BAD_INPUT, [&] {
    generate(*generator, {prompt, prompt + prompt_count}, used, drawn);
    return DETENT_OK;
  });
  if (count != nullptr) *count = drawn.count;
  return status;
}

}  // extern "C"
