#include "group.hpp"

#include <algorithm>
#include <future>
#include <stdexcept>
#include <unordered_set>

#include "interrupt.hpp"
#include "kolo/trouble.hpp"
#include "store.hpp"
#include "tensors.hpp"

namespace kolo::pytorch {
namespace {

/// The time in which shutdown() lets sends reach their peers.
constexpr std::chrono::milliseconds kFarewell{500};

struct Groups {
  std::mutex mutex;
  std::unordered_set<Group*> all;
};
/// Never destroyed: threads may outlive the statics of a process.
Groups& groups() {
  static auto* const instance = new Groups;
  return *instance;
}

template <typename T>
const T& only(const std::vector<T>& list, const char* call) {
  if (list.size() != 1)
    throw std::invalid_argument(
        with_code(std::string(call) + ": " + std::to_string(list.size()) + " tensors, not one"));
  return list.front();
}

/// The elements that belong to each split of the first dimension; without splits, equal parts.
std::vector<std::uint64_t> counts_of(const Group::Splits& splits, const at::Tensor& tensor, int size) {
  const auto all = buffer_of(tensor).count, ranks = static_cast<std::uint64_t>(size);
  if (splits.empty() && all % ranks == 0) return std::vector(ranks, all / ranks);
  if (std::ssize(splits) != size || tensor.dim() == 0)
    throw std::invalid_argument(
        with_code("all_to_all_single: there must be one split of the first dimension a rank"));
  const auto row = tensor.size(0) > 0 ? all / static_cast<std::uint64_t>(tensor.size(0)) : 0;
  std::int64_t rows = 0;
  std::vector<std::uint64_t> counts;
  for (const std::int64_t split : splits) {
    rows += split;
    counts.push_back(static_cast<std::uint64_t>(split) * row);
  }
  if (rows != tensor.size(0) || *std::min_element(splits.begin(), splits.end()) < 0) {
    throw std::invalid_argument(with_code("all_to_all_single: the splits are not those of " +
                                          std::to_string(tensor.size(0)) + " rows"));
  }
  return counts;
}

}  // namespace

Group::Group(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, bool has_key,
             const GroupOptions& options, std::string name, bool is_lazy)
    : Base(rank, size),
      store_(store),
      has_key_(has_key),
      options_(c10::make_intrusive<GroupOptions>(options)),
      name_(std::move(name)) {
  if (!options_->timeline.empty()) timeline_ = std::make_shared<Timeline>();
  if (!is_lazy) meet(store, options_->timeout);
  enrol();
}

void Group::meet(const c10::intrusive_ptr<c10d::Store>& store, Timeout timeout) {
  const auto view = std::make_shared<StoreView>(store);
  // Only the main thread can tell of Ctrl-C.
  auto met = std::async(std::launch::async, [&] {
    kolo::Options options;
    options.timeout = nanoseconds_of(timeout);
    options.timeline = timeline_;
    if (!has_key_ && size_ > 1) options.key = key_from(*view, rank_, size_, options.timeout);
    return Communicator::create(view, rank_, size_, options);
  });
  while (met.wait_for(kSignalInterval) != std::future_status::ready) {
    try {
      check_signals();
    } catch (...) {
      view->cancel();
      met.wait();
      throw;
    }
  }
  Communicator made = met.get();
  made.set_timeout(nanoseconds_of(options_->timeout));
  has_network_ = is_linked_by(made, "tcp");
  try {
    if (options_->wire || !options_->algorithm.empty())
      made.estimate("all_reduce", 1, {.algorithm = options_->algorithm, .wire = options_->wire});
  } catch (const InvalidArgumentError& error) {
    throw std::invalid_argument(with_code(std::string("kolo_torch.Options: ") + error.what()));
  }
  static std::atomic<bool> is_known{false};  // to rank 0 of this process's first group, which has told of it
  if (!has_key_ && has_network_ && !is_known.exchange(true) && rank_ == 0) {
    TORCH_WARN(
        "kolo: the key with which ranks prove that they belong to the job comes through its store. A process "
        "that reaches that store can read it: set KOLO_KEY or KOLO_KEY_FILE on all ranks [K507]");
  }
  if (has_network_) {
    const std::string network = made.network();
    // What KOLO_INTERFACE tells asks no name server.
    const std::string name = network.ends_with(", as told") ? std::string() : misleading_name(network);
    if (!name.empty()) {
      TORCH_WARN_ONCE("kolo: ", name, ", and kolo listens at ", network, " (KOLO_INTERFACE names another)");
    }
  }
  const std::lock_guard lock(mutex_);
  communicator_ = std::move(made);
}

bool Group::is_linked_by(const Communicator& communicator, std::string_view transport) {
  for (int peer = 0; peer < communicator.size(); ++peer) {
    if (communicator.transport_to(peer) == transport) return true;
  }
  return false;
}

void Group::enrol() {
  const std::lock_guard lock(groups().mutex);
  groups().all.insert(this);
}

Group::~Group() {
  const WithoutLock unlocked;
  {
    const std::lock_guard lock(groups().mutex);
    groups().all.erase(this);
  }
  shutdown();
}

bool Group::shares_host() const {
  return is_linked_by(communicator(), "shm");
}

Communicator Group::communicator() const {
  std::unique_lock lock(mutex_);
  if (communicator_.valid()) return communicator_;
  lock.unlock();
  if (!is_closed())
    throw std::runtime_error(with_code("kolo: this process group has no ranks before reconfigure()"));
  Call::stay_if_process_ends();
  throw std::runtime_error(with_code("kolo: this process group was destroyed"));
}

void Group::wait_for(const kolo::Work& work, const char* name, const at::Tensor& in,
                     const at::Tensor& out) const {
  try {
    while (!work.wait(kSignalInterval)) {
      check_signals();
      if (is_closed())
        throw std::runtime_error(with_code(std::string(name) + ": the process group was destroyed"));
    }
  } catch (const Error&) {
    throw;
  } catch (...) {
    work.then([in, out](const kolo::Work&) {});
    throw;
  }
}

void Group::sweep() {
  std::erase_if(pending_, [](const std::weak_ptr<Call>& entry) {
    const auto call = entry.lock();
    return call == nullptr || call->settled();
  });
  sweep_at_ = std::max<std::size_t>(64, 2 * pending_.size());
}

void Group::setTimeout(Timeout timeout) {
  const WithoutLock unlocked;
  communicator().set_timeout(nanoseconds_of(timeout));
  options_->timeout = timeout;
}

void Group::abort() {
  const WithoutLock unlocked;
  communicator().abort("the process group was aborted");
}

void Group::shutdown() {
  shutdown(kFarewell);
}

void Group::shutdown(Timeout patience) {
  const WithoutLock unlocked;
  std::shared_ptr<Timeline> timeline;
  {
    const std::lock_guard lock(mutex_);
    std::swap(timeline, timeline_);
  }
  end_calls(patience);
  if (timeline != nullptr) write_timeline(*timeline);
}

void Group::end_calls(Timeout patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  Communicator last;  // ends after the sends
  Pending pending;
  {
    const std::lock_guard lock(mutex_);
    std::swap(last, communicator_);
    std::swap(pending, pending_);
  }
  for (const auto& entry : pending) {
    const auto call = entry.lock();
    if (call != nullptr && call->is_undelivered_send())
      call->wait_quietly(end - std::chrono::steady_clock::now());
  }
  if (last.valid()) sparse_.end(last);
  *closed_ = true;
}

void Group::write_timeline(const Timeline& timeline) const {
  if (::getpid() != process_) return;  // a forked child's has what its parent's has
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  const auto path = options_->timeline / ("rank-" + std::to_string(rank_) + "-" + name_ + ".json");
  try {
    timeline.write(path, rank_, host, name_);
  } catch (const Error& error) {
    TORCH_WARN(with_code(std::string("kolo: no timeline: ") + error.what()));
  }
}

void Group::shutdown_all(bool waits_for_sends) {
  Call::process_ends = true;
  const WithoutLock unlocked;
  const std::lock_guard lock(groups().mutex);
  for (Group* group : groups().all) {
    const Communicator communicator = [group] {
      const std::lock_guard inner(group->mutex_);
      return group->communicator_;
    }();
    if (!communicator.valid()) continue;
    group->shutdown(waits_for_sends ? std::chrono::duration_cast<Timeout>(communicator.timeout())
                                    : Timeout(0));
  }
}

Group::Started Group::broadcast(Tensors& data, const c10d::BroadcastOptions& options) {
  const auto call = make_call("broadcast", waits_at_once(options));
  const Buffer buffer = call->in_out(only(data, "broadcast"));
  return start(c10d::OpType::BROADCAST, call, [&](Communicator& communicator) {
    return communicator.broadcast_async(buffer, static_cast<int>(options.rootRank),
                                        options_of(options, call->stream()));
  });
}

Group::Started Group::allreduce(Tensors& data, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(data, "all_reduce");
  if (tensor.layout() == at::kSparse) return allreduce_sparse(data, options);
  const auto call = make_call("all_reduce", waits_at_once(options));
  const Buffer buffer = averages_integers(options.reduceOp, tensor) ? call->in_out_divided(tensor, size_)
                                                                    : call->in_out(tensor);
  return start(c10d::OpType::ALLREDUCE, call, [&](Communicator& communicator) {
    return communicator.all_reduce_async(buffer, reduction_of(options.reduceOp, tensor),
                                         all_reduce_options(options, tensor, call->stream()));
  });
}

Group::Started Group::allreduce_sparse(Tensors& data, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(data, "all_reduce");
  const auto call = make_call("all_reduce");
  call->takes_devices = false;
  call->changes(tensor);
  if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
    throw std::invalid_argument(with_code("all_reduce: kolo only sums sparse tensors"));
  static_cast<void>(reduction_of(options.reduceOp, tensor));
  return start(c10d::OpType::ALLREDUCE, call, [&](Communicator& communicator) {
    sparse_.begin(communicator, call, tensor, options_of(options));
    return std::vector<kolo::Work>();
  });
}

Group::Started Group::reduce(Tensors& data, const c10d::ReduceOptions& options) {
  const at::Tensor& tensor = only(data, "reduce");
  const auto call = make_call("reduce", waits_at_once(options));
  const bool divides = averages_integers(options.reduceOp, tensor);
  Buffer out;
  BorrowedConstBuffer in;
  if (rank_ == options.rootRank) {
    out = divides ? call->in_out_divided(tensor, size_) : call->in_out(tensor);
    in = ConstBuffer(out);
  } else {
    in = call->input(divides ? tensor.to(at::kLong) : tensor);
  }
  return start(c10d::OpType::REDUCE, call, [&](Communicator& communicator) {
    return communicator.reduce_async(in, out, static_cast<int>(options.rootRank),
                                     reduction_of(options.reduceOp, tensor),
                                     options_of(options, call->stream()));
  });
}

Group::Started Group::allgather(Lists& out, Tensors& in, const c10d::AllgatherOptions& options) {
  const auto call = make_call("all_gather", waits_at_once(options));
  const auto from = call->input(only(in, "all_gather"));
  const auto to = call->outputs(only(out, "all_gather"));
  return start(c10d::OpType::ALLGATHER, call, [&](Communicator& communicator) {
    return communicator.all_gather_async(from, to, options_of(options, call->stream()));
  });
}

Group::Started Group::_allgather_base(at::Tensor& out, at::Tensor& in,
                                      const c10d::AllgatherOptions& options) {
  const auto call = make_call("all_gather_into_tensor", waits_at_once(options));
  const auto from = call->input(in);
  const Buffer to = call->output(out);
  return start(c10d::OpType::_ALLGATHER_BASE, call, [&](Communicator& communicator) {
    return communicator.all_gather_async(from, to, {}, options_of(options, call->stream()));
  });
}

Group::Started Group::gather(Lists& out, Tensors& in, const c10d::GatherOptions& options) {
  const auto call = make_call("gather", waits_at_once(options));
  const auto from = call->input(only(in, "gather"));
  std::vector<Buffer> to;
  if (rank_ == options.rootRank) to = call->outputs(only(out, "gather"));
  return start(c10d::OpType::GATHER, call, [&](Communicator& communicator) {
    return communicator.gather_async(from, to, static_cast<int>(options.rootRank), {},
                                     options_of(options, call->stream()));
  });
}

Group::Started Group::scatter(Tensors& out, Lists& in, const c10d::ScatterOptions& options) {
  const auto call = make_call("scatter", waits_at_once(options));
  const Buffer to = call->output(only(out, "scatter"));
  std::vector<ConstBuffer> from;
  if (rank_ == options.rootRank) from = call->inputs(only(in, "scatter"));
  return start(c10d::OpType::SCATTER, call, [&](Communicator& communicator) {
    return communicator.scatter_async(from, to, static_cast<int>(options.rootRank), {},
                                      options_of(options, call->stream()));
  });
}

Group::Started Group::reduce_scatter(Tensors& out, Lists& in, const c10d::ReduceScatterOptions& options) {
  const auto call = make_call("reduce_scatter", waits_at_once(options));
  const at::Tensor& tensor = only(out, "reduce_scatter");
  Tensors parts = only(in, "reduce_scatter");
  const bool divides = averages_integers(options.reduceOp, tensor);
  if (divides) {
    for (at::Tensor& part : parts) part = part.to(at::kLong);
  }
  const Buffer to = divides ? call->in_out_divided(tensor, size_) : call->output(tensor);
  const auto from = call->inputs(parts);
  return start(c10d::OpType::REDUCE_SCATTER, call, [&](Communicator& communicator) {
    return communicator.reduce_scatter_async(from, to, reduction_of(options.reduceOp, tensor),
                                             options_of(options, call->stream()));
  });
}

Group::Started Group::_reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                           const c10d::ReduceScatterOptions& options) {
  const auto call = make_call("reduce_scatter_tensor", waits_at_once(options));
  const bool divides = averages_integers(options.reduceOp, out);
  const Buffer to = divides ? call->in_out_divided(out, size_) : call->output(out);
  const auto from = call->input(divides ? in.to(at::kLong) : in);
  return start(c10d::OpType::_REDUCE_SCATTER_BASE, call, [&](Communicator& communicator) {
    return communicator.reduce_scatter_async(from, to, reduction_of(options.reduceOp, out), {},
                                             options_of(options, call->stream()));
  });
}

