#include "methods/parameter_server.hpp"

#include <algorithm>
#include <utility>

#include "kolo/error.hpp"
#include "kolo/work.hpp"
#include "methods/parameter_server/acceptor.hpp"
#include "methods/parameter_server/connection.hpp"
#include "methods/parameter_server/layout.hpp"
#include "methods/parameter_server/meeting.hpp"
#include "methods/parameter_server/plan.hpp"
#include "methods/parameter_server/rules.hpp"
#include "methods/parameter_server/server_checkpoint.hpp"
#include "methods/parameter_server/shard.hpp"

namespace kolo::methods {

std::shared_ptr<Store> parameter_server_store(const Launch& launch, std::chrono::nanoseconds timeout) {
  if (!store_outlives_ranks(launch)) {
    throw InvalidArgumentError(
        "rank 0 would serve the store in which servers and workers meet, and its death would end all of "
        "them: "
        "start the ranks with kolo run, or name a store that another process serves (KOLO_STORE, "
        "KOLO_STORE_SERVED=1)",
        {.peer = 0});
  }
  return store_from_environment(launch, timeout);
}

/// One thread that waits for all workers at a time.
class ParameterServer::Service {
 public:
  Service(std::shared_ptr<Store> store, int rank, int size, const torch::nn::Module& module,
          ParameterServerOptions options, ParameterServerSettings settings)
      : store_(make_prefix_store("parameter server/", std::move(store))),
        server_(rank),
        options_(std::move(options)),
        settings_(std::move(settings)) {
    PlanOfRank plan{.text = text_of(options_), .problem = problem_with(options_, size)};
    if (plan.problem.empty()) plan.problem = problem_of([&] { prepare(size, module, plan.text); });
    agree_on_plan(*store_, rank, size, plan, options_.timeout);
    begin();
  }

  const ParameterServerStatistics& serve() try {
    std::size_t next = 0;  // worker that is looked at first, another one each time, so that a fast worker
                           // does not always come first
    while (!is_over()) {
      std::vector<Work> works;
      std::vector<std::size_t> workers;
      for (std::size_t k = 0; k < connections_.size(); ++k) {
        const std::size_t i = (next + k) % connections_.size();
        if (!connections_[i] || !connections_[i]->pending().valid()) continue;
        works.push_back(connections_[i]->pending());
        workers.push_back(i);
      }
      // Workers that come are looked for between two waits.
      constexpr std::chrono::milliseconds kLook{50};
      std::size_t first = works.size();
      if (!works.empty()) first = wait_any(works, kLook).value_or(first);
      accept(works.empty() ? kLook : std::chrono::milliseconds(0));
      if (first < works.size()) {
        next = workers[first] + 1;
        advance(workers[first]);
      }
      release();
    }
    save();
    require_one_that_left();
    return statistics_;
  } catch (...) {
    const std::string reason = "server " + std::to_string(server_) + " gave up: " + problem_of([] {
                                 std::rethrow_exception(std::current_exception());
                               });
    for (const auto& connection : connections_) {
      if (connection) connection->refuse(reason);
    }
    throw;
  }

 private:
  bool is_over() const {
    const auto is_there = [](const auto& connection) { return connection != nullptr; };
    return rules_->is_over() && std::ranges::none_of(connections_, is_there);
  }

  void prepare(int size, const torch::nn::Module& module, std::string& text) {
    if (server_ >= options_.servers) {
      throw InvalidArgumentError(
          "a ParameterServer, and the servers are the first " + std::to_string(options_.servers) + " ranks",
          {});
    }
    const ServerLayout layout(module, options_);
    text += layout.text();
    shard_.emplace(layout, server_, settings_.make_optimizer, options_.push);
    const auto workers = static_cast<std::size_t>(size - options_.servers);
    rules_.emplace(options_, workers);
    connections_.resize(workers);
    replies_.resize(workers);
    if (settings_.checkpoint.empty()) return;
    if (settings_.checkpoint_every == 0) throw InvalidArgumentError("a checkpoint every 0 updates", {});
    is_loaded_ = load_server(settings_.checkpoint, *shard_, rules_->workers());
  }

