#include "detent/files/file_roles.h"

#include "detent/core/error.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

FileRoles* kept = nullptr;

fs::path canonical_path(const fs::path& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(fs::absolute(path), error);
  return error ? fs::absolute(path) : canonical;
}

}  // namespace

FileRoles::Use::Use(FileRoles* roles) : before_(kept) { kept = roles; }
FileRoles::Use::~Use() { kept = before_; }
FileRoles* FileRoles::current() { return kept; }

FileRoles::FileId FileRoles::id_of(const struct stat& status) {
  return {status.st_dev, status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

std::optional<FileRoles::FileId> FileRoles::id_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return id_of(status);
}

void FileRoles::note_read(const struct stat& status, const fs::path& path) {
  const std::lock_guard lock(mutex_);
  const FileId id = id_of(status);
  if (const auto found = replaced_.find(id); found != replaced_.end()) {
    fail("{}: {} is read, and would be replaced: give the result another name",
         outputs_.at(found->second).where, path.string());
  }
  read_.insert(id);
}

bool FileRoles::is_read(const fs::path& path) const {
  const auto id = id_of(path);
  const std::lock_guard lock(mutex_);
  return id && read_.contains(*id);
}

void FileRoles::note_output(const fs::path& target, const std::string& where, bool replace) {
  if (is_read(target))
    fail("{}: {} is read, and would be replaced: give the result another name", where, target.string());
  const std::lock_guard lock(mutex_);
  const fs::path path = canonical_path(target);
  const auto [output, is_new] = outputs_.try_emplace(path, Output{where, replace, {}});
  if (!is_new) {
    fail("{}: {} is written by {} too: give the two results different names", where, target.string(),
         output->second.where);
  }
  if (const auto id = id_of(path)) {
    output->second.replaced = *id;
    replaced_[*id] = path;
  }
}

bool FileRoles::may_replace(const fs::path& target) const {
  const std::lock_guard lock(mutex_);
  const auto found = outputs_.empty() ? outputs_.end() : outputs_.find(canonical_path(target));
  return found == outputs_.end() || found->second.replace;
}

void FileRoles::note_written(const fs::path& target) {
  const std::lock_guard lock(mutex_);
  const auto found = outputs_.empty() ? outputs_.end() : outputs_.find(canonical_path(target));
  if (found == outputs_.end()) return;
  replaced_.erase(found->second.replaced);
  found->second.replace = true;
}

}  // namespace detent
