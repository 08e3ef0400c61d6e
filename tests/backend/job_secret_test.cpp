// Tests that the secret of a job is in a file that only its user can read, and that the file is removed with
// the job. Also tests that a proof is valid only for one message, on one connection, in one direction.

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
#include <fstream>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/backend/process_fixture.hpp"
#include "tests/test_files.hpp"

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

/// Forks a process that writes a secret and then receives the signal. Returns how the process ended, as from
/// waitpid().
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

/// Returns what `work` returns in a process with this folder for temporary files.
std::string words_with_tmpdir(const std::string& folder, const std::function<std::string()>& work) {
  return RankProcess([&] {
           setenv("TMPDIR", folder.c_str(), 1);
           return work();
         })
      .words();
}

std::string words_of_leaving() {
  const auto left = SecretFile::leave(11, new_secret());
  return left ? "left" : left.error();
}

std::string words_of_reading() {
  const auto secret = left_secret(11);
  return secret ? "read" : secret.error();
}

TEST(JobSecret, ATmpdirThatIsNoFolderIsNamed) {
  const std::string why = "TMPDIR (/no/such) is no folder for the job's secret: No such file or directory";
  EXPECT_EQ(words_with_tmpdir("/no/such", words_of_leaving), why);
  EXPECT_EQ(words_with_tmpdir("/no/such", words_of_reading), why);
  EXPECT_EQ(words_with_tmpdir("/etc/hostname", words_of_leaving),
            "TMPDIR (/etc/hostname) is no folder for the job's secret: Not a directory");
}

/// Returns the folder of the secrets of this user's jobs. It need not exist.
std::filesystem::path folder_of_secrets(const ScratchFolder& scratch) {
  return scratch.path() / ("penstock-" + std::to_string(::geteuid()));
}

constexpr const char* kNotOwn = " is not private: expected its owner to be this user and no rights of others";

TEST(JobSecret, AFolderThatIsNotThisUsersAloneHoldsNone) {
  const ScratchFolder scratch;
  const std::filesystem::path folder = folder_of_secrets(scratch);
  std::filesystem::create_directory(folder);
  for (const ::mode_t mode : {0777U, 0750U, 0701U}) {
    ::chmod(folder.c_str(), mode);
    EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_leaving), folder.string() + kNotOwn) << mode;
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  ::chmod(folder.c_str(), 0700);
  EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_leaving), "left");
}

TEST(JobSecret, AFolderThatIsALinkHoldsNone) {
  const ScratchFolder scratch;
  const std::filesystem::path own = scratch.path() / "own";
  std::filesystem::create_directory(own);
  ::chmod(own.c_str(), 0700);
  std::filesystem::create_directory_symlink(own, folder_of_secrets(scratch));
  EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_leaving),
            folder_of_secrets(scratch).string() + kNotOwn);
  EXPECT_TRUE(std::filesystem::is_empty(own));
}

/// Returns the path of the secret of port 11, in a folder that only this user can open.
std::filesystem::path place_of_secret(const ScratchFolder& scratch) {
  const std::filesystem::path folder = folder_of_secrets(scratch);
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 0700);
  return folder / "11.secret";
}

TEST(JobSecret, ALinkIsNotFollowed) {
  const ScratchFolder scratch;
  const std::filesystem::path own = scratch.write("own", "a secret that is long enough");
  ::chmod(own.c_str(), 0600);
  const std::filesystem::path path = place_of_secret(scratch);
  std::filesystem::create_symlink(own, path);
  EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_reading),
            "cannot read the job's secret from " + path.string() + ": Too many levels of symbolic links");
  std::filesystem::remove(path);
  std::filesystem::rename(own, path);
  EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_reading), "read");
}

TEST(JobSecret, AFileOrFolderOfAnotherUserIsNotBelieved) {
  if (::geteuid() != 0) GTEST_SKIP() << "only the superuser can give a file away";
  constexpr ::uid_t kNobody = 65'534;
  const ScratchFolder scratch;
  const std::filesystem::path path = place_of_secret(scratch);
  EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_leaving), "left");
  std::ofstream(path) << "a secret that is long enough";
  ::chmod(path.c_str(), 0600);
  EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_reading), "read");
  EXPECT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_reading), path.string() + kNotOwn);
  EXPECT_EQ(::chown(path.parent_path().c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(words_with_tmpdir(scratch.path(), words_of_leaving), path.parent_path().string() + kNotOwn);
}

TEST(JobSecret, AFileThatOthersCouldHaveWrittenIsNotBelieved) {
  const auto left = SecretFile::leave(8, new_secret());
  ASSERT_TRUE(left) << left.error();
  chmod(secret_path(8).c_str(), 0644);
  EXPECT_THAT(left_secret(8).error(), HasSubstr("is not private"));
  std::filesystem::remove(secret_path(8));
  std::filesystem::create_symlink("/etc/hostname", secret_path(8));
  EXPECT_THAT(left_secret(8).error(), HasSubstr("Too many levels of symbolic links"));
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
