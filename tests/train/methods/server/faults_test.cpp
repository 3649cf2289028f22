// Workers and servers that die, and workers that say what makes no sense.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "kolo/error.hpp"
#include "methods/parameter_server/connection.hpp"
#include "methods/parameter_server/layout.hpp"
#include "methods/parameter_server/meeting.hpp"
#include "methods/parameter_server/request.hpp"
#include "methods/parameter_server/server_checkpoint.hpp"
#include "train/methods/server/job.hpp"
#include "train/support/ranks.hpp"

namespace kolo::test::server {
namespace {

struct Folder {
  Folder() { path = ::mkdtemp(name); }
  ~Folder() { std::filesystem::remove_all(path); }
  char name[32] = "/tmp/kolo-server-XXXXXX";
  std::string path;
};

TEST(ServerFaults, ALostWorkerIsDropped) {
  for (const ServerRule rule : {ServerRule::synchronous, ServerRule::clocks}) {
    Job job{.options = {.servers = 2, .rule = rule}, .workers = 3};
    std::vector<int> lost;
    std::mutex mutex;
    const auto errors = job.run(
        [&](ParameterServerClient& client, ChainImpl& model) {
          client.pull();
          for (int step = 0; step < 6; ++step) {
            compute(model, client.worker(), step);
            if (client.worker() == 1 && step == 2) throw std::runtime_error("out of paper");
            client.step();
          }
          client.finish();
        },
        [&](int, const ParameterServerStatistics& statistics) {
          const std::lock_guard lock(mutex);
          lost.insert(lost.end(), statistics.lost.begin(), statistics.lost.end());
          EXPECT_EQ(statistics.updates, rule == ServerRule::synchronous ? 6U : 14U);
        });
    EXPECT_EQ(message(errors[3]), "out of paper");
    for (const std::size_t rank : {0U, 1U, 2U, 4U}) EXPECT_EQ(message(errors[rank]), "");
    EXPECT_EQ(lost, (std::vector<int>{1, 1}));
  }
}

TEST(ServerFaults, AServerWithoutWorkersSaysSo) {
  Job job{};
  const auto errors = job.run([](ParameterServerClient&, ChainImpl&) { throw std::runtime_error("enough"); });
  EXPECT_NE(message(errors[0]).find("server 0 has lost all its workers"), std::string::npos);
}

TEST(ServerFaults, AServerThatGivesUpTellsItsReason) {
  Job job{};
  job.settings.before_update = [](torch::optim::Optimizer&, const ServerProgress& progress) {
    if (progress.updates == 2) throw std::runtime_error("the disk is full");
  };
  const auto errors = job.run([](ParameterServerClient& client, ChainImpl& model) {
    for (int step = 0; step < 6; ++step) {
      compute(model, client.worker(), step);
      client.step();
    }
  });
  for (const auto& error : errors)
    EXPECT_NE(message(error).find("the disk is full"), std::string::npos) << message(error);
}

/// A rank of the job that speaks by itself: what an honest client would never say.
struct RawWorker {
  RawWorker(const std::shared_ptr<Store>& job_store, int rank) {
    const auto store = make_prefix_store("parameter server/", job_store);
    // It agrees to the plan, as a client that then goes.
    store->set("plan of rank " + std::to_string(rank),
               store->get("plan of rank 0", std::chrono::seconds(10)));
    const Pair pair{0, 1, rank - 1};
    announce(*store, pair);
    EXPECT_TRUE(is_welcome(*store, pair, std::chrono::seconds(10)));
    communicator =
        meet(store, pair, kWorkerSide, {.timeout = std::chrono::seconds(10), .measure_costs = false});
  }
  Communicator communicator;
};

TEST(ServerFaults, NonsenseEndsOneConnectionAlone) {
  Job job{.options = {.rule = ServerRule::unbounded}, .workers = 2};
  std::optional<ParameterServerStatistics> served;
  std::string told;
  const auto errors = run_job(3, [&](const std::shared_ptr<Store>& store, int rank) {
    ChainImpl model(1);
    if (rank == 0) {
      ParameterServer server(store, rank, 3, model, job.options, job.settings);
      served = server.serve();
    } else if (rank == 1) {
      ParameterServerClient client(store, rank, 3, model, job.options);
      for (int step = 0; step < 20; ++step) {
        compute(model, 0, step);
        client.step();
      }
    } else {
      RawWorker raw(store, rank);
      Header header = pack(Request{.kind = RequestKind::push, .worker = 0, .sequence = 1});
      raw.communicator.send(ConstBuffer(header), kServerSide, kHeaderTag);
      try {
        raw.communicator.recv(Buffer(header), kServerSide, kHeaderTag);
      } catch (const AbortedError& error) {
        told = error.what();
      }
    }
  });
  require_none(errors);
  EXPECT_NE(told.find("a request makes no sense: the worker is 0, not 1"), std::string::npos) << told;
  EXPECT_EQ(served->lost, std::vector<int>{1});
  EXPECT_EQ(served->updates, 20U);
}

TEST(ServerFaults, APushThatIsCutOffHasNoEffect) {
  Job job{.options = {.rule = ServerRule::unbounded}, .workers = 2};
  ChainImpl begin(1);
  const auto errors = run_job(3, [&](const std::shared_ptr<Store>& store, int rank) {
    ChainImpl model(1);
    if (rank == 0) {
      ParameterServer server(store, rank, 3, model, job.options, job.settings);
      EXPECT_EQ(server.serve().updates, 0U);
    } else if (rank == 1) {
      ParameterServerClient client(store, rank, 3, model, job.options);
      fill(model, 5);
      client.finish();
      EXPECT_EQ(difference(model, begin), 0);
    } else {
      RawWorker raw(store, rank);
      const ServerLayout layout(model, job.options);
      const Header header =
          pack(Request{.kind = RequestKind::push, .worker = 1, .sequence = 1, .elements = layout.elements()});
      raw.communicator.send(ConstBuffer(header), kServerSide, kHeaderTag);
    }  // and dies, before its gradients
  });
  require_none(errors);
}

/// A server that dies when it has seen the first push, and leaves a checkpoint that has it or has not;
/// another one takes its place.
void restart(bool has_applied, bool is_answer_lost) {
  const Folder folder;
  ParameterServerOptions options{.reconnect = std::chrono::seconds(20)};
  const ParameterServerSettings settings{.make_optimizer = sgd(0.1), .checkpoint = folder.path + "/server"};
  ChainImpl alone(1);
  torch::optim::SGD optimizer(alone.parameters(), 0.1);
  for (int step = 0; step < 3; ++step) {
    compute(alone, 0, step);
    optimizer.step();
  }
  const auto errors = run_job(2, [&](const std::shared_ptr<Store>& job_store, int rank) {
    ChainImpl model(1);
    if (rank == 1) {
      ParameterServerClient client(job_store, rank, 2, model, options);
      client.pull();
      for (int step = 0; step < 3; ++step) {
        compute(model, 0, step);
        client.step();
      }
      EXPECT_LT(difference(model, alone), 1e-6) << has_applied << is_answer_lost;
      return;
    }
    const auto store = make_prefix_store("parameter server/", job_store);
    const ServerLayout layout(model, options);
    ServerShard shard(layout, 0, settings.make_optimizer, options.push);
    std::vector<WorkerRecord> workers(1);
    store->set("plan of rank 0", store->get("plan of rank 1", std::chrono::seconds(10)));
    EXPECT_EQ(begin_generation(*store, 0), 1U);
    EXPECT_EQ(announced(*store, 0, 1, {0}, std::chrono::seconds(10)), std::vector<int>{0});
    const Pair pair{0, 1, 0};
    welcome(*store, pair);
    {
      Communicator communicator =
          meet(store, pair, kServerSide, {.timeout = std::chrono::seconds(10), .measure_costs = false});
      WorkerConnection connection(communicator, 0, shard);
      const auto next = [&] {
        do {
          connection.pending().wait();
        } while (!connection.advance());
        return connection.request().kind;
      };
      EXPECT_EQ(next(), RequestKind::hello);
      connection.answer({}, at::Tensor());
      EXPECT_EQ(next(), RequestKind::pull);
      connection.answer({}, shard.parameters());
      EXPECT_EQ(next(), RequestKind::push_pull);
      if (has_applied) {
        const Contribution one{&connection.push(), 1};
        shard.apply({&one, 1});
        workers[0].sequence = 1;
      }
      save_server(settings.checkpoint, shard, workers);
      if (!is_answer_lost) {
        connection.answer({.version = shard.version(), .sequence = 1}, shard.parameters());
        EXPECT_EQ(next(), RequestKind::push_pull);  // the second one: it has no effect
      }
    }
    ParameterServer server(job_store, 0, 2, model, options, settings);
    const ParameterServerStatistics& statistics = server.serve();
    EXPECT_EQ(statistics.updates, has_applied ? 2U : 3U);
    EXPECT_TRUE(statistics.lost.empty());
  });
  require_none(errors);
}

TEST(ServerFaults, ARestartedServerGetsWhatItHasNotApplied) {
  restart(false, true);
}
TEST(ServerFaults, ARestartedServerGetsNothingTwice) {
  restart(true, true);
}
TEST(ServerFaults, ARestartedServerGetsThePushThatWasUnderWay) {
  restart(true, false);
}

TEST(ServerFaults, AServerThatNobodyReplacesIsNamed) {
  ParameterServerOptions options{.reconnect = std::chrono::seconds(1)};
  const auto errors = run_job(2, [&](const std::shared_ptr<Store>& job_store, int rank) {
    ChainImpl model(1);
    if (rank == 1) {
      ParameterServerClient client(job_store, rank, 2, model, options);
      client.pull();
      return;
    }
    const auto store = make_prefix_store("parameter server/", job_store);
    store->set("plan of rank 0", store->get("plan of rank 1", std::chrono::seconds(10)));
    begin_generation(*store, 0);
    EXPECT_EQ(announced(*store, 0, 1, {0}, std::chrono::seconds(10)), std::vector<int>{0});
    welcome(*store, {0, 1, 0});
    const Communicator dies =
        meet(store, {0, 1, 0}, kServerSide, {.timeout = std::chrono::seconds(10), .measure_costs = false});
  });
  EXPECT_NE(message(errors[1]).find("server 0 (rank 0) was lost"), std::string::npos) << message(errors[1]);
}

TEST(ServerFaults, AnotherJobGoesOnFromTheCheckpoint) {
  const Folder folder;
  Job job{.options = {.servers = 2}};
  ChainImpl end(1);
  for (int run = 0; run < 2; ++run) {
    const int first = 3 * run;
    std::mutex mutex;
    const auto errors = run_job(4, [&](const std::shared_ptr<Store>& store, int rank) {
      ChainImpl model(run == 0 ? 1 : 9);  // the second job's values come from the file
      if (rank < 2) {
        ParameterServerSettings settings{.make_optimizer = sgd(0.1, 0.9),
                                         .checkpoint = folder.path + "/" + std::to_string(rank)};
        ParameterServer server(store, rank, 4, model, job.options, settings);
        server.serve();
        return;
      }
      ParameterServerClient client(store, rank, 4, model, job.options);
      client.pull();
      for (int step = first; step < first + 3; ++step) {
        compute(model, client.worker(), step);
        client.step();
      }
      client.finish();
      const std::lock_guard lock(mutex);
      end = model;
    });
    require_none(errors);
  }
  ChainImpl whole(1);
  job.settings = {.make_optimizer = sgd(0.1, 0.9)};
  require_none(job.run([&](ParameterServerClient& client, ChainImpl& model) {
    client.pull();
    for (int step = 0; step < 6; ++step) {
      compute(model, client.worker(), step);
      client.step();
    }
    EXPECT_LT(difference(model, end), 1e-6);
  }));
}

TEST(ServerFaults, ADamagedCheckpointIsAnErrorThatNamesIt) {
  const Folder folder;
  const std::string path = folder.path + "/server";
  const ChainImpl model(1);
  const ServerLayout layout(model, {});
  ServerShard shard(layout, 0, sgd(0.1), {});
  std::vector<WorkerRecord> workers(1);
  save_server(path, shard, workers);
  EXPECT_TRUE(load_server(path, shard, workers));
  const std::string name = path + "/step-1/rank-0.safetensors";
  std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
  const std::string bytes = (std::ostringstream() << file.rdbuf()).str();
  const float value = shard.parameters().flatten()[3].item<float>();
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&value), sizeof value));
  ASSERT_NE(at, std::string::npos);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(bytes[at] ^ 1)).flush();
  EXPECT_NE(problem_of([&] { load_server(path, shard, workers); }).find(name + ": it is damaged"),
            std::string::npos);
}

}  // namespace
}  // namespace kolo::test::server