  void begin() {
    const bool is_again = generation_of(*store_, server_) > 0;
    if (is_again && !is_loaded_) {
      throw InvalidArgumentError("server " + std::to_string(server_) + " starts again, and has no checkpoint",
                                 {});
    }
    if (!is_again) {
      for (WorkerRecord& worker : rules_->workers()) worker = {};  // they begin, too
      save();                                                      // to come back from, whenever it dies
    }
    if (is_loaded_)
      note("goes on from " + settings_.checkpoint + " at update " + std::to_string(shard_->version()));
    std::vector<int> expected;
    for (std::size_t i = 0; i < rules_->workers().size(); ++i) {
      if (!rules_->workers()[i].is_gone()) expected.push_back(static_cast<int>(i));
    }
    acceptor_ = std::make_unique<WorkerAcceptor>(store_, server_, begin_generation(*store_, server_),
                                                 std::move(expected),
                                                 Options{.timeout = options_.timeout, .measure_costs = false},
                                                 is_again ? options_.reconnect : options_.timeout);
  }

  void accept(std::chrono::nanoseconds timeout) {
    for (auto& [worker, communicator, problem] : acceptor_->take(timeout)) {
      const auto i = static_cast<std::size_t>(worker);
      if (!communicator.valid()) {
        drop(i, problem);
        continue;
      }
      rules_->workers()[i].status = WorkerStatus::live;
      connections_[i] = std::make_unique<WorkerConnection>(std::move(communicator), i, *shard_);
    }
  }

  /// What is wrong with one worker ends its connection alone.
  void advance(std::size_t worker) {
    WorkerConnection& connection = *connections_[worker];
    bool is_whole = false;
    try {
      is_whole = connection.advance();
    } catch (const InvalidArgumentError& error) {
      connection.refuse(error.what());
      return drop(worker, error.what());
    } catch (const Error& error) {
      return drop(worker, error.what());
    }
    if (is_whole) return take(worker);
    const bool has_left = rules_->workers()[worker].status == WorkerStatus::left;
    if (has_left && connection.is_answered()) connections_[worker].reset();
  }

  void take(std::size_t worker) {
    const Request& request = connections_[worker]->request();
    WorkerRecord& record = rules_->workers()[worker];
    replies_[worker] = {};
    switch (request.kind) {
      case RequestKind::hello:
        record.sequence = std::max(record.sequence, request.sequence);
        break;
      case RequestKind::push:
      case RequestKind::push_pull:
        push(worker);
        break;
      case RequestKind::finish:
        record.status = WorkerStatus::finished;
        if (rules_->is_finished()) replies_[worker].outcome = PushOutcome::finished;
        break;
      case RequestKind::goodbye:
        record.status = WorkerStatus::left;
        break;
      case RequestKind::pull:
      case RequestKind::pull_rows:
        break;
    }
  }

  void push(std::size_t worker) {
    const Request& request = connections_[worker]->request();
    const auto judgement = rules_->judge(request, shard_->version());
    replies_[worker] = {.outcome = judgement.outcome, .staleness = judgement.staleness};
    if (judgement.outcome == PushOutcome::repeated) {
      ++statistics_.repeated;
      return;
    }
    if (options_.rule == ServerRule::synchronous) {
      rules_->workers()[worker].waits = true;
      return;
    }
    const std::uint64_t pushes = rules_->pushes();
    count(judgement.outcome, judgement.staleness);
    rules_->workers()[worker].sequence = request.sequence;
    if (judgement.factor == 0) return;
    const double share =
        options_.push == PushKind::weights ? 1.0 / static_cast<double>(rules_->awaited()) : 1.0;
    const Contribution contribution{&connections_[worker]->push(), judgement.factor * share};
    apply({&contribution, 1}, pushes);
  }

  void finish_round() {
    const std::uint64_t pushes = rules_->pushes();
    std::vector<Contribution> contributions;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      WorkerRecord& record = rules_->workers()[i];
      if (!std::exchange(record.waits, false)) continue;
      contributions.push_back({&connections_[i]->push(), 0});
      record.sequence = connections_[i]->request().sequence;
      count(replies_[i].outcome, replies_[i].staleness);
    }
    for (Contribution& one : contributions) one.factor = 1.0 / static_cast<double>(contributions.size());
    apply(contributions, pushes);
  }

