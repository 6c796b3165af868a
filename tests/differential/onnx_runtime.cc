#include "runs.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "detent/core/error.h"

namespace detent {

OnnxRuntime::OnnxRuntime(std::filesystem::path folder) : folder_(std::move(folder)) {
  if (!std::filesystem::is_directory(folder_ / "node_modules" / "onnxruntime-node"))
    fail("{}: there is no onnxruntime-node: npm install onnxruntime-node@1.30.0 --ignore-scripts",
         folder_.string());
  if (std::system("node --version > /dev/null 2>&1") != 0) fail("there is no node, which runs ONNX Runtime");
  signal(SIGPIPE, SIG_IGN);
  begin();
}

OnnxRuntime::~OnnxRuntime() { end(); }

void OnnxRuntime::begin() {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0)
    fail("pipe: no descriptors left");
  process_ = fork();
  if (process_ == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    setenv("ORT_DIR", std::filesystem::absolute(folder_).c_str(), 1);
    execlp("node", "node", DETENT_SOURCE_DIR "/tests/differential/run_many.mjs", nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  to_ = in[1];
  from_ = out[0];
  read_.clear();
}

void OnnxRuntime::end() {
  if (process_ < 0) return;
  close(to_);
  close(from_);
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = -1;
}

bool OnnxRuntime::read_line(std::string& line) {
  constexpr int kMostMilliseconds = 20'000;
  while (true) {
    const size_t at = read_.find('\n');
    if (at != std::string::npos) {
      line = read_.substr(0, at);
      read_.erase(0, at + 1);
      return true;
    }
    pollfd waited{from_, POLLIN, 0};
    std::array<char, 4096> buffer;
    if (poll(&waited, 1, kMostMilliseconds) <= 0) return false;
    const ssize_t count = read(from_, buffer.data(), buffer.size());
    if (count <= 0) return false;
    read_.append(buffer.data(), static_cast<size_t>(count));
  }
}

std::string OnnxRuntime::run(const std::filesystem::path& model, const std::string& prefix,
                             const std::vector<std::pair<std::string, std::filesystem::path>>& inputs) {
  std::string request = model.string() + "\t" + prefix;
  for (const auto& [name, file] : inputs) request += "\t" + name + "=" + file.string();
  request += "\n";
  std::string answer;
  const bool is_written = write(to_, request.data(), request.size()) == static_cast<ssize_t>(request.size());
  do {
    if (is_written && read_line(answer)) continue;
    end();
    begin();
    return "ONNX Runtime crashed or took too long";
  } while (answer != "ok" && !answer.starts_with("refused"));  // it prints warnings of its own
  if (answer == "ok") return "";
  return answer;
}

}  // namespace detent
