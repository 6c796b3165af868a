#ifndef DETENT_ENGINE_H_
#define DETENT_ENGINE_H_

/* Runs networks that `detent quantize` wrote, in integers, from C; what has no integer form, and networks
 * that are not quantized, in float, with the same bits on every processor. One shared library
 * (libdetent_engine), nothing of C++ in its interface. All functions may be called from several threads, also
 * with one program; a program is freed by one of them, when no other uses it. Programs that are loaded from
 * one file share its weights.
 *
 * What fails returns a status other than DETENT_OK, and detent_error_text() says why. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define DETENT_EXPORT
#else
#define DETENT_EXPORT __attribute__((visibility("default")))
#endif

/* Larger whenever functions were added; none is ever changed or removed. */
#define DETENT_ENGINE_VERSION 4
DETENT_EXPORT int32_t detent_engine_version(void);

typedef enum detent_status {
  DETENT_OK = 0,
  DETENT_BAD_ARGUMENT = 1, /* a null pointer, an index or a size that does not fit */
  DETENT_BAD_FILE = 2,     /* missing, damaged, no regular file, or no network that can be run */
  DETENT_BAD_INPUT = 3,    /* shapes that do not fit the network, NaN */
  DETENT_OUT_OF_MEMORY = 4,
  DETENT_INTERNAL = 5
} detent_status;

/* What the calling thread's last failed call found and expected; "" before there was one. Valid until its
 * next. */
DETENT_EXPORT const char* detent_error_text(void);

typedef struct detent_program detent_program;

/* Of a graph (.mz) file. */
DETENT_EXPORT detent_status detent_program_load(const char* path, detent_program** program);
DETENT_EXPORT void detent_program_free(detent_program* program);

DETENT_EXPORT size_t detent_program_input_count(const detent_program* program);
/* NULL where there is no such input. */
DETENT_EXPORT const char* detent_program_input_name(const detent_program* program, size_t input);
DETENT_EXPORT size_t detent_program_output_count(const detent_program* program);

#define DETENT_MOST_DIMENSIONS 8

/* float32, row-major. */
typedef struct detent_tensor {
  float* data;
  size_t size; /* elements that data has room for */
  int64_t shape[DETENT_MOST_DIMENSIONS];
  size_t rank;
} detent_tensor;

/* Inputs in the order of the network; the caller gives outputs memory, and gets their shapes. Where that is
 * too small (DETENT_BAD_ARGUMENT), the shapes say what is needed. */
DETENT_EXPORT detent_status detent_program_run(const detent_program* program, const detent_tensor* inputs,
                                               size_t input_count, detent_tensor* outputs,
                                               size_t output_count);

/* Since version 2: networks whose inputs or outputs are no float32, such as the indices of tokens. */

typedef enum detent_type {
  DETENT_FLOAT32 = 0,
  DETENT_FLOAT64 = 1,
  DETENT_FLOAT16 = 2,
  DETENT_BFLOAT16 = 3,
  DETENT_INT64 = 4,
  DETENT_INT32 = 5,
  DETENT_INT16 = 6,
  DETENT_INT8 = 7,
  DETENT_UINT8 = 8,
  DETENT_BOOL = 9 /* a byte, 0 or 1 */
} detent_type;

/* Bytes of an element; 0 of what is no type. */
DETENT_EXPORT size_t detent_type_size(detent_type type);

/* What a network takes or gives. */
typedef struct detent_description {
  const char* name; /* as long as the program */
  detent_type type;
  size_t rank;
  int64_t shape[DETENT_MOST_DIMENSIONS]; /* -1: of any size, or one that follows from the inputs */
} detent_description;

DETENT_EXPORT detent_status detent_program_input(const detent_program* program, size_t input,
                                                 detent_description* description);
DETENT_EXPORT detent_status detent_program_output(const detent_program* program, size_t output,
                                                  detent_description* description);

/* Row-major. */
typedef struct detent_value {
  detent_type type;
  void* data;
  size_t bytes; /* that data has, or has room for */
  int64_t shape[DETENT_MOST_DIMENSIONS];
  size_t rank;
} detent_value;

/* As detent_program_run, which only takes and gives float32. The types of outputs are given too. */
DETENT_EXPORT detent_status detent_program_run_values(const detent_program* program,
                                                      const detent_value* inputs, size_t input_count,
                                                      detent_value* outputs, size_t output_count);

/* Threads that runs of this process use, from 1 to this many; the default is one a processor. */
#define DETENT_MOST_THREADS 4096
DETENT_EXPORT detent_status detent_set_threads(int32_t count);

/* Since version 3: causal language models, token by token. Tokens are indices of the model's vocabulary;
 * texts are the caller's. The same prompt and options give the same tokens, on every processor, with any
 * number of threads. */

typedef struct detent_generator detent_generator;

/* Of a folder as Hugging Face's libraries save it, a GGUF file, a graph (.mz) of either or the folder of one.
 */
DETENT_EXPORT detent_status detent_generate_load(const char* path, detent_generator** generator);
DETENT_EXPORT void detent_generate_free(detent_generator* generator);

/* Since version 4: the same, with keys and values kept in a format, each token's part of a head with a scale
 * of its own: "int8", "int4", "fp8_e4m3fn". DETENT_BAD_ARGUMENT where it is none for that. */
DETENT_EXPORT detent_status detent_generate_load_with_cache(const char* path, const char* cache_format,
                                                            detent_generator** generator);

/* Tokens that the model knows: 0 to one less than this. */
DETENT_EXPORT int64_t detent_generate_vocabulary(const detent_generator* generator);

/* The tokens that end a text, as the model's files name them, of a graph those beside it; `count` is how many
 * there are, of which `capacity` are written. */
DETENT_EXPORT detent_status detent_generate_ends(const detent_generator* generator, int64_t* tokens,
                                                 size_t capacity, size_t* count);

typedef struct detent_generate_options {
  int64_t max_tokens;        /* at most so many */
  double temperature;        /* divides logits; 0: the most likely token, the first of equal ones */
  int64_t top_k;             /* draw among so many of the most likely tokens; 0: all */
  double top_p;              /* draw among the most likely tokens that together have this share */
  double min_p;              /* draw among tokens with at least this part of the largest share */
  double repetition_penalty; /* divides positive logits of tokens that were there, multiplies others */
  uint64_t seed;
  const int64_t* ends; /* tokens behind which the text ends; they are given to the caller too */
  size_t end_count;
} detent_generate_options;

/* 256 tokens, the most likely ones, no ends. */
DETENT_EXPORT void detent_generate_defaults(detent_generate_options* options);

/* Called for each token as soon as it is drawn, on the calling thread; what is not 0 ends the text behind it.
 */
typedef int32_t (*detent_token_callback)(void* user, int64_t token);

/* Continues a prompt of at least one token. Up to `capacity` of the drawn tokens are written to `tokens`;
 * `count` is how many were drawn. `options`, `callback` and `count` may be null, and `tokens` with a capacity
 * of 0. Several threads may run one generator; each run has keys and values of its own. */
DETENT_EXPORT detent_status detent_generate_run(const detent_generator* generator, const int64_t* prompt,
                                                size_t prompt_count, const detent_generate_options* options,
                                                detent_token_callback callback, void* user, int64_t* tokens,
                                                size_t capacity, size_t* count);

#ifdef __cplusplus
}
#endif

#endif /* DETENT_ENGINE_H_ */
