#include "detent/files/checksums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string md5(const std::string& text) { return digest(DigestKind::kMd5, std::as_bytes(std::span(text))); }
std::string sha256(const std::string& text) {
  return digest(DigestKind::kSha256, std::as_bytes(std::span(text)));
}

/// The test suites of RFC 1321, A.5, and of FIPS 180-4's examples.
TEST(Digest, GivesThePublishedValues) {
  EXPECT_EQ(md5(""), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5("abc"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5("12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a");
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(md5(std::string(1'000'000, 'a')), "7707d6ae4e027c70eea2a935c2296f21");
}

/// RFC 4231, cases 1, 2 and 6.
TEST(Digest, HmacGivesThePublishedValues) {
  const auto hmac = [](const std::string& key, const std::string& message) {
    return hmac_sha256(std::as_bytes(std::span(key)), std::as_bytes(std::span(message)));
  };
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(Digest, OfFiles) {
  const TemporaryPath path("abc.txt");
  path.overwrite("abc");
  check_digest(path.get(), md5("abc"));
  check_digest(path.get(), sha256("abc"));
  EXPECT_THAT([&] { check_digest(path.get(), md5("abd")); },
              ThrowsMessage<Error>(HasSubstr("its MD5 is 900150983cd24fb0d6963f7d28e17f72, expected ")));
  EXPECT_THAT([&] { check_digest(path.get(), sha256("abd")); }, ThrowsMessage<Error>(HasSubstr("SHA-256")));
}

}  // namespace
}  // namespace detent
