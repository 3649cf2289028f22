#include "methods/parameter_server/acceptor.hpp"

#include <exception>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::methods {

WorkerAcceptor::WorkerAcceptor(std::shared_ptr<Store> store, int server, std::uint64_t generation,
                               std::vector<int> workers, Options options, std::chrono::nanoseconds patience)
    : store_(std::move(store)),
      server_(server),
      generation_(generation),
      workers_(std::move(workers)),
      options_(std::move(options)),
      end_(std::chrono::steady_clock::now() + patience),
      thread_([this] { run(); }) {}

WorkerAcceptor::~WorkerAcceptor() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  thread_.join();
}

std::vector<WorkerAcceptor::Arrival> WorkerAcceptor::take(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout, [&] { return !arrivals_.empty() || error_; });
  if (error_) std::rethrow_exception(error_);
  return std::exchange(arrivals_, {});
}

void WorkerAcceptor::run() {
  constexpr std::chrono::milliseconds kLook{100};
  try {
    while (!workers_.empty() && !is_stopped()) {
      for (const int worker : announced(*store_, server_, generation_, workers_, kLook)) meet_one(worker);
      if (std::chrono::steady_clock::now() < end_) continue;
      for (const int worker : std::exchange(workers_, {})) put({worker, {}, "did not come in time"});
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
    changed_.notify_all();
  }
}

void WorkerAcceptor::meet_one(int worker) {
  std::erase(workers_, worker);
  const Pair pair{server_, generation_, worker};
  welcome(*store_, pair);
  try {
    put({worker, meet(store_, pair, kServerSide, options_), {}});
  } catch (const Error& error) {
    put({worker, {}, error.what()});
  }
}

void WorkerAcceptor::put(Arrival arrival) {
  const std::lock_guard lock(mutex_);
  arrivals_.push_back(std::move(arrival));
  changed_.notify_all();
}

bool WorkerAcceptor::is_stopped() {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

}  // namespace kolo::methods
