// core_loss(): how much of its core the calling thread loses to others.
#pragma once

#include "base/deadline.hpp"

namespace kolo {

/// The share of the time, from 0 to 1, in which the calling thread could have run and did not, lately: some
/// tenths of a second, in all that it does. It is 0 until the thread has been watched for 64 ms, and where
/// the system does not tell (/proc/thread-self/schedstat). Costs a comparison, and some microseconds in each
/// 64 ms.
double core_loss(Clock::time_point now);

}  // namespace kolo
