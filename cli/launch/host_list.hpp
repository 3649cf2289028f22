// HostList: the hosts that there are, from a file that may change or from a command that is run now and then.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "launch/child.hpp"
#include "launch/hosts.hpp"

namespace kolo::cli {

/// What a run of the command has printed, once it has ended.
struct Listing {
  std::string text = {};
  bool has_ended = false;
  bool has_failed = false;
};

/// A run of the command.
class ListingChild final : public Child {
 public:
  ListingChild(std::shared_ptr<Listing> listing, Console& console, std::vector<RankExit>& exits)
      : Child(0, 0, console, exits), listing_(std::move(listing)), errors_(console.err(), "[hosts] ") {}
  void signal(int signal, bool) override {
    if (pid() > 0) ::kill(-pid(), signal);
  }
  void resize(const Terminals&) override {}

 private:
  OutputReady ready() const override { return {}; }
  void take(Stream stream, std::string_view bytes) override;
  void on_end(pid_t pid, int wait_status) override;

  const std::shared_ptr<Listing> listing_;
  LineCutter errors_;
};

class HostList {
 public:
  /// At most one of `file` and `command` is set; without both the list never changes.
  HostList(std::string file, std::string command) : file_(std::move(file)), command_(std::move(command)) {}

  /// Looks now and then. The list, if it is another one than before. One that makes no sense is told to the
  /// user, and changes nothing. A run of the command goes into `children`.
  std::optional<std::vector<HostSlots>> look(Console& console, std::vector<RankExit>& exits,
                                             std::vector<std::unique_ptr<Child>>& children,
                                             const sigset_t& signals);

 private:
  const std::string file_;
  const std::string command_;
  std::string text_;                  ///< the last one
  std::shared_ptr<Listing> listing_;  ///< of the run that goes on
  Deadline again_ = Deadline::after({});
};

}  // namespace kolo::cli
