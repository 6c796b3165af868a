#include "detent/python/work.h"

#include <filesystem>

#include "detent/cli/torch_command.h"

namespace detent::python {

std::optional<StudyFolder> claimed_folder(const StudyCall& call, const std::string& command,
                                          const StudyFiles& files, const Table& settings) {
  if (call.folder.empty()) return std::nullopt;
  TorchCommand as{.name = command, .options = {}, .passes = {}, .config_file = {}, .software_dir = {}};
  as.options.resume = call.resume;
  as.options.overwrite = call.overwrite;
  std::filesystem::create_directories(call.folder);
  return std::make_optional<StudyFolder>(as, call.folder, files, settings, single_process());
}

}  // namespace detent::python
