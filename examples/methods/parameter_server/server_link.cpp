#include "methods/parameter_server/server_link.hpp"

#include <algorithm>
#include <thread>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "methods/parameter_server/meeting.hpp"

namespace kolo::methods {
namespace {

bool has_elements(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0;
}

std::string name_of(int server) {
  return "server " + std::to_string(server) + " (rank " + std::to_string(server) + ")";
}

}  // namespace

ServerLink::ServerLink(std::shared_ptr<Store> store, int server, int worker,
                       const ParameterServerOptions& options)
    : store_(std::move(store)),
      server_(server),
      worker_(worker),
      timeout_(options.timeout),
      reconnect_(options.reconnect) {}

Reply ServerLink::connect(std::chrono::nanoseconds patience) {
  constexpr std::chrono::milliseconds kLook{20};
  auto end = std::chrono::steady_clock::now() + patience;
  works_.clear();
  communicator_ = {};
  std::string last = "none has started";
  bool is_announced = false;
  while (std::chrono::steady_clock::now() < end) {
    if (const std::uint64_t generation = generation_of(*store_, server_); generation != generation_) {
      generation_ = generation;
      announce(*store_, {server_, generation_, worker_});
      is_announced = true;
    }
    if (!is_announced) {
      std::this_thread::sleep_for(kLook);
      continue;
    }
    const Pair pair{server_, generation_, worker_};
    if (!is_welcome(*store_, pair, kLook)) continue;
    is_announced = false;  // one attempt with each
    try {
      communicator_ = meet(store_, pair, kWorkerSide, {.timeout = timeout_, .measure_costs = false});
      const Reply reply = ask();
      version_ = std::min(version_, reply.version);
      return reply;
    } catch (const Error& error) {
      last = error.what();
      end = std::min(end, std::chrono::steady_clock::now() + reconnect_);
    }
  }
  throw PeerLostError(name_of(server_) + " was lost, and no other took its place in time: " + last,
                      {.peer = server_});
}

Reply ServerLink::ask() {
  // What was answered counts as applied, also if the server's checkpoint is older.
  const Exchange hello{.kind = RequestKind::hello};
  post(hello, is_push(exchange_.kind) ? sequence_ - 1 : sequence_);
  return wait(hello.kind);
}

void ServerLink::start(Exchange exchange) {
  exchange_ = std::move(exchange);
  if (is_push(exchange_.kind)) ++sequence_;
  is_posted_ = false;
  try {
    post(exchange_, sequence_);
    is_posted_ = true;
  } catch (const PeerLostError&) {  // finish() meets another server
  }
}

void ServerLink::post(const Exchange& exchange, std::uint64_t sequence) {
  const std::uint64_t elements =
      has_elements(exchange.elements) ? static_cast<std::uint64_t>(exchange.elements.numel()) : 0;
  request_ = pack(Request{.kind = exchange.kind,
                          .worker = static_cast<std::uint64_t>(worker_),
                          .sequence = sequence,
                          .version = version_,
                          .elements = elements,
                          .rows = exchange.rows.size()});
  works_.clear();
  const auto send = [&](ConstBuffer data, int tag) {
    works_.push_back(communicator_.send_async(data, kServerSide, tag));
  };
  send(ConstBuffer(request_), kHeaderTag);
  if (elements > 0) send(exchange.elements, kArrayTag);
  if (!exchange.rows.empty()) send(ConstBuffer(exchange.rows), kArrayTag);
  if (has_elements(exchange.row_values)) send(exchange.row_values, kArrayTag);
  works_.push_back(communicator_.recv_async(Buffer(reply_), kServerSide, kHeaderTag));
  if (has_elements(exchange.answer))
    works_.push_back(communicator_.recv_async(exchange.answer, kServerSide, kArrayTag));
}

Reply ServerLink::wait(RequestKind kind) {
  for (const Work& work : works_) work.wait();
  const auto reply = parse_reply(reply_);
  if (!reply) throw MismatchError(name_of(server_) + " gave an answer of another version", {.peer = server_});
  if (is_pull(kind)) version_ = reply->version;
  return *reply;
}

Reply ServerLink::finish() {
  while (true) {
    try {
      if (!is_posted_) post(exchange_, sequence_);
      const Reply reply = wait(exchange_.kind);
      exchange_ = {};
      return reply;
    } catch (const PeerLostError&) {
      is_posted_ = false;
      const Reply reply = connect(reconnect_);
      const bool has_push = is_push(exchange_.kind) && reply.sequence >= sequence_;
      if (has_push && exchange_.kind == RequestKind::push) return reply;
      if (has_push) exchange_ = {.kind = RequestKind::pull, .answer = exchange_.answer};
    }
  }
}

void ServerLink::say_goodbye() noexcept {
  try {
    start({.kind = RequestKind::goodbye});
    if (is_posted_) wait(RequestKind::goodbye);
  } catch (const Error&) {  // a dead server needs none
  }
}

}  // namespace kolo::methods
