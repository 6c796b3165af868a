/* Runs a quantized network from C: run_quantized model.mz. The input is all zeros; prints the largest output. Without a
 * file it says what the library answers to one that is missing. */

#include <stdio.h>
#include <stdlib.h>

#include <detent/engine.h>

#define SIDE 224

int main(int argc, char** argv) {
  detent_program* program = NULL;
  if (detent_program_load(argc > 1 ? argv[1] : "no-such-file.mz", &program) != DETENT_OK) {
    printf("%s\n", detent_error_text());
    return argc > 1;
  }
  const size_t size = 3 * SIDE * SIDE;
  detent_tensor input = {calloc(size, sizeof(float)), size, {1, 3, SIDE, SIDE}, 4};
  float values[1000];
  detent_tensor output = {values, 1000, {0}, 0};
  const detent_status status = detent_program_run(program, &input, 1, &output, 1);
  if (status == DETENT_OK) {
    size_t best = 0;
    for (size_t i = 0; i < (size_t)output.shape[1]; ++i) best = values[i] > values[best] ? i : best;
    printf("class %zu: %g\n", best, (double)values[best]);
  } else {
    printf("%s\n", detent_error_text());
  }
  free(input.data);
  detent_program_free(program);
  return status != DETENT_OK;
}
