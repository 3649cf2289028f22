#include "transport/inproc/switchboard.hpp"

#include <algorithm>
#include <cerrno>

#include "transport/inproc/faults.hpp"
#include "transport/missing.hpp"

namespace kolo::inproc {

Switchboard& Switchboard::instance() {
  static auto* const instance = new Switchboard;  // never destroyed: ranks may outlive main()
  return *instance;
}

Result<Switchboard::Met> Switchboard::meet(const std::vector<Meeting>& meetings, const Deadline& deadline,
                                           const std::function<bool(std::size_t)>& is_gone) {
  Met met;
  std::vector<std::shared_ptr<Offer>> mine(meetings.size());  // null where the other side had come first
  std::unique_lock lock(mutex_);
  const auto withdraw = [&] {
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (mine[i] && !mine[i]->taken) offers_.erase(meetings[i]);
    }
  };
  for (std::size_t i = 0; i < meetings.size(); ++i) {
    if (const auto found = offers_.find(meetings[i]); found != offers_.end()) {
      found->second->taken = true;
      met.channels.push_back(found->second->channel);
      offers_.erase(found);
      continue;
    }
    auto channel = make_channel(meetings[i]);
    if (!channel->valid()) {
      withdraw();
      return Status::from_errno("inproc: eventfd", EMFILE);
    }
    met.channels.push_back(channel);
    mine[i] = std::make_shared<Offer>(Offer{channel});
    offers_[meetings[i]] = mine[i];
  }
  taken_.notify_all();
  const auto missing = [&] {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (mine[i] && !mine[i]->taken) indices.push_back(i);
    }
    return indices;
  };
  const std::chrono::nanoseconds longest_wait = kAskWhoIsGone;
  for (bool in_vain = false; !missing().empty() && !in_vain && !deadline.passed();) {
    taken_.wait_for(lock, std::min(deadline.left(), longest_wait));
    const auto left = missing();
    lock.unlock();  // is_gone() may block: other ranks can match meanwhile
    in_vain = std::ranges::any_of(left, is_gone);
    lock.lock();
  }
  met.missing = missing();
  withdraw();
  return met;
}

std::shared_ptr<Channel> Switchboard::make_channel(const Meeting& meeting) {
  auto channel = std::make_shared<Channel>(meeting.low_rank, meeting.high_rank);
  auto& channels = channels_[meeting.job];
  std::erase_if(channels, [](const auto& other) { return other.expired(); });
  channels.push_back(channel);
  if (const auto found = faults_.find(meeting.job); found != faults_.end()) {
    const Faults& faults = found->second;
    const auto delay = faults.delays.find({meeting.low_rank, meeting.high_rank});
    if (delay != faults.delays.end()) channel->set_delay(delay->second);
    for (const int side : {0, 1}) {
      if (faults.stalled.contains(channel->rank(side))) channel->set_stalled(side, true);
      if (faults.lost.contains(channel->rank(side))) channel->end();
    }
  }
  return channel;
}

std::vector<std::shared_ptr<Channel>> Switchboard::channels_of(const std::string& job) {
  std::vector<std::shared_ptr<Channel>> alive;
  for (const auto& weak : channels_[job]) {
    if (auto channel = weak.lock()) alive.push_back(std::move(channel));
  }
  if (alive.empty()) channels_.erase(job);
  return alive;
}

void Switchboard::set_delay(const std::string& job, int a, int b, std::chrono::nanoseconds delay) {
  const std::lock_guard lock(mutex_);
  const std::pair<int, int> pair = std::minmax(a, b);
  faults_[job].delays[pair] = delay;
  for (const auto& channel : channels_of(job)) {
    if (std::pair(channel->rank(0), channel->rank(1)) == pair) channel->set_delay(delay);
  }
}

void Switchboard::set_stalled(const std::string& job, int rank, bool stalled) {
  const std::lock_guard lock(mutex_);
  if (stalled) {
    faults_[job].stalled.insert(rank);
  } else {
    faults_[job].stalled.erase(rank);
  }
  for (const auto& channel : channels_of(job)) {
    for (const int side : {0, 1}) {
      if (channel->rank(side) == rank) channel->set_stalled(side, stalled);
    }
  }
}

void Switchboard::lose(const std::string& job, int rank) {
  const std::lock_guard lock(mutex_);
  faults_[job].lost.insert(rank);
  for (const auto& channel : channels_of(job)) {
    if (channel->rank(0) == rank || channel->rank(1) == rank) channel->end();
  }
}

void Switchboard::clear_faults(const std::string& job) {
  const std::lock_guard lock(mutex_);
  faults_.erase(job);
  for (const auto& channel : channels_of(job)) {
    channel->set_delay(std::chrono::nanoseconds(0));
    for (const int side : {0, 1}) channel->set_stalled(side, false);
  }
}

void set_delay(const std::string& job, int a, int b, std::chrono::nanoseconds delay) {
  Switchboard::instance().set_delay(job, a, b, delay);
}
void set_stalled(const std::string& job, int rank, bool stalled) {
  Switchboard::instance().set_stalled(job, rank, stalled);
}
void lose(const std::string& job, int rank) {
  Switchboard::instance().lose(job, rank);
}
void clear_faults(const std::string& job) {
  Switchboard::instance().clear_faults(job);
}

}  // namespace kolo::inproc
