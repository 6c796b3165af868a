#include "detent/datasets/fetch.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <thread>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/download.h"
#include "detent/datasets/tar.h"
#include "detent/files/checksums.h"
#include "detent/files/file.h"
#include "detent/files/output_folder.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Most bytes of an archive beside the files that are kept: texts, names of classes.
constexpr uint64_t kMostOtherBytes = uint64_t{1} << 20;

bool has_size(const fs::path& path, uint64_t size) {
  std::error_code missing;
  return fs::is_regular_file(path, missing) && fs::file_size(path, missing) == size && !missing;
}

bool is_address(const std::string& from) { return from.find("://") != std::string::npos; }

/// When everything must be there.
class Deadline {
 public:
  explicit Deadline(std::chrono::seconds limit)
      : limit_(limit), end_(std::chrono::steady_clock::now() + limit) {}

  /// Throws Error when nothing is left.
  std::chrono::milliseconds left(const std::string& url) const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
    if (left.count() > 0) return left;
    throw TimeIsUp(
        fmt::format("{}: not fetched within {} s; the same command resumes there, --max-time gives more", url,
                    limit_.count()));
  }

  /// No mirror helps.
  class TimeIsUp : public Error {
   public:
    using Error::Error;
  };

 private:
  std::chrono::seconds limit_;
  std::chrono::steady_clock::time_point end_;
};

/// Downloads what is missing of `part`; repeats while that makes sense.
void download_patiently(const std::string& url, const PublishedFile& file, const fs::path& part,
                        const FetchOptions& options, const Deadline& deadline) {
  const auto progress = [&](uint64_t done, uint64_t total) {
    if (options.progress) options.progress(file.name, done, total == 0 ? file.size : total);
  };
  std::chrono::milliseconds delay = options.delay;
  for (int attempt = 1;; ++attempt) {
    try {
      download({.url = url,
                .target = part,
                .limit = file.size,
                .patience = options.patience,
                .least_speed = options.least_speed,
                .time_limit = deadline.left(url),
                .progress = progress});
      const uint64_t size = fs::file_size(part);
      if (size >= file.size) return;
      throw TransientError(fmt::format("{}: ended after {} of {} bytes", url, size, file.size));
    } catch (const TransientError& error) {
      deadline.left(url);
      if (attempt >= options.attempts) throw;
      log_warning("{}; attempt {} of {} in {:.1f} s", error.what(), attempt + 1, options.attempts,
                  std::chrono::duration<double>(delay).count());
    }
    std::this_thread::sleep_for(std::min(delay, deadline.left(url)));
    delay *= 2;
  }
}

/// The received file is not the published one.
class DamagedError : public Error {
 public:
  using Error::Error;
};

/// A part that is damaged must not be what the next attempt resumes from.
void check_part(const PublishedFile& file, const fs::path& part, const std::string& source) {
  try {
    const uint64_t size = fs::file_size(part);
    if (size != file.size) fail("got {} bytes, expected {}", size, file.size);
    check_digest(part, file.digest);
  } catch (const Error& error) {
    fs::remove(part);
    throw DamagedError(fmt::format("{}: is not the published file: {}", source, error.what()));
  }
}

void fetch_from_address(const std::string& address, const PublishedFile& file, const fs::path& part,
                        const FetchOptions& options, const Deadline& deadline) {
  const std::string url = address + (address.ends_with('/') ? "" : "/") + file.name;
  if (fs::is_symlink(part)) fail("{}: it is a symbolic link: remove it", part.string());
  const auto fetch = [&] {
    if (!has_size(part, file.size)) download_patiently(url, file, part, options, deadline);
    check_part(file, part, url);
  };
  try {
    fetch();
  } catch (const DamagedError& error) {
    log_warning("{}; it is discarded and fetched once more", error.what());
    fetch();
  }
}

void copy_from_folder(const fs::path& folder, const PublishedFile& file, const fs::path& part) {
  const fs::path source = folder / file.name;
  std::error_code error;
  fs::remove(part, error);  // what it links to, if it is a link, is none of ours
  if (!error) fs::copy_file(source, part, error);
  if (error) fail("cannot copy {} to {}: {}", source.string(), part.string(), error.message());
  fs::permissions(part, fs::perms::owner_write, fs::perm_options::add);
  check_part(file, part, source.string());
}

void fetch_part(const PublishedDataset& published, const PublishedFile& file, const fs::path& part,
                const FetchOptions& options, const Deadline& deadline) {
  if (!options.from.empty() && !is_address(options.from)) return copy_from_folder(options.from, file, part);
  const std::vector<std::string> sources =
      options.from.empty() ? published.mirrors : std::vector{options.from};
  std::string problems;
  for (const std::string& source : sources) {
    try {
      return fetch_from_address(source, file, part, options, deadline);
    } catch (const Deadline::TimeIsUp&) {
      throw;
    } catch (const Error& error) {
      problems += fmt::format("\n  {}", error.what());
      if (&source != &sources.back()) log_warning("{}; trying the next mirror", error.what());
    }
  }
  std::error_code nothing;
  if (fs::file_size(part, nothing) == 0) fs::remove(part, nothing);
  fail("{}: cannot fetch {}:{}", published.name, file.name, problems);
}