  /// After `pushes` of all workers.
  void apply(std::span<const Contribution> contributions, std::uint64_t pushes) {
    if (settings_.before_update && shard_->optimizer() != nullptr)
      settings_.before_update(*shard_->optimizer(), {.updates = shard_->version(), .pushes = pushes});
    shard_->apply(contributions);
    ++statistics_.updates;
    if (!settings_.checkpoint.empty() && shard_->version() % settings_.checkpoint_every == 0) save();
  }

  void save() {
    if (!settings_.checkpoint.empty()) save_server(settings_.checkpoint, *shard_, rules_->workers());
  }

  /// Answers all that can be answered.
  void release() {
    if (rules_->is_round_complete()) finish_round();
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (!connections_[i] || connections_[i]->pending().valid() || !may_answer(i)) continue;
      replies_[i].version = shard_->version();
      replies_[i].sequence = rules_->workers()[i].sequence;
      connections_[i]->answer(replies_[i], values_for(*connections_[i]));
    }
  }

  bool may_answer(std::size_t worker) const {
    if (rules_->workers()[worker].waits) return false;
    switch (connections_[worker]->request().kind) {
      case RequestKind::pull:
      case RequestKind::push_pull:
      case RequestKind::pull_rows:
        return rules_->may_go_on(worker);
      default:
        return true;
    }
  }

  at::Tensor values_for(WorkerConnection& connection) const {
    const RequestKind kind = connection.request().kind;
    if (is_pull(kind)) return shard_->parameters();
    return kind == RequestKind::pull_rows ? shard_->values_of(connection.push().rows) : at::Tensor();
  }

  void count(PushOutcome outcome, std::uint64_t staleness) {
    // A list, not a map: beyond some thousand updates a worker is as good as lost.
    constexpr std::uint64_t kMost = 1 << 16;
    const auto at = static_cast<std::size_t>(std::min(staleness, kMost));
    if (statistics_.staleness.size() <= at) statistics_.staleness.resize(at + 1);
    ++statistics_.staleness[at];
    if (outcome == PushOutcome::dropped) ++statistics_.dropped;
    if (outcome == PushOutcome::divided) ++statistics_.divided;
  }

  void drop(std::size_t worker, const std::string& why) {
    WorkerRecord& record = rules_->workers()[worker];
    connections_[worker].reset();
    record.waits = false;
    if (record.status == WorkerStatus::left) return;
    record.status = WorkerStatus::lost;
    statistics_.lost.push_back(static_cast<int>(worker));
    note("worker " + std::to_string(worker) + " is dropped: " + why);
  }

  void require_one_that_left() const {
    const auto has_left = [](const WorkerRecord& worker) { return worker.status == WorkerStatus::left; };
    if (std::ranges::any_of(rules_->workers(), has_left)) return;
    throw PeerLostError("server " + std::to_string(server_) + " has lost all its workers", {});
  }

  void note(const std::string& text) const {
    if (settings_.note) settings_.note(text);
  }

  std::shared_ptr<Store> store_;
  int server_;
  ParameterServerOptions options_;
  ParameterServerSettings settings_;
  std::optional<ServerShard> shard_;
  std::optional<UpdateRules> rules_;
  bool is_loaded_ = false;
  std::vector<std::unique_ptr<WorkerConnection>> connections_;  ///< null: not there
  std::vector<Reply> replies_;                                  ///< to the request that each worker waits for
  ParameterServerStatistics statistics_;
  std::unique_ptr<WorkerAcceptor> acceptor_;
};

ParameterServer::ParameterServer(std::shared_ptr<Store> store, int rank, int size,
                                 const torch::nn::Module& module, ParameterServerOptions options,
                                 ParameterServerSettings settings)
    : service_(std::make_unique<Service>(std::move(store), rank, size, module, std::move(options),
                                         std::move(settings))) {}
ParameterServer::~ParameterServer() = default;

const ParameterServerStatistics& ParameterServer::serve() {
  return service_->serve();
}

}  // namespace kolo::methods
