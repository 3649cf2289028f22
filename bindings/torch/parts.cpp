// Groups of the ranks of another group.
#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "group.hpp"
#include "interrupt.hpp"
#include "kolo/error.hpp"
#include "kolo/trouble.hpp"

namespace kolo::pytorch {

Group::Group(Communicator communicator, const GroupOptions& options)
    : Base(communicator.rank(), communicator.size()),
      communicator_(std::move(communicator)),
      options_(c10::make_intrusive<GroupOptions>(options)) {
  communicator_.set_timeout(nanoseconds_of(options_->timeout));
  has_network_ = is_linked_by(communicator_, "tcp");
  enrol();
}

/// With `options`, or this group's and their timeout.
c10::intrusive_ptr<Base> Group::part(Communicator communicator,
                                     const c10::intrusive_ptr<Base::Options>& options) const {
  const auto* const own = dynamic_cast<const GroupOptions*>(options.get());
  GroupOptions made(own != nullptr ? *own : *options_);
  if (options != nullptr) made.timeout = options->timeout;
  return c10::make_intrusive<Group>(std::move(communicator), made);
}

c10::intrusive_ptr<Base> Group::split(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                      const std::vector<int>& ranks,
                                      const c10::intrusive_ptr<Base::Options>& options) {
  const WithoutLock unlocked;
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  const bool is_member = place != ranks.end();
  // PyTorch 2.15 asks a rank that is no member once for each type of device, and a member once.
  std::string name = name_of_part(options.get());
  const bool is_asked_again = !name.empty() && name == last_part_;
  last_part_ = std::move(name);
  if (is_asked_again && !is_member) return {};
  Communicator members =
      communicator().split(is_member ? ranks.front() : -1, static_cast<int>(place - ranks.begin()));
  if (!is_member) return {};
  return part(std::move(members), options);
}

c10::intrusive_ptr<Base> Group::shrink(const std::vector<std::int64_t>& excluded, int flags,
                                       const c10::intrusive_ptr<Base::Options>& options) {
  const WithoutLock unlocked;
  Communicator whole = communicator(), rest;
  std::vector<int> ranks;
  for (int rank = 0; rank < size_; ++rank) {
    if (std::find(excluded.begin(), excluded.end(), rank) == excluded.end()) ranks.push_back(rank);
  }
  if (flags != 0) whole.abort("the process group shrinks");
  try {
    rest = whole.create_group(ranks);
  } catch (const InvalidArgumentError&) {
    throw;
  } catch (const Error&) {  // a rank is lost, and the links with it
    rest = whole.shrink();
  }
  if (rest.size() != std::ssize(ranks)) {
    throw std::runtime_error(with_code("kolo: " + std::to_string(rest.size()) + " ranks are left of the " +
                                       std::to_string(ranks.size()) + " to which the group was to shrink"));
  }
  return part(std::move(rest), options);
}

}  // namespace kolo::pytorch
