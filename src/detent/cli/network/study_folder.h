#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/cli/torch_command.h"
#include "detent/core/process_group.h"
#include "detent/core/value.h"
#include "detent/files/output_folder.h"

namespace detent {

struct LanguageFile;

/// A command whose measurements stand in a journal, so that it can be resumed.
struct StudyFiles {
  std::string study;    // "a search", for messages
  std::string journal;  // its name in the folder
  std::vector<std::string> others;
};

/// Files of `detent search`, with those that the texts of a language model need.
StudyFiles search_files(const std::vector<LanguageFile>& texts);
/// Writes the latter beside the best network of a search, and beside its front.
void write_texts_of_search(const std::vector<LanguageFile>& texts, const std::filesystem::path& folder);
/// Journal of `detent compare`.
constexpr const char* kComparisonJournal = "comparison.jsonl";
constexpr const char* kComparisonReport = "comparison.json";
StudyFiles comparison_files();

/// The folder of such a command, locked and claimed by the first worker while it lives. The settings that it
/// was begun with stand in settings.toml.
class StudyFolder {
 public:
  /// Removes what another study left there, unless it goes on. Throws Error where --resume finds none, or one
  /// with other settings, and where there is one that is neither resumed nor begun anew (--overwrite).
  StudyFolder(const TorchCommand& command, const std::filesystem::path& folder, const StudyFiles& files,
              const Table& settings, ProcessGroup& group);

  bool resumes() const { return resumes_; }

 private:
  std::optional<FolderLock> lock_;
  std::optional<ClaimedNames> claimed_;
  bool resumes_ = false;
};

}  // namespace detent