Group::Started Group::alltoall_base(at::Tensor& out, at::Tensor& in, Splits& out_splits, Splits& in_splits,
                                    const c10d::AllToAllOptions& options) {
  const auto call = make_call("all_to_all_single", waits_at_once(options));
  const bool has_splits = !in_splits.empty() || !out_splits.empty();
  using Numbers = std::vector<std::uint64_t>;
  const auto send_counts = has_splits ? counts_of(in_splits, in, size_) : Numbers();
  const auto recv_counts = has_splits ? counts_of(out_splits, out, size_) : Numbers();
  const auto from = call->input(in);
  const Buffer to = call->output(out);
  return start(c10d::OpType::ALLTOALL_BASE, call, [&](Communicator& communicator) {
    return communicator.all_to_all_async(from, to, send_counts, recv_counts,
                                         options_of(options, call->stream()));
  });
}

Group::Started Group::alltoall(Tensors& out, Tensors& in, const c10d::AllToAllOptions& options) {
  const auto call = make_call("all_to_all", waits_at_once(options));
  const auto from = call->inputs(in);
  const auto to = call->outputs(out);
  return start(c10d::OpType::ALLTOALL, call, [&](Communicator& communicator) {
    return communicator.all_to_all_async(from, to, options_of(options, call->stream()));
  });
}

