#include "detent/datasets/image_dataset.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/core/parallel.h"
#include "detent/core/progress.h"
#include "detent/datasets/image.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// "" where it can be.
std::string why_not_read(const fs::path& path) {
  try {
    read_image(path);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

struct KnownImages {
  std::mutex mutex;
  std::map<fs::path, std::string> why_not;  // "": it can be read
};

KnownImages& known_images() {
  static KnownImages known;
  return known;
}

}  // namespace

std::vector<size_t> broken_images(const std::vector<fs::path>& images) {
  const std::lock_guard lock(known_images().mutex);
  std::map<fs::path, std::string>& known = known_images().why_not;
  std::vector<const fs::path*> unknown;
  for (const fs::path& path : images) {
    if (!known.contains(path)) unknown.push_back(&path);
  }
  std::vector<std::string> reasons(unknown.size());
  Progress progress("looking for broken images", std::ssize(unknown));
  parallel_for(std::ssize(unknown), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      reasons[i] = why_not_read(*unknown[i]);
  });
  progress.finish();
  for (size_t i = 0; i < unknown.size(); ++i) {
    known[*unknown[i]] = reasons[i];
    if (!reasons[i].empty()) warn_once(reasons[i] + ": left out");
  }
  std::vector<size_t> broken;
  for (size_t i = 0; i < images.size(); ++i) {
    if (!known[images[i]].empty()) broken.push_back(i);
  }
  return broken;
}

size_t broken_image_count() {
  const std::lock_guard lock(known_images().mutex);
  const auto is_broken = [](const auto& image) { return !image.second.empty(); };
  return static_cast<size_t>(std::ranges::count_if(known_images().why_not, is_broken));
}

}  // namespace detent
