/* Continues a text from C with the installed library: generate model.gguf. */

#include <stdio.h>

#include <detent/engine.h>

enum { kTokens = 8 };

struct seen {
  int64_t tokens[kTokens];
  size_t count;
};

static int32_t note(void* user, int64_t token) {
  struct seen* seen = user;
  if (seen->count < kTokens) seen->tokens[seen->count] = token;
  ++seen->count;
  return 0;
}

int main(int argc, char** argv) {
  detent_generator* generator = NULL;
  if (argc != 2 || detent_generate_load(argv[1], &generator) != DETENT_OK) {
    printf("%s\n", detent_error_text());
    return 1;
  }
  const int64_t prompt[] = {3, 1, 4};
  detent_generate_options options;
  detent_generate_defaults(&options);
  options.max_tokens = kTokens;
  options.temperature = 1;
  int64_t tokens[kTokens];
  size_t count = 0;
  struct seen seen = {{0}, 0};
  const detent_status status =
      detent_generate_run(generator, prompt, 3, &options, note, &seen, tokens, kTokens, &count);
  int fault = status != DETENT_OK || count != kTokens || seen.count != kTokens;
  for (size_t i = 0; i < kTokens && !fault; ++i) {
    fault = tokens[i] != seen.tokens[i] || tokens[i] < 0 || tokens[i] >= detent_generate_vocabulary(generator);
    printf("%lld ", (long long)tokens[i]);
  }
  printf("%s\n", fault ? detent_error_text() : "");
  detent_generate_free(generator);
  return fault;
}
