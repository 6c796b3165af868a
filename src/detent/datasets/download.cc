#include "detent/datasets/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "detent/files/loaded_library.h"
#include "detent/files/unfinished_file.h"

namespace detent {
namespace {

/// The functions of libcurl that are used.
struct CurlLibrary {
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_getinfo) easy_getinfo;
  decltype(&curl_easy_strerror) easy_strerror;
};

CurlLibrary load_curl() {
  const LoadedLibrary library("libcurl.so.4", "downloads need libcurl (package libcurl4)");
  CurlLibrary curl{};
  library.find("curl_easy_init", curl.easy_init);
  library.find("curl_easy_cleanup", curl.easy_cleanup);
  library.find("curl_easy_setopt", curl.easy_setopt);
  library.find("curl_easy_perform", curl.easy_perform);
  library.find("curl_easy_getinfo", curl.easy_getinfo);
  library.find("curl_easy_strerror", curl.easy_strerror);
  return curl;
}

/// Loads libcurl.so.4 on the first call. Throws Error when that fails.
const CurlLibrary& curl_library() {
  static const CurlLibrary kLibrary = load_curl();
  return kLibrary;
}

constexpr long kPartialContent = 206;
constexpr long kRangeNotSatisfiable = 416;
constexpr long kMostRedirects = 10;

/// The growing file. Locked, so that two downloads do not write it together.
class Target {
 public:
  explicit Target(const std::filesystem::path& path) {
    descriptor_ = open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno == ELOOP) fail("cannot write {}: it is a symbolic link", path.string());
    if (descriptor_ < 0) fail("cannot create {}: {}", path.string(), std::strerror(errno));
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(descriptor_);
      fail("cannot write {}: it is {}, expected a regular file", path.string(),
           file_type_text(status.st_mode));
    }
    if (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      close(descriptor_);
      fail("{}: another download is writing it", path.string());
    }
    size_ = static_cast<uint64_t>(std::max<off_t>(lseek(descriptor_, 0, SEEK_END), 0));
  }
  ~Target() { close(descriptor_); }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  uint64_t size() const { return size_; }
  bool clear() {
    size_ = 0;
    return ftruncate(descriptor_, 0) == 0 && lseek(descriptor_, 0, SEEK_SET) == 0;
  }
  bool append(const char* data, size_t size) {
    while (size > 0) {
      const ssize_t written = ::write(descriptor_, data, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      data += written;
      size -= static_cast<size_t>(written);
      size_ += static_cast<uint64_t>(written);
    }
    return true;
  }

 private:
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

bool is_transient(CURLcode code) {
  constexpr std::array kCodes = {CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,   CURLE_PARTIAL_FILE,
                                 CURLE_OPERATION_TIMEDOUT,   CURLE_GOT_NOTHING,       CURLE_SEND_ERROR,
                                 CURLE_RECV_ERROR,           CURLE_SSL_CONNECT_ERROR, CURLE_HTTP2,
                                 CURLE_HTTP2_STREAM};
  return std::ranges::find(kCodes, code) != kCodes.end();
}

bool is_transient(long status) {
  return status == 408 || status == 425 || status == 429 || (status >= 500 && status <= 599);
}

/// One attempt. libcurl calls back through C, which no exception may cross: a callback that gives up leaves
/// the reason in `problem_`.
class Attempt {
 public:
  explicit Attempt(const Download& request)
      : request_(request),
        curl_(curl_library()),
        handle_(curl_.easy_init(), curl_.easy_cleanup),
        target_(request.target),
        begin_(target_.size()) {
    DETENT_CHECK(handle_ != nullptr, "curl_easy_init");
  }

  void run() {
    configure();
    const CURLcode code = curl_.easy_perform(handle_.get());
    const long status = this->status();
    if (!problem_.empty()) fail("{}: {}", request_.url, problem_);
    if (status == kRangeNotSatisfiable) {
      // The partial file is no beginning of the server's present one.
      if (!target_.clear()) fail("cannot write {}: {}", request_.target.string(), std::strerror(errno));
      throw TransientError(
          fmt::format("{}: the server has fewer bytes than were received before", request_.url));
    }
    if (code != CURLE_OK) report(code, status);
  }

 private:
  template <class T>
  void set(CURLoption option, T value) {
    const CURLcode code = curl_.easy_setopt(handle_.get(), option, value);
    DETENT_CHECK(code == CURLE_OK, "curl option {}: {}", static_cast<int>(option), curl_.easy_strerror(code));
  }

  void configure() {
    set(CURLOPT_URL, request_.url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 1L);
    set(CURLOPT_MAXREDIRS, kMostRedirects);
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_ERRORBUFFER, error_.data());
    set(CURLOPT_USERAGENT, "detent");
    const long patience = static_cast<long>(request_.patience.count());
    set(CURLOPT_CONNECTTIMEOUT, patience);
    set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(request_.least_speed));
    set(CURLOPT_LOW_SPEED_TIME, patience);
    // 0 would be no limit.
    if (request_.time_limit) set(CURLOPT_TIMEOUT_MS, std::max<long>(request_.time_limit->count(), 1));
    set(CURLOPT_WRITEFUNCTION, &Attempt::write);
    set(CURLOPT_WRITEDATA, this);
    if (begin_ > 0) {
      range_ = fmt::format("{}-", begin_);
      set(CURLOPT_RANGE, range_.c_str());
    }
  }

  static size_t write(char* data, size_t /*one*/, size_t size, void* self) {
    return static_cast<Attempt*>(self)->take(data, size) ? size : 0;
  }

  bool take(const char* data, size_t size) {
    if (!started_ && !start()) return false;
    if (target_.size() + size > request_.limit) {
      problem_ = fmt::format("sends more than the {} bytes that are expected", request_.limit);
      return false;
    }
    if (!target_.append(data, size)) {
      problem_ = fmt::format("cannot write {}: {}", request_.target.string(), std::strerror(errno));
      return false;
    }
    if (request_.progress) request_.progress(target_.size(), total_);
    return true;
  }

  /// With the first byte it is known whether the server sends the rest or all of it.
  bool start() {
    started_ = true;
    if (begin_ > 0 && status() != kPartialContent && !target_.clear()) {
      problem_ = fmt::format("cannot write {}: {}", request_.target.string(), std::strerror(errno));
      return false;
    }
    curl_off_t length = -1;
    curl_.easy_getinfo(handle_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    total_ = length < 0 ? 0 : target_.size() + static_cast<uint64_t>(length);
    return true;
  }

  long status() const {
    long status = 0;
    curl_.easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  [[noreturn]] void report(CURLcode code, long status) const {
    const char* reason = error_[0] != '\0' ? error_.data() : curl_.easy_strerror(code);
    const std::string message = fmt::format("{}: {}", request_.url, reason);
    const bool refused = code == CURLE_HTTP_RETURNED_ERROR;
    if (refused ? is_transient(status) : is_transient(code)) throw TransientError(message);
    throw Error(message);
  }

  const Download& request_;
  const CurlLibrary& curl_;
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle_;
  Target target_;
  uint64_t begin_;
  std::string range_;
  std::string problem_;
  std::array<char, CURL_ERROR_SIZE> error_{};
  uint64_t total_ = 0;
  bool started_ = false;
};

}  // namespace

void download(const Download& request) { Attempt(request).run(); }

}  // namespace detent
