#include "methods/parameter_server/connection.hpp"

#include <ATen/Functions.h>

#include <string>

#include "kolo/error.hpp"
#include "kolo/train/tensor.hpp"
#include "methods/parameter_server/meeting.hpp"

namespace kolo::methods {
namespace {

at::Tensor floats(std::uint64_t count) {
  return at::empty({static_cast<std::int64_t>(count)}, at::kFloat);
}

}  // namespace

WorkerConnection::WorkerConnection(Communicator communicator, std::uint64_t worker, const ServerShard& shard)
    : limits_{.worker = worker, .elements = shard.elements(), .rows = shard.rows()},
      shard_(shard),
      communicator_(std::move(communicator)) {
  push_.elements = floats(shard.elements());
  receive_header();
}

void WorkerConnection::receive_header() {
  expected_ = Expected::header;
  works_.push_back(communicator_.recv_async(Buffer(header_), kWorkerSide, kHeaderTag));
}

bool WorkerConnection::advance() {
  works_.front().wait();
  works_.pop_front();
  if (!works_.empty()) return false;
  switch (expected_) {
    case Expected::header:
      return take_header();
    case Expected::ids:
      return take_ids();
    case Expected::values:
      return true;
    case Expected::answered:
      receive_header();
      return false;
  }
  return false;
}

bool WorkerConnection::take_header() {
  std::string problem;
  const auto request = parse_request(header_, limits_, problem);
  if (!request) throw InvalidArgumentError("a request makes no sense: " + problem, {.peer = kWorkerSide});
  request_ = *request;
  push_.rows = {};
  push_.values = at::Tensor();
  if (request_.elements > 0)
    works_.push_back(communicator_.recv_async(push_.elements, kWorkerSide, kArrayTag));
  ids_.resize(request_.rows);
  if (request_.rows > 0) works_.push_back(communicator_.recv_async(Buffer(ids_), kWorkerSide, kArrayTag));
  expected_ = request_.rows > 0 ? Expected::ids : Expected::values;
  return works_.empty();
}

bool WorkerConnection::take_ids() {
  push_.rows = shard_.rows_of(ids_);
  if (!is_push(request_.kind)) return true;
  push_.values = floats(push_.rows.elements);
  works_.push_back(communicator_.recv_async(push_.values, kWorkerSide, kArrayTag));
  expected_ = Expected::values;
  return false;
}

void WorkerConnection::answer(const Reply& reply, const at::Tensor& values) {
  reply_header_ = pack(reply);
  works_.push_back(communicator_.send_async(ConstBuffer(reply_header_), kWorkerSide, kHeaderTag));
  if (values.defined() && values.numel() > 0) {
    answer_ = values.detach().clone();  // updates go on while it is sent
    works_.push_back(communicator_.send_async(answer_, kWorkerSide, kArrayTag));
  }
  expected_ = Expected::answered;
}

}  // namespace kolo::methods
