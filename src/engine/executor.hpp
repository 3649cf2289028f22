// Executor: runs all operations of one kind.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/ring_queue.hpp"
#include "engine/operation.hpp"
#include "engine/peers.hpp"

namespace kolo::engine {

/// What executors report to the engine, from inside their functions.
class ExecutorListener {
 public:
  virtual ~ExecutorListener() = default;
  /// The operation has ended.
  virtual void on_finished(Operation& operation) = 0;
  /// This rank's call `number` is `mine`; the engine's rank `peer` has made another one.
  virtual void on_disagreement(std::uint64_t number, const transport::Signature& mine, int peer,
                               const transport::Signature& theirs) = 0;
  /// The operations cannot go on because of the engine's rank `blamed`.
  virtual void on_failure(int blamed, const std::string& why) = 0;
  virtual void on_no_memory() = 0;
  /// A reduction of the caller's own has thrown.
  virtual void on_throwing_reduction(const std::string& name, const std::string& what) = 0;
  /// A call of the caller's own reduction, which may be slow, has returned.
  virtual void on_reduced() = 0;
  virtual void on_transferred(const OperationSpec& spec, bool sent, int peer, std::uint64_t bytes,
                              Clock::time_point posted) = 0;
};

/// Starts operations, whichever way they run, and keeps those that have ended for later calls. Used under the
/// engine's lock.
class Executor {
 public:
  /// The references outlive the executor.
  Executor(Peers& peers, ExecutorListener& listener) : peers_(peers), listener_(listener) {}
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Tries to carry a call out before it is worth making an operation for it; returns whether the call is
  /// over. If it is not, the next begin() must be for this call. No other operation may be in flight, no
  /// thread may drive, and no observer may need times.
  virtual bool try_immediate(const OperationSpec&) { return false; }
  virtual std::shared_ptr<Operation> make(std::weak_ptr<Engine> owner) = 0;
  /// Starts an operation of this executor. It must live until it has ended, as on_finished() reports, or
  /// until all are abandoned. `waits_now`: as in Engine::start().
  virtual void begin(Operation& operation, bool waits_now) = 0;

  /// A retired operation of which no caller holds a Work any more; null if there is none.
  std::shared_ptr<Operation> reuse();
  /// Takes an operation that has ended, for later calls.
  void retire(std::shared_ptr<Operation> operation);

 protected:
  /// Reports messages of this call that have come already and belong to another call.
  void check_unexpected_messages(const OperationSpec& spec);

  Peers& peers_;
  ExecutorListener& listener_;

 private:
  RingQueue<std::shared_ptr<Operation>> retired_;
};

}  // namespace kolo::engine
