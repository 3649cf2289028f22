// Ranks as processes: forks them, hurts them, and collects what they say.
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
  /// Of the environment, before kolo reads it.
  std::map<std::string, std::string> settings = {};
  /// The ranks meet as the environment says, where RANK and WORLD_SIZE are set, and not in a file.
  bool by_environment = false;
  /// Runs in each rank before it meets the others; they meet in a file that is open already.
  std::function<void(int rank)> prepare = {};
  /// What a rank meets the others in, made of that file.
  std::function<std::shared_ptr<Store>(int rank, std::shared_ptr<Store> file)> meet_in = {};
};

/// How one rank ended.
struct RankEnd {
  bool exited = false;
  int code = -1;  ///< 0: the body returned; 1: it threw
  int signal = 0;
  std::string error;    ///< the class and text of the exception
  int blamed = -1;      ///< its context's peer
  double ended_at = 0;  ///< seconds after the latest hurt(), by the clock of the rank itself
};

/// Forks one process per rank, meeting in a file store of its own folder; made while this process has one
/// thread. The destructor kills what is left and removes the folder.
class Processes {
 public:
  Processes(const ProcessOptions& options, const std::function<void(Communicator&)>& body);
  ~Processes();
  Processes(const Processes&) = delete;

  /// Blocks until every rank has its communicator (10 s at most).
  void await_ready();
  /// Sends the signal and notes the time.
  void hurt(int rank, int signal);
  /// Waits for all ranks but those listed, `limit` at most; ranks that are still running then are killed (and
  /// say so).
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
