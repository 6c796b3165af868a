#include "detent/cli/command_line.h"

int main(int argc, char** argv) { return detent::run_command_line({argv + 1, argv + argc}); }
