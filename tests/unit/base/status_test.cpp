// Status and Result: codes, messages, and their exceptions.
#include "base/status.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace kolo {
namespace {

using namespace std::chrono_literals;

ErrorContext some_context() {
  return {.peer = 3, .collective = "all_reduce", .sequence = 7, .step = 2, .waited = 5ms};
}

template <typename Exception>
void expect_thrown(Code code) {
  const Status status(code, "what happened", some_context());
  try {
    status.throw_if_error();
    FAIL() << "nothing thrown";
  } catch (const Exception& error) {
    EXPECT_STREQ(error.what(), "what happened");
    EXPECT_EQ(error.context().peer, 3);
    EXPECT_EQ(error.context().collective, "all_reduce");
    EXPECT_EQ(error.context().sequence, 7u);
    EXPECT_EQ(error.context().step, 2);
    EXPECT_EQ(error.context().waited, 5ms);
  }
  EXPECT_THROW(std::rethrow_exception(status.to_exception()), Exception);
}

TEST(Status, SuccessSaysNothing) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::ok);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.context().peer, -1);
  EXPECT_NO_THROW(status.throw_if_error());
  EXPECT_EQ(status.to_exception(), nullptr);
  EXPECT_TRUE(status.prefixed("anything").ok());
}

TEST(Status, EachCodeHasItsException) {
  expect_thrown<InvalidArgumentError>(Code::invalid_argument);
  expect_thrown<MismatchError>(Code::mismatch);
  expect_thrown<PeerLostError>(Code::peer_lost);
  expect_thrown<TimeoutError>(Code::timeout);
  expect_thrown<RendezvousError>(Code::rendezvous);
  expect_thrown<SystemError>(Code::system);
  expect_thrown<AbortedError>(Code::aborted);
}

TEST(Status, PrefixKeepsTheFacts) {
  const Status status = Status(Code::peer_lost, "rank 3 closed", some_context()).prefixed("tcp");
  EXPECT_EQ(status.code(), Code::peer_lost);
  EXPECT_EQ(status.message(), "tcp: rank 3 closed");
  EXPECT_EQ(status.context().peer, 3);
}

TEST(Status, FromErrnoSaysWhatAndWhy) {
  const Status status = Status::from_errno("open settings", ENOENT);
  EXPECT_EQ(status.code(), Code::system);
  EXPECT_EQ(status.message(), "open settings: No such file or directory");
}

TEST(Result, HoldsAValueOrTheReason) {
  Result<int> good = 42;
  EXPECT_TRUE(good.ok());
  EXPECT_TRUE(good.status().ok());
  EXPECT_EQ(*good, 42);
  *good = 43;
  EXPECT_EQ(std::move(good).value_or_throw(), 43);

  Result<int> bad = Status(Code::timeout, "too late");
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().code(), Code::timeout);
  EXPECT_EQ(bad.status().message(), "too late");
  EXPECT_THROW(std::move(bad).value_or_throw(), TimeoutError);
}

TEST(Result, MovesWhatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 5);
  const std::unique_ptr<int> taken = std::move(result).value_or_throw();
  EXPECT_EQ(*taken, 5);
}

}  // namespace
}  // namespace kolo
