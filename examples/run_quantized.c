/* Runs a quantized network from C: run_quantized model.mz. Whatever it takes is all zeros, of one sample; prints the
 * largest element of the first output, which is float32. Without a file it says what the library answers to one that is
 * missing. */

#include <stdio.h>
#include <stdlib.h>

#include <detent/engine.h>

/* One of what a description says, with memory. Sizes that the caller chooses are 1. */
static detent_value zeros(const detent_description* of) {
  detent_value value = {of->type, NULL, detent_type_size(of->type), {0}, of->rank};
  for (size_t d = 0; d < of->rank; ++d) {
    value.shape[d] = of->shape[d] < 0 ? 1 : of->shape[d];
    value.bytes *= (size_t)value.shape[d];
  }
  value.data = calloc(1, value.bytes);
  return value;
}

static int fault(void) {
  printf("%s\n", detent_error_text());
  return 1;
}

static void print_largest(const detent_value* output) {
  const float* values = output->data;
  size_t best = 0;
  for (size_t i = 0; i < output->bytes / sizeof(float); ++i) best = values[i] > values[best] ? i : best;
  printf("element %zu: %g\n", best, (double)values[best]);
}

int main(int argc, char** argv) {
  detent_program* program = NULL;
  if (detent_program_load(argc > 1 ? argv[1] : "no-such-file.mz", &program) != DETENT_OK) return fault() && argc > 1;
  enum { kMost = 8 };
  detent_value inputs[kMost];
  detent_value outputs[kMost];
  const size_t input_count = detent_program_input_count(program);
  const size_t output_count = detent_program_output_count(program);
  if (input_count > kMost || output_count > kMost) return 1;
  detent_description about;
  for (size_t i = 0; i < input_count; ++i) {
    detent_program_input(program, i, &about);
    inputs[i] = zeros(&about);
  }
  for (size_t i = 0; i < output_count; ++i) {
    detent_program_output(program, i, &about);
    outputs[i] = zeros(&about);
  }
  const detent_status status = detent_program_run_values(program, inputs, input_count, outputs, output_count);
  if (status == DETENT_OK)
    print_largest(&outputs[0]);
  else
    fault();
  for (size_t i = 0; i < input_count; ++i) free(inputs[i].data);
  for (size_t i = 0; i < output_count; ++i) free(outputs[i].data);
  detent_program_free(program);
  return status != DETENT_OK;
}