/// Unpacks the wanted files; they get their names when the whole archive was read.
void unpack(const PublishedDataset& published, const fs::path& archive, const fs::path& folder) {
  uint64_t limit = kMostOtherBytes;
  for (const ArchivedFile& file : published.archived) limit += file.size;
  TarReader tar(archive, limit);
  std::vector<std::unique_ptr<AtomicFile>> unpacked;
  std::vector<std::string> missing;
  for (const ArchivedFile& file : published.archived) missing.push_back(file.name);
  std::vector<std::byte> buffer(size_t{1} << 20);
  TarMember member;
  while (tar.next(member)) {
    const std::string name = fs::path(member.name).filename().string();
    const auto wanted = std::ranges::find(published.archived, name, &ArchivedFile::name);
    if (wanted == published.archived.end()) continue;
    if (member.size != wanted->size || std::erase(missing, name) == 0) {
      fail("{}: \"{}\" of {} bytes, expected it once with {}", archive.string(), member.name, member.size,
           wanted->size);
    }
    unpacked.push_back(std::make_unique<AtomicFile>(folder / name));
    while (const size_t size = tar.read(buffer)) unpacked.back()->write(std::span(buffer).first(size));
  }
  if (!missing.empty()) fail("{}: holds no \"{}\"", archive.string(), missing.front());
  for (const auto& file : unpacked) file->commit();
}

bool is_intact(const PublishedFile& file, const fs::path& path) {
  if (!has_size(path, file.size)) return false;
  try {
    check_digest(path, file.digest);
    return true;
  } catch (const Error& error) {
    log_warning("{}; it is fetched again", error.what());
    return false;
  }
}

fs::path part_of(const PublishedFile& file, const fs::path& folder) { return folder / (file.name + ".part"); }

/// Whether there are files, which we may remove, left by a run that was killed after unpacking.
bool has_leftovers(const PublishedDataset& published, const fs::path& folder) {
  const fs::path lock = FolderLock::file_for(folder);
  if (access(lock.parent_path().c_str(), W_OK) != 0) return false;
  const auto is_left = [&](const PublishedFile& file) { return fs::exists(part_of(file, folder)); };
  return fs::exists(lock) || std::ranges::any_of(published.files, is_left);
}

void remove_parts(const PublishedDataset& published, const fs::path& folder) {
  for (const PublishedFile& file : published.files) fs::remove(part_of(file, folder));
}

/// One of the same size was damaged: it is fetched again.
void refuse_files_of_others(const PublishedDataset& published, const fs::path& folder) {
  const auto check = [&](const std::string& name, uint64_t size) {
    const fs::path path = folder / name;
    if (fs::is_regular_file(path) && !has_size(path, size)) {
      fail(
          "{} has {} bytes, the published file {}: it is another one; move it away, or fetch into another "
          "folder (--data-dir)",
          path.string(), fs::file_size(path), size);
    }
  };
  if (published.archived.empty()) {
    for (const PublishedFile& file : published.files) check(file.name, file.size);
  }
  for (const ArchivedFile& file : published.archived) check(file.name, file.size);
}

}  // namespace

bool is_fetched(const PublishedDataset& published, const fs::path& root) {
  const fs::path folder = root / published.folder;
  const auto is_there = [&](const auto& file) { return has_size(folder / file.name, file.size); };
  return published.archived.empty() ? std::ranges::all_of(published.files, is_there)
                                    : std::ranges::all_of(published.archived, is_there);
}

Fetched fetch_dataset(const PublishedDataset& published, const FetchOptions& options) {
  const fs::path folder = options.root / published.folder;
  const bool archive = !published.archived.empty();
  // Nothing is written then, not even a lock: the folder may be one that others keep.
  if (archive && is_fetched(published, options.root) && !has_leftovers(published, folder))
    return Fetched::kBefore;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail("cannot create directory {}: {}", folder.string(), error.message());
  const FolderLock lock(folder, "detent data fetch " + published.name,
                        [](const std::string& text) { log_warning("{}", text); });
  if (archive && is_fetched(published, options.root)) {
    remove_parts(published, folder);
    return Fetched::kBefore;
  }
  refuse_files_of_others(published, folder);
  const Deadline deadline(options.max_time);
  Fetched result = Fetched::kBefore;
  for (const PublishedFile& file : published.files) {
    const fs::path path = folder / file.name;
    if (!archive && is_intact(file, path)) continue;
    result = Fetched::kNow;
    const fs::path part = part_of(file, folder);
    fetch_part(published, file, part, options, deadline);
    if (archive) {
      unpack(published, part, folder);
      fs::remove(part);
    } else {
      fs::rename(part, output_file(path));
    }
  }
  return result;
}

}  // namespace detent
