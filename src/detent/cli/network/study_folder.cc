#include "detent/cli/network/study_folder.h"

#include <fmt/format.h>

#include "detent/cli/language_model.h"
#include "detent/cli/network/result_folder.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/files/toml.h"
#include "detent/search/search.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSettings = "settings.toml";

/// Whether there is a study to go on with.
bool goes_on(const TorchCommand& command, const fs::path& folder, const StudyFiles& files,
             const Table& settings) {
  const bool exists = fs::exists(folder / files.journal) && fs::exists(folder / kSettings);
  if (command.options.overwrite && command.options.resume)
    fail("--resume and --overwrite contradict each other");
  if (!command.options.resume) {
    if (exists && !command.options.overwrite) {
      fail(
          "{} holds {}: go on with it (--resume), begin anew (--overwrite), or choose another folder "
          "(--project NAME)",
          folder.string(), files.study);
    }
    return false;
  }
  if (!exists) fail("--resume: {} does not hold {} that has begun", folder.string(), files.study);
  const std::string difference = settings_difference(read_toml(folder / kSettings), settings);
  if (!difference.empty())
    fail("--resume: {} was begun with other settings ({})", folder.string(), difference);
  return true;
}

}  // namespace

StudyFiles search_files(const std::vector<LanguageFile>& texts) {
  StudyFiles files{"a search", kSearchJournal, {kSearchReport, kBestNetwork, kFrontFolder}};
  for (const LanguageFile& file : texts) files.others.push_back(file.name);
  return files;
}
void write_texts_of_search(const std::vector<LanguageFile>& texts, const fs::path& folder) {
  for (const fs::path& place : {folder, folder / kFrontFolder}) write_language_files(texts, place, true);
}
StudyFiles comparison_files() { return {"a comparison", kComparisonJournal, {kComparisonReport}}; }

StudyFolder::StudyFolder(const TorchCommand& command, const fs::path& folder, const StudyFiles& files,
                         const Table& settings, ProcessGroup& group) {
  const auto warn = [](const std::string& text) { log_warning("{}", text); };
  std::vector<std::string> written = files.others;
  written.push_back(files.journal);
  std::vector<std::string> names = written;
  names.emplace_back(kSettings);
  if (group.is_first()) {
    lock_.emplace(folder, "detent " + command.name, warn);
    check_names_not_read(folder, names);
  }
  resumes_ = goes_on(command, folder, files, settings);
  group.all_gather({});  // the others read before the first one writes
  if (!group.is_first()) return;
  claimed_.emplace(folder, names,
                   resumes_ || command.options.overwrite || fs::exists(folder / files.journal));
  if (!resumes_) {
    for (const std::string& name : written) fs::remove_all(folder / name);
  }
  write_toml(folder / kSettings, settings);
}

}  // namespace detent
