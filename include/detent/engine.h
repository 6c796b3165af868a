#ifndef DETENT_ENGINE_H_
#define DETENT_ENGINE_H_

/* Runs networks that `detent quantize` wrote, in integers, from C; what has no integer form, and networks that are not
 * quantized, in float, with the same bits on every processor. One shared library (libdetent_engine), nothing of
 * C++ in its interface. All functions may be called from several threads, also with one program; a program is freed by
 * one of them, when no other uses it. Programs that are loaded from one file share its weights.
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
#define DETENT_ENGINE_VERSION 2
DETENT_EXPORT int32_t detent_engine_version(void);

typedef enum detent_status {
  DETENT_OK = 0,
  DETENT_BAD_ARGUMENT = 1,  /* a null pointer, an index or a size that does not fit */
  DETENT_BAD_FILE = 2,      /* missing, damaged, no regular file, or no network that can be run */
  DETENT_BAD_INPUT = 3,     /* shapes that do not fit the network, NaN */
  DETENT_OUT_OF_MEMORY = 4,
  DETENT_INTERNAL = 5
} detent_status;

/* What the calling thread's last failed call found and expected; "" before there was one. Valid until its next. */
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

/* Inputs in the order of the network; the caller gives outputs memory, and gets their shapes. Where that is too small
 * (DETENT_BAD_ARGUMENT), the shapes say what is needed. */
DETENT_EXPORT detent_status detent_program_run(const detent_program* program, const detent_tensor* inputs,
                                               size_t input_count, detent_tensor* outputs, size_t output_count);

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
DETENT_EXPORT detent_status detent_program_run_values(const detent_program* program, const detent_value* inputs,
                                                      size_t input_count, detent_value* outputs,
                                                      size_t output_count);

/* Threads that runs of this process use, from 1 to this many; the default is one a processor. */
#define DETENT_MOST_THREADS 4096
DETENT_EXPORT detent_status detent_set_threads(int32_t count);

#ifdef __cplusplus
}
#endif

#endif /* DETENT_ENGINE_H_ */
