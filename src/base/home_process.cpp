#include "base/home_process.hpp"

#include <pthread.h>
#include <unistd.h>

#include <fmt/format.h>

namespace kolo {

HomeProcess::Current HomeProcess::current_;

HomeProcess::Current::Current() {
  // The child has one thread while the handler runs: the counter needs no atomic.
  ::pthread_atfork(nullptr, nullptr, [] { ++current_.generation; });
}

HomeProcess::HomeProcess() : generation_(current_.generation), id_(::getpid()) {}

Status HomeProcess::refusal(std::string_view what) const {
  return Status(Code::invalid_argument,
                fmt::format("{} belongs to process {}, and this is its forked child {}: a forked child must "
                            "make its own",
                            what, id_, ::getpid()));
}

}  // namespace kolo
