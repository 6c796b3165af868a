#include <algorithm>

#include <CLI/CLI.hpp>

#include "detent/cli/commands/command.h"
#include "detent/cli/option_fields.h"
#include "detent/cli/torch_command.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/files/file.h"

namespace detent {

int run_quickstart(const std::vector<std::string>& args) {
  CLI::App app("Train a small network on built-in data, quantize it and compare, in one go.",
               "detent quickstart");
  std::string output_dir = "detent_quickstart";
  std::string seed = "0";
  app.add_option("--output-dir", output_dir, "folder for what is written (default detent_quickstart)")
      ->option_text("FOLDER");
  app.add_option(
         "--seed", seed,
         "seed of every random number (default 0); networks that come with the program are those of 0")
      ->option_text("INTEGER");
  bool no_training = !has_training();
  app.add_flag("--no-training", no_training,
               "use built-in trained networks without fine-tuning (always without `detent train`)");
  std::string networks_file;
  app.add_option("--save-networks", networks_file,
                 "also write the trained parameters (data/trained_digits.f32 of the source)")
      ->option_text("FILE");
  bool overwrite = false;
  add_overwrite_option(app, overwrite);
  if (!parse_arguments(app, args)) return 0;
  if (output_dir.empty()) throw UsageError("--output-dir: got \"\", expected a folder");
  TorchCommand command{"quickstart", {}, {}, "", output_dir};
  // More threads would do no more with a network as small as this one, and take more time of the processors.
  command.options.num_threads = 1;
  const auto& fields = option_fields();
  const auto field = std::ranges::find(fields, "seed", &OptionField::name);
  try {
    set_option(command.options, "seed", field->parse(seed), "--seed");
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
  command.options.overwrite = overwrite;
  command.trains = !no_training;
  command.networks_file = networks_file;
  if (no_training && !networks_file.empty())
    throw UsageError("--save-networks: no network is trained" +
                     std::string(has_training() ? "" : " without libtorch"));
  set_up_logging(command.options.log_level);
  check_writable(command.software_dir / "statistics.toml", "--output-dir");
  say_new_folders(output_dir);
  if (!networks_file.empty()) claim_output(networks_file, "--save-networks", overwrite);
  run_command(command);
  return 0;
}

}  // namespace detent
