#include "launch/host_list.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "kolo/error.hpp"

namespace kolo::cli {
namespace {

constexpr std::chrono::seconds kReadAgain{1};
constexpr std::chrono::seconds kRunAgain{5};

}  // namespace

void ListingChild::take(Stream stream, std::string_view bytes) {
  if (stream == Stream::out) {
    listing_->text += bytes;
  } else {
    bytes.empty() ? errors_.finish() : errors_.feed(bytes);
  }
}

void ListingChild::on_end(pid_t, int wait_status) {
  listing_->has_ended = true;
  listing_->has_failed = wait_status != 0;
  for (UniqueFd* fd : {&out_, &err_}) fd->reset();  // a process that it started may hold them
}

std::optional<std::vector<HostSlots>> HostList::look(Console& console, std::vector<RankExit>& exits,
                                                     std::vector<std::unique_ptr<Child>>& children,
                                                     const sigset_t& signals) {
  std::ostringstream text;
  if (listing_ && listing_->has_ended) {
    const auto ended = std::exchange(listing_, nullptr);
    if (ended->has_failed) {
      console.say("--hosts-command has failed; the hosts stay as they are");
      return std::nullopt;
    }
    text << ended->text;
  } else if (!again_.passed() || listing_) {
    return std::nullopt;
  } else if (!command_.empty()) {
    again_ = Deadline::after(kRunAgain);
    listing_ = std::make_shared<Listing>();
    children.push_back(std::make_unique<ListingChild>(listing_, console, exits));
    std::vector<std::string> environment;
    for (char** at = environ; *at; ++at) environment.emplace_back(*at);
    children.back()->start({"/bin/sh", "-c", command_}, environment, signals, false);
    return std::nullopt;
  } else {
    again_ = Deadline::after(kReadAgain);
    text << std::ifstream(file_).rdbuf();
  }
  if (text.str() == text_) return std::nullopt;
  text_ = text.str();
  try {
    std::istringstream lines(text_);
    return read_hosts(lines, command_.empty() ? file_ : "--hosts-command");
  } catch (const InvalidArgumentError& error) {
    console.say(fmt::format("{}; the hosts stay as they are", error.what()));
    return std::nullopt;
  }
}

}  // namespace kolo::cli
