#include "detent/datasets/download.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "detent/datasets/http_server_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string some_bytes(size_t size) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>(i * i * 31 + i / 7);
  return text;
}

const std::string kBody = some_bytes(300'000);

class DownloadTest : public testing::Test {
 protected:
  Download request(const std::string& url) const {
    return {.url = url, .target = path_.get(), .limit = kBody.size(), .patience = std::chrono::seconds(1)};
  }
  std::string content() const { return read_file(path_.get()); }

  TemporaryPath path_{"file.part"};
};

TEST_F(DownloadTest, BringsTheWholeFile) {
  const HttpServer server([](const HttpRequest&) { return HttpReply{.body = kBody}; });
  Download whole = request(server.url("/a.gz"));
  uint64_t last = 0;
  whole.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GT(done, last);
    EXPECT_EQ(total, kBody.size());
    last = done;
  };
  download(whole);
  EXPECT_EQ(content(), kBody);
  EXPECT_EQ(last, kBody.size());
}

TEST_F(DownloadTest, WritesNeitherLinksNorFifos) {
  const HttpServer server([](const HttpRequest&) { return HttpReply{.body = kBody}; });
  const std::filesystem::path victim = path_.get().parent_path() / "victim";
  write_file(victim, "kept");
  std::filesystem::create_symlink(victim, path_.get());
  EXPECT_THAT([&] { download(request(server.url("/a.gz"))); },
              ThrowsMessage<Error>(HasSubstr("file.part: it is a symbolic link")));
  EXPECT_EQ(read_file(victim), "kept");
  std::filesystem::remove(path_.get());
  ASSERT_EQ(mkfifo(path_.get().c_str(), 0600), 0);
  const int reader = open(path_.get().c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_THAT([&] { download(request(server.url("/a.gz"))); },
              ThrowsMessage<Error>(HasSubstr("file.part: it is a FIFO")));
  close(reader);
}

TEST_F(DownloadTest, GoesOnWhereItStopped) {
  const HttpServer server([](const HttpRequest& asked) {
    return HttpReply{.body = kBody, .cut = asked.begin == 0 ? 100'000 : std::numeric_limits<size_t>::max()};
  });
  EXPECT_THROW(download(request(server.url("/a.gz"))), TransientError);
  EXPECT_EQ(content(), kBody.substr(0, 100'000));
  download(request(server.url("/a.gz")));
  EXPECT_EQ(content(), kBody);
  EXPECT_THAT(server.log(), ElementsAre("/a.gz from 0", "/a.gz from 100000"));
}

TEST_F(DownloadTest, AServerMayRefuseRanges) {
  const HttpServer server([](const HttpRequest&) { return HttpReply{.body = kBody, .ranges = false}; });
  path_.overwrite("something else");
  download(request(server.url("/a.gz")));
  EXPECT_EQ(content(), kBody);
}

TEST_F(DownloadTest, APartLongerThanTheFileIsDropped) {
  const HttpServer server([](const HttpRequest&) { return HttpReply{.body = "short"}; });
  path_.overwrite("longer than the file");
  EXPECT_THROW(download(request(server.url("/a.gz"))), TransientError);
  EXPECT_EQ(content(), "");
}

TEST_F(DownloadTest, FollowsRedirectsToHttpOnly) {
  const HttpServer server([](const HttpRequest& asked) {
    if (asked.path == "/old") return HttpReply{.status = 302, .location = "/new"};
    if (asked.path == "/file") return HttpReply{.status = 302, .location = "file:///etc/hostname"};
    if (asked.path == "/loop") return HttpReply{.status = 302, .location = "/loop"};
    return HttpReply{.body = kBody};
  });
  download(request(server.url("/old")));
  EXPECT_EQ(content(), kBody);
  path_.overwrite("");
  EXPECT_THROW(download(request(server.url("/file"))), Error);
  EXPECT_THROW(download(request(server.url("/loop"))), Error);
  EXPECT_EQ(server.log().size(), 2U + 1 + 11);
}

TEST_F(DownloadTest, TellsWhatMayPassFromWhatWillNot) {
  const HttpServer server([](const HttpRequest& asked) {
    if (asked.path == "/stall") return HttpReply{.body = kBody, .stall = 5000};
    return HttpReply{.status = std::atoi(asked.path.c_str() + 1), .body = "an error page"};
  });
  for (const char* path : {"/408", "/429", "/500", "/503", "/stall"}) {
    EXPECT_THROW(download(request(server.url(path))), TransientError) << path;
  }
  EXPECT_EQ(content(), kBody.substr(0, 5000));  // and no error page
  path_.overwrite("");
  for (const char* path : {"/400", "/403", "/404"}) {
    try {
      download(request(server.url(path)));
      FAIL() << path;
    } catch (const TransientError& error) {
      FAIL() << error.what();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr(server.url(path)), HasSubstr(path + 1)));
    }
  }
  EXPECT_EQ(content(), "");
}

TEST_F(DownloadTest, EndsWhenItIsTooSlowOrTakesTooLong) {
  // 10,000 bytes a second, so never without a byte.
  const HttpServer server([](const HttpRequest&) { return HttpReply{.body = kBody, .pause = 10}; });
  Download slow = request(server.url("/a.gz"));
  slow.least_speed = 100'000;
  EXPECT_THROW(download(slow), TransientError);
  EXPECT_LT(content().size(), kBody.size());
  EXPECT_GT(content().size(), 0U);
  path_.overwrite("");
  slow.least_speed = 1;
  slow.time_limit = std::chrono::milliseconds(300);
  EXPECT_THROW(download(slow), TransientError);
  EXPECT_LT(content().size(), kBody.size());
  EXPECT_GT(content().size(), 0U);
}

TEST_F(DownloadTest, MistakesAreNamed) {
  const HttpServer server([](const HttpRequest&) { return HttpReply{.body = kBody + "x"}; });
  EXPECT_THAT([&] { download(request(server.url("/large"))); },
              ThrowsMessage<Error>(HasSubstr("sends more than the 300000 bytes that are expected")));
  EXPECT_LE(content().size(), kBody.size());
  EXPECT_THROW(download(request("http://127.0.0.1:1/closed")), TransientError);
  EXPECT_THROW(download(request("ftp://127.0.0.1/file")), Error);
  EXPECT_THAT([&] { download({.url = server.url(), .target = "missing/folder/a", .limit = 1}); },
              ThrowsMessage<Error>(HasSubstr("cannot create missing/folder/a")));
  const int other = open(path_.get().c_str(), O_WRONLY);
  ASSERT_EQ(flock(other, LOCK_EX), 0);
  EXPECT_THAT([&] { download(request(server.url("/a"))); },
              ThrowsMessage<Error>(HasSubstr("another download is writing it")));
  close(other);
}

}  // namespace
}  // namespace detent
