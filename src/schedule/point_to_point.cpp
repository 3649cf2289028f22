#include "schedule/point_to_point.hpp"

#include <utility>

#include "schedule/builder.hpp"

namespace kolo::schedule {

Schedule make_send(int rank, int size, int peer) {
  ScheduleBuilder builder(Collective::send_recv, rank, size, 0, 1);
  builder.send(peer, input(0));
  return std::move(builder).finish();
}

Schedule make_recv(int rank, int size, int peer) {
  ScheduleBuilder builder(Collective::send_recv, rank, size, 0, 1);
  builder.recv(peer, output(0));
  return std::move(builder).finish();
}

}  // namespace kolo::schedule
