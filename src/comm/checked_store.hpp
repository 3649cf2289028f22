// A Store of the caller's own, whose mistakes become errors that name it.
#pragma once

#include <chrono>
#include <memory>

#include "kolo/store.hpp"

namespace kolo::comm {

/// A view of `store` in which every call returns, or throws a RendezvousError that names the store: if the
/// store throws, whatever that is, or does not return in time. `patience`: for calls without a timeout of
/// their own. A store that has not returned once is not called again. A store of kolo's own is returned as it
/// is.
std::shared_ptr<Store> make_checked_store(std::shared_ptr<Store> store, std::chrono::nanoseconds patience);
/// The same for any store, also one of kolo's own, whose host may be lost: no call takes longer than
/// `patience`, which comes to a call's own timeout.
std::shared_ptr<Store> make_impatient_store(std::shared_ptr<Store> store, std::chrono::nanoseconds patience);

}  // namespace kolo::comm
