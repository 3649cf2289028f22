// Ranks as processes: forks them, sends them signals, and collects their results.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kolo/kolo.hpp"

namespace kolo::test {

struct ProcessOptions {
  int size = 3;
  std::string transports = "shm";
  std::chrono::nanoseconds timeout = std::chrono::seconds(20);
  /// Environment variables, set before kolo reads them.
  std::map<std::string, std::string> settings = {};
  /// True: the ranks use the store of the environment, in which RANK and WORLD_SIZE are set, and not a file.
  bool by_environment = false;
  /// Runs in each rank before it creates its communicator. The store's file is already open then.
  std::function<void(int rank)> prepare = {};
  /// Makes a rank's store from the file store.
  std::function<std::shared_ptr<Store>(int rank, std::shared_ptr<Store> file)> meet_in = {};
  std::string key = {};  ///< Options::key
  int newcomers = 0;     ///< so many of the ranks, the last ones, join() the group of the others
  std::function<void(int rank, Options& options)> adjust = {};  ///< a rank's options
};

/// Processor time of all threads of this process so far.
double processor_seconds();

/// How one rank ended.
struct RankEnd {
  bool exited = false;
  int code = -1;  ///< 0: the body returned; 1: it threw
  int signal = 0;
  std::string error;    ///< the class and text of the exception
  int blamed = -1;      ///< the peer in the error's context
  double ended_at = 0;  ///< seconds after the latest hurt(), measured by the rank
};

/// Forks one process per rank, with a file store in a temporary folder. Construct it while this process has
/// one thread. The destructor kills the processes that are left and removes the folder.
class Processes {
 public:
  Processes(const ProcessOptions& options, const std::function<void(Communicator&)>& body);
  ~Processes();
  Processes(const Processes&) = delete;

  /// Blocks until every rank has its communicator (10 s at most).
  void await_ready();
  /// Sends the signal and notes the time.
  void hurt(int rank, int signal);
  /// Waits for all ranks except those listed, for at most `limit`. Kills ranks that still run then and notes
  /// it in their errors.
  std::vector<RankEnd> collect(std::chrono::seconds limit, const std::vector<int>& except = {});
  RankEnd collect_one(int rank, std::chrono::seconds limit);

 private:
  struct Rank {
    int pid = -1;
    int pipe = -1;
    bool collected = false;
    RankEnd end;
  };
  std::filesystem::path folder_;
  std::vector<Rank> ranks_;
  double hurt_at_ = 0;
};

}  // namespace kolo::test
