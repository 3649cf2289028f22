#include "transport/inproc/switchboard.hpp"

#include <algorithm>

#include "transport/inproc/faults.hpp"

namespace kolo::transport::inproc {

Switchboard& Switchboard::instance() {
  static auto* const instance = new Switchboard;  // never destroyed: ranks may outlive main()
  return *instance;
}

std::shared_ptr<Offer> Switchboard::meet(const Meeting& meeting, const std::shared_ptr<Doorbell>& doorbell) {
  const std::lock_guard lock(mutex_);
  if (const auto found = offers_.find(meeting); found != offers_.end()) {
    auto offer = std::move(found->second);
    offers_.erase(found);
    offer->is_taken = true;
    offer->doorbell->ring();
    return offer;
  }
  auto channel = make_channel(meeting);
  if (!channel->valid()) return nullptr;
  return offers_[meeting] = std::make_shared<Offer>(std::move(channel), doorbell);
}

void Switchboard::withdraw(const Meeting& meeting, const std::shared_ptr<Offer>& offer) {
  const std::lock_guard lock(mutex_);
  if (const auto found = offers_.find(meeting); found != offers_.end() && found->second == offer)
    offers_.erase(found);
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

}  // namespace kolo::transport::inproc
