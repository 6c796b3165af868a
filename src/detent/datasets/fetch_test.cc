#include "detent/datasets/fetch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/datasets/dataset.h"
#include "detent/datasets/http_server_for_test.h"
#include "detent/datasets/tar_for_test.h"
#include "detent/files/checksums.h"
#include "detent/files/file.h"
#include "detent/files/gzip_for_test.h"
#include "detent/files/output_folder.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string text_of(size_t size, int seed) {
  std::string text;
  for (size_t i = 0; i < size; ++i) text += static_cast<char>(i * i + i / 13 * static_cast<size_t>(seed));
  return text;
}

const std::string kImages = text_of(200'000, 1);
const std::string kLabels = text_of(500, 2);

PublishedFile published_file(const std::string& name, const std::string& content, DigestKind kind) {
  return {name, content.size(), digest(kind, std::as_bytes(std::span(content)))};
}

PublishedDataset two_files() {
  return {.name = "two",
          .folder = "two",
          .mirrors = {},
          .files = {published_file("images.gz", kImages, DigestKind::kMd5),
                    published_file("labels.gz", kLabels, DigestKind::kSha256)},
          .archived = {}};
}

class Fetch : public testing::Test {
 protected:
  Fetch() { fs::create_directories(root_); }
  ~Fetch() override { fs::remove_all(root_); }

  /// Answers with the published files, but first as `faults` of the path say, one a request.
  HttpServer::Handler serving(std::map<std::string, std::string> files,
                              std::map<std::string, std::vector<HttpReply>> faults = {}) {
    return [files = std::move(files), faults = std::move(faults)](const HttpRequest& request) mutable {
      std::vector<HttpReply>& pending = faults[request.path];
      const auto file = files.find(request.path);
      if (pending.empty())
        return file == files.end() ? HttpReply{.status = 404} : HttpReply{.body = file->second};
      HttpReply reply = pending.front();
      pending.erase(pending.begin());
      if (reply.body.empty() && file != files.end()) reply.body = file->second;
      return reply;
    };
  }
  HttpServer::Handler serving_both(std::map<std::string, std::vector<HttpReply>> faults = {}) {
    return serving({{"/images.gz", kImages}, {"/labels.gz", kLabels}}, std::move(faults));
  }

  FetchOptions options(const std::string& from = "") {
    return {.from = from,
            .root = root_,
            .attempts = 3,
            .delay = std::chrono::milliseconds(5),
            .patience = std::chrono::seconds(1)};
  }
  void expect_complete() {
    EXPECT_EQ(read_file(root_ / "two/images.gz"), kImages);
    EXPECT_EQ(read_file(root_ / "two/labels.gz"), kLabels);
    EXPECT_TRUE(is_fetched(two_files(), root_));
    EXPECT_THAT(names(), ElementsAre("images.gz", "labels.gz"));
  }
  std::vector<std::string> names() {
    std::vector<std::string> result;
    for (const auto& entry : fs::directory_iterator(root_ / "two")) result.push_back(entry.path().filename());
    std::ranges::sort(result);
    return result;
  }
  std::string failure(const PublishedDataset& published, const FetchOptions& with) {
    return detent::error_of([&] { fetch_dataset(published, with); });
  }

  fs::path root_ = fs::temp_directory_path() / ("detent_fetch_" + std::to_string(getpid()));
};

TEST_F(Fetch, EndsWhenItsTimeIsUpAndGoesOnNextTime) {
  const HttpServer slow([](const HttpRequest& request) {
    return HttpReply{.body = request.path == "/images.gz" ? kImages : kLabels, .pause = 10};
  });
  FetchOptions hurried = options(slow.url());
  hurried.max_time = std::chrono::seconds(1);
  EXPECT_THAT(failure(two_files(), hurried), HasSubstr("images.gz: not fetched within 1 s"));
  EXPECT_THAT(names(), ElementsAre("images.gz.part"));
  const HttpServer server(serving_both());
  fetch_dataset(two_files(), options(server.url()));
  expect_complete();
  EXPECT_NE(server.log()[0], "/images.gz from 0");
}

TEST_F(Fetch, OneProcessAtATime) {
  const HttpServer server(serving_both());
  {
    const FolderLock other(root_ / "two", "detent data fetch two", [](const std::string&) {});
    EXPECT_THAT(failure(two_files(), options(server.url())),
                HasSubstr("is being written by detent data fetch two"));
  }
  fetch_dataset(two_files(), options(server.url()));
  expect_complete();
}

TEST_F(Fetch, BringsAndKeepsFiles) {
  const HttpServer server(serving_both());
  EXPECT_FALSE(is_fetched(two_files(), root_));
  std::map<std::string, uint64_t> done;
  FetchOptions from_server = options(server.url());
  from_server.progress = [&](const std::string& file, uint64_t bytes, uint64_t total) {
    done[file] = bytes;
    EXPECT_LE(bytes, total);
  };
  EXPECT_EQ(fetch_dataset(two_files(), from_server), Fetched::kNow);
  expect_complete();
  EXPECT_EQ(done["images.gz"], kImages.size());
  EXPECT_EQ(fetch_dataset(two_files(), from_server), Fetched::kBefore);
  EXPECT_EQ(server.log().size(), 2U);
  std::ofstream(root_ / "two/labels.gz", std::ios::in) << "damage";
  EXPECT_EQ(fetch_dataset(two_files(), from_server), Fetched::kNow);
  expect_complete();
  EXPECT_EQ(server.log().size(), 3U);
}

TEST_F(Fetch, SurvivesTruncationStallsAndBusyServers) {
  const HttpServer server(
      serving_both({{"/images.gz", {{.cut = 70'000}, {.stall = 50'000}}},
                    {"/labels.gz", {{.status = 503}, {.cut = 100, .says_length = false}}}}));
  fetch_dataset(two_files(), options(server.url()));
  expect_complete();
  EXPECT_THAT(server.log(),
              ElementsAre("/images.gz from 0", "/images.gz from 70000", "/images.gz from 120000",
                          "/labels.gz from 0", "/labels.gz from 0", "/labels.gz from 100"));
}

TEST_F(Fetch, SurvivesCorruptionRedirectsAndServersWithoutRanges) {
  std::string corrupted = kImages;
  corrupted[1000] ^= 1;
  const HttpServer server(serving({{"/images.gz", kImages}, {"/elsewhere", kLabels}},
                                  {{"/images.gz", {{.body = corrupted}, {.cut = 70'000}, {.ranges = false}}},
                                   {"/labels.gz", {{.status = 301, .location = "/elsewhere"}}}}));
  fetch_dataset(two_files(), options(server.url()));
  expect_complete();
}

/// A run that was killed leaves a part; if that is damaged, it is not built upon for ever.
TEST_F(Fetch, GoesOnFromAnEarlierRun) {
  fs::create_directories(root_ / "two");
  std::ofstream(root_ / "two/images.gz.part") << kImages.substr(0, 150'000);
  std::ofstream(root_ / "two/labels.gz.part") << "not the beginning of it";
  const HttpServer server(serving_both());
  fetch_dataset(two_files(), options(server.url()));
  expect_complete();
  EXPECT_THAT(server.log(), ElementsAre("/images.gz from 150000", "/labels.gz from 23", "/labels.gz from 0"));
}

TEST_F(Fetch, TriesMirrorsInOrder) {
  const HttpServer without(serving({}));
  const HttpServer with(serving_both());
  PublishedDataset published = two_files();
  published.mirrors = {"http://127.0.0.1:1/", without.url(), with.url()};
  fetch_dataset(published, options());
  expect_complete();
  EXPECT_EQ(without.log().size(), 2U);  // nothing that is missing is asked for twice
}

TEST_F(Fetch, FailsWithEveryReasonAndWithoutHalfFiles) {
  std::string corrupted = kImages;
  corrupted[1000] ^= 1;
  const HttpServer missing(serving({}));
  const HttpServer wrong(serving({{"/images.gz", corrupted}}));
  const HttpServer broken([](const HttpRequest&) { return HttpReply{.status = 500}; });
  PublishedDataset published = two_files();
  published.mirrors = {missing.url(), wrong.url(), broken.url()};
  EXPECT_THAT(
      failure(published, options()),
      AllOf(HasSubstr("two: cannot fetch images.gz:"), HasSubstr(missing.url("/images.gz")), HasSubstr("404"),
            HasSubstr("is not the published file"), HasSubstr("its MD5 is"), HasSubstr("500")));
  EXPECT_FALSE(fs::exists(root_ / "two/images.gz"));
  EXPECT_EQ(broken.log().size(), 3U);
  EXPECT_THAT(names(), ElementsAre());
  const HttpServer large([](const HttpRequest&) { return HttpReply{.body = kImages + "more"}; });
  EXPECT_THAT(failure(two_files(), options(large.url())), HasSubstr("sends more than the 200000 bytes"));
  EXPECT_FALSE(fs::exists(root_ / "two/images.gz"));
}

TEST_F(Fetch, CopiesFromAFolder) {
  const fs::path folder = root_ / "disk";
  fs::create_directories(folder);
  std::ofstream(folder / "images.gz") << kImages;
  EXPECT_THAT(failure(two_files(), options(folder)), AllOf(HasSubstr("cannot copy"), HasSubstr("labels.gz")));
  std::ofstream(folder / "labels.gz") << "wrong";
  EXPECT_THAT(failure(two_files(), options(folder)),
              AllOf(HasSubstr((folder / "labels.gz").string()), HasSubstr("got 5 bytes, expected 500")));
  std::ofstream(folder / "labels.gz") << kLabels;
  fetch_dataset(two_files(), options(folder));
  expect_complete();
}

TEST_F(Fetch, KeepsOtherFilesOfTheSameName) {
  const HttpServer server(serving_both());
  fs::create_directories(root_ / "two");
  std::ofstream(root_ / "two/labels.gz") << "mine";
  EXPECT_THAT(failure(two_files(), options(server.url())),
              AllOf(HasSubstr("two/labels.gz has 4 bytes, the published file 500"), HasSubstr("--data-dir")));
  EXPECT_EQ(read_file(root_ / "two/labels.gz"), "mine");
}

PublishedDataset archive_of(const std::string& archive) {
  return {.name = "packed",
          .folder = "two",
          .mirrors = {},
          .files = {published_file("all.tar.gz", archive, DigestKind::kMd5)},
          .archived = {{"images.gz", kImages.size()}, {"labels.gz", kLabels.size()}}};
}

TEST_F(Fetch, UnpacksArchives) {
  const std::string archive =
      gzip_for_test(tar_member("all/readme", "text") + tar_member("all/images.gz", kImages) +
                    tar_member("all/labels.gz", kLabels) + tar_end());
  const HttpServer server(serving({{"/all.tar.gz", archive}}));
  EXPECT_EQ(fetch_dataset(archive_of(archive), options(server.url())), Fetched::kNow);
  expect_complete();
  EXPECT_EQ(fetch_dataset(archive_of(archive), options(server.url())), Fetched::kBefore);
}

TEST_F(Fetch, RemovesWhatAKilledRunHasLeftOfAnArchive) {
  const PublishedDataset published = archive_of("removed already");
  fs::create_directories(root_ / "two");
  std::ofstream(root_ / "two/images.gz") << kImages;
  std::ofstream(root_ / "two/labels.gz") << kLabels;
  std::ofstream(root_ / "two/all.tar.gz.part") << "removed al";
  std::ofstream(FolderLock::file_for(root_ / "two")) << "detent data fetch two (process 1)\n";
  EXPECT_EQ(fetch_dataset(published, options()), Fetched::kBefore);
  expect_complete();
  EXPECT_FALSE(fs::exists(FolderLock::file_for(root_ / "two")));
}

TEST_F(Fetch, RefusesArchivesThatAreNotWhatTheySay) {
  const std::string images = tar_member("images.gz", kImages);
  const std::string labels = tar_member("labels.gz", kLabels);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {images + tar_end(), "holds no \"labels.gz\""},
      {images + labels + images + tar_end(), "expected it once"},
      {images + tar_member("labels.gz", "short") + tar_end(), "of 5 bytes, expected it once with 500"},
      {images + labels + tar_member("../escaped", "x") + tar_end(), "leads out of the folder"},
      {images + labels + tar_member("link", "", '2') + tar_end(), "no regular file"},
      {images + labels + tar_member("bomb", std::string(2 << 20, '0')) + tar_end(), "more than expected"},
      {images + labels.substr(0, 600), "cut off"},
  };
  for (const auto& [tar, message] : cases) {
    const std::string archive = gzip_for_test(tar);
    const HttpServer server(serving({{"/all.tar.gz", archive}}));
    EXPECT_THAT(failure(archive_of(archive), options(server.url())), HasSubstr(message));
    EXPECT_FALSE(fs::exists(root_ / "two/images.gz")) << message;
    EXPECT_FALSE(fs::exists(root_ / "two/labels.gz")) << message;
    EXPECT_FALSE(fs::exists(root_ / "escaped"));
    fs::remove_all(root_ / "two");
  }
}

TEST(PublishedFiles, AreThoseOfDataSets) {
  for (const PublishedDataset& published : published_datasets()) {
    EXPECT_EQ(dataset_info(published.name).name, published.name);
    EXPECT_GE(published.mirrors.size(), 2U);
    for (const std::string& mirror : published.mirrors) EXPECT_TRUE(mirror.ends_with('/')) << mirror;
    for (const PublishedFile& file : published.files) {
      EXPECT_TRUE(file.digest.size() == 32 || file.digest.size() == 64) << file.name;
    }
  }
  EXPECT_EQ(published_dataset("cifar-10").name, "cifar10");
  EXPECT_THAT([] { published_dataset("cifar11"); },
              ThrowsMessage<Error>(HasSubstr("did you mean \"cifar10\"?")));
}

}  // namespace
}  // namespace detent
