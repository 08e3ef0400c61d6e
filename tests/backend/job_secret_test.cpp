// A job's secret lies in a file of this user alone, and is gone with the job; what is proved with it proves
// one message, on one connection, in one direction.

#include "backend/process/job_secret.hpp"

#include <signal.h>  // NOLINT(modernize-deprecated-headers): raise() and signal()
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): setenv() is POSIX's
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/process/message_proof.hpp"
#include "tests/backend/process_fixture.hpp"

namespace penstock {
namespace {

using testing::HasSubstr;

TEST(JobSecret, LiesInAFileOfThisUserAloneForAsLongAsItIsNeeded) {
  const std::string secret = new_secret();
  EXPECT_EQ(secret.size(), 64U);
  EXPECT_NE(secret, new_secret());
  {
    const auto left = SecretFile::leave(7, secret);
    ASSERT_TRUE(left) << left.error();
    struct stat found{};
    ASSERT_EQ(stat(secret_path(7).c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 0777U, 0600U);
    EXPECT_EQ(left_secret(7), secret);
    const std::string newer = new_secret();
    const auto again = SecretFile::leave(7, newer);
    EXPECT_EQ(left_secret(7), newer);
  }
  EXPECT_FALSE(std::filesystem::exists(secret_path(7)));
  EXPECT_THAT(left_secret(7).error(), HasSubstr("No such file or directory"));
}

/// Forks a process that leaves a secret and then has the signal; what it ends with, as waitpid() says it.
int end_with_secret(std::uint16_t port, int signal, void (*handler)(int)) {
  const pid_t process = fork();
  if (process == 0) {
    std::signal(signal, handler);
    const auto left = SecretFile::leave(port, new_secret());
    if (!left || !std::filesystem::exists(secret_path(port))) _exit(99);
    raise(signal);
    _exit(std::filesystem::exists(secret_path(port)) ? 0 : 98);
  }
  int status = 0;
  waitpid(process, &status, 0);
  return status;
}

TEST(JobSecret, ASignalThatEndsTheProcessRemovesTheFile) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = end_with_secret(9, signal, SIG_DFL);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_FALSE(std::filesystem::exists(secret_path(9))) << signal;
    std::filesystem::remove(secret_path(9));
  }
}

TEST(JobSecret, WhatAKilledProcessHasLeftIsRemovedByOthers) {
  for (const auto port : {std::uint16_t{12}, std::uint16_t{13}}) {
    EXPECT_TRUE(WIFSIGNALED(end_with_secret(port, SIGKILL, SIG_DFL)));
    EXPECT_TRUE(std::filesystem::exists(secret_path(port)));
  }
  remove_abandoned_secret(12);
  EXPECT_FALSE(std::filesystem::exists(secret_path(12)));
  EXPECT_TRUE(std::filesystem::exists(secret_path(13)));
  const auto next = SecretFile::leave(14, new_secret());
  EXPECT_FALSE(std::filesystem::exists(secret_path(13)));
  remove_abandoned_secret(14);
  EXPECT_TRUE(std::filesystem::exists(secret_path(14))) << "whose process lives";
}

TEST(JobSecret, ASignalThatIsIgnoredLeavesTheFile) {
  EXPECT_EQ(end_with_secret(10, SIGHUP, SIG_IGN), 0);
  std::filesystem::remove(secret_path(10));
}

TEST(JobSecret, ATmpdirThatIsNoFolderIsNamed) {
  const auto words_with = [](const char* folder, const std::function<std::string()>& work) {
    return RankProcess([&] {
             setenv("TMPDIR", folder, 1);
             return work();
           })
        .words();
  };
  const auto leave = [] {
    const auto left = SecretFile::leave(11, new_secret());
    return left ? "left" : left.error();
  };
  const auto read = [] { return left_secret(11).error(); };
  const std::string why = "TMPDIR (/no/such) is no folder for the job's secret: No such file or directory";
  EXPECT_EQ(words_with("/no/such", leave), why);
  EXPECT_EQ(words_with("/no/such", read), why);
  EXPECT_EQ(words_with("/etc/hostname", leave),
            "TMPDIR (/etc/hostname) is no folder for the job's secret: Not a directory");
}

TEST(JobSecret, AFileThatOthersCouldHaveWrittenIsNotBelieved) {
  const auto left = SecretFile::leave(8, new_secret());
  ASSERT_TRUE(left) << left.error();
  chmod(secret_path(8).c_str(), 0644);
  EXPECT_THAT(left_secret(8).error(), HasSubstr("is not this user's alone"));
  std::filesystem::remove(secret_path(8));
  std::filesystem::create_symlink("/etc/hostname", secret_path(8));
  EXPECT_FALSE(left_secret(8));
}

TEST(MessageProof, NothingProvesTwiceNorElsewhereNorBackwards) {
  const std::array<std::uint8_t, 2> header = {1, 2};
  const std::array<std::uint8_t, 3> body = {3, 4, 5};
  const Nonce own = new_nonce();
  const Nonce other = new_nonce();
  const auto first_of = [&](const std::string& secret, const Nonce& listener, const Nonce& caller,
                            Side sender) {
    return MessageProof(secret, {.of_listener = listener, .of_caller = caller, .sender = sender})
        .next(header, body);
  };
  MessageProof proof("secret", {.of_listener = own, .of_caller = other, .sender = Side::caller});
  const Proof first = proof.next(header, body);
  EXPECT_TRUE(same(first, first_of("secret", own, other, Side::caller)));
  EXPECT_FALSE(same(first, proof.next(header, body))) << "the same message again";
  EXPECT_FALSE(same(first, first_of("secret", own, other, Side::listener))) << "sent back";
  EXPECT_FALSE(same(first, first_of("secret", new_nonce(), other, Side::caller))) << "on another connection";
  EXPECT_FALSE(same(first, first_of("Secret", own, other, Side::caller))) << "by somebody else";
}

}  // namespace
}  // namespace penstock
