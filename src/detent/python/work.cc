#include "detent/python/work.h"

#include <stdlib.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <vector>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "detent/cli/torch_command.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"

namespace nb = nanobind;

namespace detent::python {
namespace {

struct Message {
  spdlog::level::level_enum level;
  std::string text;
};

class KeptMessages final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<Message> take() {
    if (!has_some_.exchange(false)) return {};
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }
  List warnings() {
    const std::lock_guard lock(mutex_);
    List texts;
    for (const Message& message : messages_)
      if (message.level >= spdlog::level::warn) texts.emplace_back(message.text);
    return texts;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    messages_.push_back({message.level, std::string(message.payload.data(), message.payload.size())});
    has_some_ = true;
  }
  void flush_() override {}

  std::vector<Message> messages_;
  std::atomic<bool> has_some_ = false;
};

std::shared_ptr<KeptMessages>& kept_messages() {
  static auto messages = std::make_shared<KeptMessages>();
  return messages;
}

/// Level of Python's module logging.
int python_level(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::critical:
      return 50;
    case spdlog::level::err:
      return 40;
    case spdlog::level::warn:
      return 30;
    case spdlog::level::info:
      return 20;
    default:
      return 10;
  }
}

}  // namespace

void keep_messages() {
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("detent", kept_messages()));
  spdlog::set_level(spdlog::level::info);
}

List pending_warnings() { return kept_messages()->warnings(); }

void deliver_messages() {
  const std::vector<Message> messages = kept_messages()->take();
  if (messages.empty()) return;
  try {
    const nb::object logger = nb::module_::import_("logging").attr("getLogger")("detent");
    const nb::object in_python_words = nb::module_::import_("detent._errors").attr("in_python_words");
    for (const Message& message : messages)
      logger.attr("log")(python_level(message.level), nb::str("%s"),
                         in_python_words(nb::str(message.text.c_str(), message.text.size())));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;  // Ctrl-C while the handler ran
    error.discard_as_unraisable("a handler of the logger \"detent\"");
  }
}

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() : path_((fs::temp_directory_path() / "detent-XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr)
    fail("{}: cannot make a temporary folder: {}", path_, std::strerror(errno));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::unique_lock<std::timed_mutex> lock_generator() {
  static std::timed_mutex mutex;
  std::unique_lock<std::timed_mutex> lock(mutex, std::defer_lock);
  while (!lock.try_lock_for(std::chrono::milliseconds(50))) check_interruption();
  return lock;
}

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