Group::Started Group::send(Tensors& data, int to, int tag) {
  const auto call = make_call("send");
  call->is_message = call->is_send = true;
  const auto buffer = call->input(only(data, "send"));
  return start(c10d::OpType::SEND, call, [&](Communicator& communicator) {
    return communicator.send_async(buffer, to, tag, {}, call->stream());
  });
}

Group::Started Group::recv(Tensors& data, int from, int tag) {
  const auto call = make_call("recv");
  call->is_message = true;
  const Buffer buffer = call->output(only(data, "recv"));
  return start(c10d::OpType::RECV, call, [&](Communicator& communicator) {
    return communicator.recv_async(buffer, from, tag, {}, call->stream());
  });
}

Group::Started Group::recvAnysource(Tensors& data, int tag) {
  const auto call = make_call("recvAnySource");
  call->is_message = true;
  const Buffer buffer = call->output(only(data, "recv"));
  return start(c10d::OpType::RECVANYSOURCE, call, [&](Communicator& communicator) {
    return communicator.recv_any_async(buffer, tag, {}, call->stream());
  });
}

/// Messages are left out: a rank may post a receive, and its peer send after the barrier.
Group::Started Group::barrier(const c10d::BarrierOptions& options) {
  const auto call = make_call("barrier", waits_at_once(options));
  {
    const std::lock_guard lock(mutex_);
    sweep();
    for (const auto& entry : pending_) {
      const auto earlier = entry.lock();
      if (earlier == nullptr || earlier->is_message) continue;
      call->add_all(earlier);
    }
  }
  return start(c10d::OpType::BARRIER, call,
               [&](Communicator& communicator) { return communicator.barrier_async(options_of(options)); });
}

}  // namespace kolo::pytorch
