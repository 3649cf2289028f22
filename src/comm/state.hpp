// What a Communicator is inside: its place among the ranks, its numbers, and the group of links it runs on.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/home_process.hpp"
#include "comm/address_exchange.hpp"
#include "comm/call.hpp"
#include "comm/device/messages.hpp"
#include "comm/labels.hpp"
#include "comm/lobby.hpp"
#include "comm/plan_cache.hpp"
#include "comm/wireup.hpp"
#include "engine/engine.hpp"
#include "kolo/communicator.hpp"
#include "selection/chooser.hpp"

namespace kolo {

struct Communicator::State : std::enable_shared_from_this<Communicator::State> {
  State();
  ~State();

  const HomeProcess home;
  std::shared_ptr<engine::Engine> engine;
  std::shared_ptr<Store> store;  ///< kept alive: rank 0 may be serving it; null for split communicators
  comm::Terms terms;
  int rank = 0;
  int size = 1;
  engine::Group* group = nullptr;  ///< the engine's

  std::atomic<std::chrono::nanoseconds> timeout{};  ///< longest time without progress in a call

  std::mutex mutex;  ///< orders the calls of several threads
  std::uint64_t calls = 0;
  std::string label;  ///< of calls that have none
  std::uint32_t label_number = 0;
  std::uint32_t splits = 0;
  std::uint64_t shrinks = 0;
  bool has_withdrawn =
      false;  ///< a shrink() of this rank has failed: the other ranks have gone on without it
  /// Of a shrink() in flight: the reason of the abort() that ends it.
  std::weak_ptr<std::optional<std::string>> abort_of_shrink;
  /// The communicator over whose links this group was agreed on, and the numbers there of the ranks that it
  /// had; the ranks above came as newcomers. Null and empty if there is none, or it does not matter any more.
  std::shared_ptr<State> origin;
  std::vector<int> origin_ranks;
  /// Of a newcomer: with fewer calls it has nothing with which it could go on alone.
  std::uint64_t fresh_until = 0;
  comm::PlanCache plans;
  engine::Listed listed;                        ///< of the call that is being started
  std::unique_ptr<selection::Chooser> chooser;  ///< never null
  bool meeting = false;                         ///< within create(): calls are not counted
  /// Messages sent so far by (peer, tag): the k-th send matches the k-th recv, which the engine counts.
  std::map<std::pair<int, int>, std::uint32_t> messages_sent;

  const std::shared_ptr<comm::DeviceMessages> device_messages = std::make_shared<comm::DeviceMessages>();
  std::unique_ptr<comm::LobbyWatch> watch;  ///< of rank 0, from its first has_newcomers() on

  struct DeviceCalls;
  std::unique_ptr<DeviceCalls> device_calls;  ///< null until the first one

  /// Collective, within create(): fills in the chooser.
  void explore(Communicator& self, const comm::Wireup& wireup, bool measures);

  /// The State of a new group in which this rank has the number `rank`; collective: returns when all are in.
  /// Where `is_over` becomes true meanwhile, it throws AbortedError on all ranks.
  static std::shared_ptr<State> make(const comm::Wireup& wireup, int rank, int size, comm::Terms terms,
                                     const std::function<bool()>& is_over = {});
  /// Communicator::regroup(), or shrink() without options.
  std::shared_ptr<State> regroup(std::shared_ptr<Store> at, const RegroupOptions* options);
  class Regrouping;
  /// Communicator::join(); null at the deadline.
  static std::shared_ptr<State> join(const std::shared_ptr<Store>& store, const Options& options,
                                     const Deadline& deadline);

  /// Collective: reserves a group with a number that no member of this communicator uses, and with a slot
  /// that none uses. `candidates`: for the number, the same on all ranks. `split`: see comm::Call.
  engine::Group* reserve_group(std::mt19937 candidates, std::uint32_t split);
  /// A communicator for the calls in which these ranks of this one, in increasing order, agree on a group.
  /// `purpose`: ranks that meet twice at once do so for different ones.
  std::shared_ptr<State> meet(const std::vector<int>& members, std::uint64_t purpose = 0);
  /// The State of these ranks' own group, whose members have reserved it.
  std::shared_ptr<State> open_part(engine::Group& reserved, const std::vector<int>& members);
  /// Switches on calls in shared memory, if the ranks share it.
  void share_memory();
  /// The engine's link of each rank.
  const std::vector<int>& links() const { return group->peers; }
  std::vector<int> links_of(const std::vector<int>& members) const {
    std::vector<int> of_members;
    for (const int member : members) of_members.push_back(links()[static_cast<std::size_t>(member)]);
    return of_members;
  }

  /// The plan for calls with this key, or what they need in shared memory, and their signature.
  std::shared_ptr<const engine::PreparedCall> prepare(const schedule::CallKey& key) const;
  /// Fills in what the caller's options and the environment say: `key` has the rest.
  void apply(const CallOptions& options, schedule::CallKey& key) const;
  /// The caller's, else the environment's where it fits.
  Wire wire_for(const schedule::CallKey& key, const CallOptions& options) const;

  /// Returns what `part` returns: this rank's part of something that other ranks wait for. If there is no
  /// memory for that, all ranks are told, and it throws an Error.
  template <typename Part>
  auto with_memory(Part part) {
    try {
      return part();
    } catch (const std::bad_alloc&) {
      engine->end_without_memory().throw_if_error();
      throw;
    }
  }
  /// Checks, chooses, lowers and starts. Throws InvalidArgumentError, and what with_memory() does; other
  /// errors come with the Work.
  Work start(comm::Call&& call, bool waits_now, comm::CountSpan counts = {},
             comm::CountSpan recv_counts = {});
  /// The same, and waits.
  void run(comm::Call&& call, comm::CountSpan counts = {}, comm::CountSpan recv_counts = {}) {
    start(std::move(call), true, counts, recv_counts).wait();
  }
  /// Throws what is wrong with a call of this rank, and names the rank.
  void require(const Status& status) const {
    if (!status.ok()) [[unlikely]]
      refuse(status);
  }
  void refuse(const Status& status) const;
  /// The same, of a call that has buffers on a device.
  Work start_on_device(comm::Call&& call, comm::CountSpan counts, comm::CountSpan recv_counts);
  transport::Signature device_signature(const schedule::CallKey& key, const CallOptions& options,
                                        bool has_lists) const;
  /// Adds what the call is for.
  void mark(transport::Signature& signature, const CallOptions& options) const {
    const bool has_own = !options.label.empty();
    if (!has_own && label.empty()) return;
    signature.details =
        comm::Labels::instance().mark(signature.details, has_own ? std::string_view(options.label) : label,
                                      has_own ? options.label_number : label_number);
  }
  /// Throws InvalidArgumentError for what no message of the call `name` can have.
  void check_message(const char* name, ConstBuffer data, int peer, int tag,
                     std::chrono::nanoseconds own_timeout) const;
  enum class Message { send, recv, recv_any, probe };
  /// `data`: what is sent, or writable memory. `peer`: kAnyRank for recv_any, and for a probe perhaps.
  /// `own_timeout`: of this message; zero: that of the communicator. `stream`: as CallOptions::stream.
  Work start_message(Message kind, ConstBuffer data, int peer, int tag, std::chrono::nanoseconds own_timeout,
                     bool waits_now, void* stream = nullptr);
};

}  // namespace kolo

namespace kolo::comm {

/// Signature::root is the root and, above it, the number of calls of a batch that are one.
inline constexpr int kBatchShift = 16;
/// Signature::algorithm of a call on a device's memory, and of one whose parts are in lists.
inline constexpr std::uint8_t kOnDevice = 255, kListsOnDevice = 254;

/// A signature in words: "all_reduce(sum of 1000 float32, ring)"; of a message what it carries: "4 float32".
std::string describe(const transport::Signature& signature);

/// Part of address_exchange.attempt(); fills in the group's name. Throws RendezvousError.
Wireup connect(AddressExchange& address_exchange, int rank, Terms& terms);

/// Collective: what all ranks of a new communicator know of themselves, rank 0's tuning table included. What
/// the table does not tell is measured now, in some milliseconds, or assumed to be typical (`measures`).
selection::Topology explore(Communicator& communicator, const Wireup& wireup, bool measures);

}  // namespace kolo::comm
